"""Run by test_collectives.py as two ranks, one of which fails in the way that is asked for."""

from __future__ import annotations

import os
import signal
import sys
import time

import ingot.core as mx

what = sys.argv[1]
rank = mx.distributed.init().rank()
total = mx.distributed.all_sum(mx.ones(4))
mx.eval(total)
if rank == 1 and what == "raise":
    raise KeyError("lost")
if rank == 1 and what == "leave":
    sys.exit(3)
if rank == 1 and what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1 and what == "late":
    time.sleep(3)
again = mx.distributed.all_sum(total)
# What only one rank evaluates, the other performs when it ends.
if what != "lazy" or rank == 1:
    assert again.tolist() == [4] * 4
print(f"rank {rank} ends", flush=True)
