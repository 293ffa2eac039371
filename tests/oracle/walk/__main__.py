"""`python -m tests.oracle.walk`: call everything with many arguments, and compare with MLX.

Prints the differences that no line of `known.py` explains, and counts all of them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.oracle.walk import derivatives
from tests.oracle.walk.check import compared
from tests.oracle.walk.variants import listed, variants
from tests.oracle.walk.worker import Worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.walk")
    parser.add_argument("--share", type=int, default=1, help="take one of so many values")
    parser.add_argument("--part", default="1/1", help="2/5 is the second fifth of the calls")
    parser.add_argument("--only", default="", help="the calls that hold this text")
    parser.add_argument("--seconds", type=float, default=3600, help="how long at most")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    mlx, ours = Worker("mlx"), Worker("ingot")
    end = time.monotonic() + options.seconds
    batches = [(call, None) for call in listed() if options.only in call]
    batches += [(one, dtype) for one in derivatives.ALL for dtype in derivatives.DTYPES]
    part, parts = map(int, options.part.split("/"))
    for text, dtype in batches[part - 1 :: parts]:
        if time.monotonic() > end:
            print("stopped early")
            break
        texts = derivatives.transforms(text, dtype) if dtype else variants(text, options.share)
        if options.only not in text:
            continue
        for one in compared(texts, mlx, ours):
            counts[one.verdict] += 1
            if one.verdict == "unexplained":
                print(f"{one.call}\n    {one.difference}", flush=True)
    mlx.close()
    ours.close()
    print(f"ingot: walk: {sum(counts.values())} calls:")
    for verdict, count in counts.most_common():
        print(f"{count:7} {verdict}")
    return 1 if counts["unexplained"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
