"""Runs a program as several ranks that communicate, on this machine or on several.

`ingot launch -n 4 train.py --lr 0.1` starts four ranks here; `--hosts a,b -n 2` starts two on each
of two machines, by ssh, where the same ingot must be installed. A script that ends in .py, and
`-- -m module` or `-- -c code`, run like under `ingot run`: mlx is ingot. Everything else is a
program, such as mlx_lm.lora. The options are those of `mlx.launch`; options of its other
ways of communication are accepted and mean nothing here, because MPI needs none.

Each line of output begins with the rank it is from. A rank that fails ends all; the exit code is
its own. Ranks of one machine share its cores, unless INGOT_NUM_THREADS or --threads says otherwise.
"""

from ingot.cli.launch.command import add_arguments, main

__all__ = ["add_arguments", "main"]
