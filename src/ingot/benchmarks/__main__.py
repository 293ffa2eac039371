"""`python -m ingot.benchmarks` is `ingot bench`."""

import argparse
import sys

from ingot.benchmarks import command

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m ingot.benchmarks",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    sys.exit(command.main(parser.parse_args()))
