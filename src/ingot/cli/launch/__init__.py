"""Run a program as several communicating ranks, on one machine or many.

`ingot launch -n 4 train.py --lr 0.1` starts four ranks on this machine; `--hosts a,b -n 2` starts
two on each of two machines over ssh, which need the same version of ingot. A script that ends in
.py, `-- -m module` and `-- -c code` run as under `ingot run`, with ingot in place of mlx. Anything
else is a program, such as mlx_lm.lora. The options are those of `mlx.launch`; options for its other
backends are accepted and ignored, because MPI needs none.

Each line of output starts with its rank. If a rank fails, all ranks end with its exit code. Ranks
on one machine divide its cores among themselves, unless INGOT_NUM_THREADS or --threads is set.
"""

from ingot.cli.launch.command import add_arguments, main

__all__ = ["add_arguments", "main"]
