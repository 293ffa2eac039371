"""`ingot bench`: runs ingot.benchmarks.command."""

from ingot.benchmarks import command
from ingot.benchmarks.command import add_arguments, main

__all__ = ["add_arguments", "main"]

__doc__ = command.__doc__  # the description in `ingot bench --help`
