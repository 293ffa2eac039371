"""`python -m tests.fuzz`: fuzz for long; `--help` lists the options."""

from __future__ import annotations

import argparse
import time

from tests.fuzz.check import Difference, Statistics, check
from tests.fuzz.grow import grow
from tests.fuzz.loops import LoopStatistics, check_loop, grow_loop
from tests.fuzz.products import ProductStatistics, check_product, grow_product
from tests.fuzz.stories import KINDS, tell_story
from tests.fuzz.tell import check_story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--programs", type=int, default=3_000, help="how many of each kind at most")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first program's seed")
    parser.add_argument("--seconds", type=float, default=600, help="how long at most")
    parser.add_argument(
        "--every", type=int, default=100, help="how often to ask MLX's compile, which takes seconds"
    )
    parser.add_argument("--show", type=int, help="print the program of a seed and leave")
    parser.add_argument("--story", type=int, help="print the story of a seed and leave")
    parser.add_argument(
        "--kinds",
        nargs="*",
        choices=["programs", "loops", "products", *KINDS],
        help="what to check; all by default",
    )
    options = parser.parse_args()
    if options.show is not None:
        print(grow(options.show).source())
        return 0
    if options.story is not None:
        kind = options.kinds[0] if options.kinds else None
        print(tell_story(options.story, kind).source())
        return 0
    kinds = options.kinds or ["programs", "loops", "products", *KINDS]
    statistics, loops, products, failures = Statistics(), LoopStatistics(), ProductStatistics(), 0
    end = time.monotonic() + options.seconds
    for seed in range(options.seed, options.seed + options.programs):
        if time.monotonic() > end:
            break
        for kind in kinds:
            try:
                if kind == "programs":
                    number = seed - options.seed
                    check(grow(seed), statistics, with_mlx_compile=number % options.every == 0)
                elif kind == "loops":
                    check_loop(grow_loop(seed), loops)
                elif kind == "products":
                    check_product(grow_product(seed), products)
                else:
                    check_story(tell_story(seed, kind), statistics)
            except Difference as difference:
                failures += 1
                print(f"seed {seed}, {kind}: {difference}\n", flush=True)
    print(f"ingot: fuzz: {statistics}; {loops}; {products}; {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
