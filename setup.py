"""The C extension; everything else about the package is in pyproject.toml.

`python setup.py build_ext --inplace` rebuilds what changed; `make build` runs it in .venv.
"""

import os
import sys
from pathlib import Path

from setuptools import setup

PROJECT = Path(__file__).resolve().parent
os.chdir(PROJECT)
sys.path.insert(0, str(PROJECT / "build_support"))

from native_extension import BuildNative, native_extension  # noqa: E402

setup(ext_modules=[native_extension()], cmdclass={"build_ext": BuildNative})
