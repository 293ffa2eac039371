"""Whose code is whose: the user's, Python's, ingot's, or a package's."""

from __future__ import annotations

import collections
import json
import types

import numpy as np

import ingot.compiler.trace.users_code
import ingot.core as mx
from ingot.compiler.trace.users_code import is_users_class, is_users_code, is_users_module


class Own:
    pass


def test_code() -> None:
    assert is_users_code(test_code.__code__)
    assert not is_users_code(json.dumps.__code__)
    assert not is_users_code(np.linalg.norm.__wrapped__.__code__)
    assert not is_users_code(ingot.compiler.trace.users_code.is_users_code.__code__)


def test_modules() -> None:
    assert is_users_module(types.ModuleType("notebook"))
    assert not is_users_module(json)
    assert not is_users_module(np)
    assert not is_users_module(mx)


def test_classes() -> None:
    assert is_users_class(Own)
    assert not is_users_class(dict)
    assert not is_users_class(collections.OrderedDict)
    assert not is_users_class(np.ndarray)
