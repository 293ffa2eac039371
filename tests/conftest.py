"""What all tests share: the same random numbers in every run, poisoned memory, and how hard
hypothesis searches.

`INGOT_HYPOTHESIS=long` searches for long; the default is quick enough for every change. Warnings
are errors (pyproject.toml, [tool.pytest.ini_options]).
"""

from __future__ import annotations

import os
import random
import signal
import zlib

# All that the compiler makes is verified; before anything of ingot is imported.
os.environ.setdefault("INGOT_VERIFY", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Memory that nobody wrote holds NaN, True and -1: what reads it is wrong in every run, not in some.
os.environ.setdefault("INGOT_POISON_MEMORY", "1")

import ingot.core as mx

# Where this was started with Ctrl-C ignored, as shells do in the background, programs that tests
# start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Names that are imported on first use: tests look for all functions and all ops.
for _name in dir(mx):
    getattr(mx, _name)

# No deadline: on a shared machine a slow example says nothing about the code.
# The same examples in each run, so that a change can only fail for what it changed.
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=5_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
# On emulated processors, which are slow: build_support/wheels/emulated_tests.py.
settings.register_profile("few", parent=settings.get_profile("ci"), max_examples=8)
settings.load_profile(os.environ.get("INGOT_HYPOTHESIS", "ci"))


@pytest.fixture(autouse=True)
def same_random_numbers(request: pytest.FixtureRequest) -> None:
    """Seeds Python's and NumPy's generators from the test's own name, whatever ran before it."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)


# `make check-kernels`; also loaded here, because a module of `tests` is only found by now.
pytest_plugins = ["tests.support.kernel_check"] if os.environ.get("INGOT_CHECK_KERNELS") else []
