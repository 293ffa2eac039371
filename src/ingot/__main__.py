"""`python -m ingot` is the command `ingot`."""

import sys

from ingot.cli import main

if __name__ == "__main__":
    sys.exit(main())
