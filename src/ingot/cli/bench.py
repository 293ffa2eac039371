"""`ingot bench`: what ingot.benchmarks.command does, under the command's name."""

from ingot.benchmarks import command
from ingot.benchmarks.command import add_arguments, main

__all__ = ["add_arguments", "main"]

__doc__ = command.__doc__  # what `ingot bench --help` begins with
