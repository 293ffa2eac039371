"""Names of `ingot.core` that are imported on first use, in processes that have not used them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from textwrap import dedent

import pytest

import ingot.core as mx
from ingot.core.later import ORIGINS, SUBMODULES


def _output(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_all_public_names_of_the_modules_are_there() -> None:
    """Except what modules export for others: gather_mm has helpers, norm is in linalg."""
    modules = {module for module, _ in ORIGINS.values()}
    wanted = {
        name
        for module in modules - {"ingot.ops.products.gathered_products", "ingot.ops.reduce.norms"}
        for name in importlib.import_module(module).__all__
    }
    assert wanted <= set(ORIGINS)


def test_they_are_not_imported_with_the_module() -> None:
    loaded = _output("import sys, ingot.core; print(*sys.modules)")
    modules = {module for module, _ in ORIGINS.values()}
    modules |= {f"ingot.core.{name}" for name in SUBMODULES}
    assert modules & set(loaded) == set()


@pytest.mark.parametrize(
    "make",
    [
        "mx.array(np.array([1.5], ml_dtypes.bfloat16))",
        "mx.array([1.5], mx.bfloat16)",
        "mx.ones(1, mx.bfloat16) * 1.5",
    ],
)
def test_bfloat16_is_imported_when_it_is_used(make: str) -> None:
    code = f"""
        import sys
        import numpy as np
        import ingot.core as mx
        assert "ml_dtypes" not in sys.modules
        import ml_dtypes
        x = {make}
        value, gradient = mx.value_and_grad(lambda x: (x * x).sum())(x)
        assert gradient.dtype == mx.bfloat16, gradient
        assert np.array(gradient).dtype == ml_dtypes.bfloat16
        print(value.item(), gradient.item(), mx.compile(mx.sum)(x @ x).item())
    """
    assert _output(code) == ["2.25", "3.0", "2.25"]


def test_dir_and_star_list_them() -> None:
    names = {*ORIGINS, *SUBMODULES}
    assert names <= set(_output("import ingot.core as mx; print(*dir(mx))"))
    assert names <= set(_output("from ingot.core import *; print(*dir())"))


def test_they_are_checked_and_pickled_like_all_others() -> None:
    code = """
        import pickle
        import ingot.core as mx
        sort = pickle.loads(pickle.dumps(mx.sort))
        assert sort is mx.sort is vars(mx)["sort"]
        assert mx.sort.__module__ == "ingot.core", mx.sort.__module__
        try:
            mx.sort("text")
        except TypeError as error:
            print(error)
        try:
            mx.matrix_norm(3)
        except TypeError as error:
            print(error)
    """
    text = " ".join(_output(code))
    assert "[sort] a must be an array" in text
    assert "[matrix_norm] " in text


def test_a_replaced_name_stays_replaced() -> None:
    code = """
        import ingot.core as mx
        mx.load = print
        mx.load(mx.load is print)
    """
    assert _output(code) == ["True"]


def test_threads_get_the_same_object() -> None:
    code = """
        import threading
        import ingot.core as mx
        start, found = threading.Barrier(8), []
        def use():
            start.wait()
            found.append(mx.conv2d)
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(map(id, found))))
    """
    assert _output(code) == ["8", "1"]


@pytest.mark.parametrize("compiled", [True, False])
def test_the_first_use_may_be_in_a_trace(compiled: bool) -> None:
    """Modules that made arrays when they are imported would leave placeholders behind."""
    code = f"""
        import ingot.core as mx
        from ingot.core.later import ORIGINS, SUBMODULES
        def f(x):
            for name in (*ORIGINS, *SUBMODULES):
                getattr(mx, name)
            return mx.sort(x) + 1
        f = mx.compile(f) if {compiled} else mx.vmap(f)
        print(*f(mx.array([[3.0, 1.0]])).tolist()[0])
    """
    assert _output(code) == ["2.0", "4.0"]


def test_missing_names_are_missing() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        _ = mx.lod  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"mx\.clip"):
        _ = mx.clamp  # type: ignore[attr-defined]


def test_mlx_has_them_too() -> None:
    code = """
        import ingot
        ingot.install_as_mlx()
        import mlx.core as mx
        import ingot.core
        assert mx.fft is ingot.core.fft and mx.scan is ingot.core.scan
        for module, name in ((mx, "nothing"), (mx.fft, "nothing"), (mx.linalg, "other")):
            try:
                getattr(module, name)
            except AttributeError as error:
                print(str(error).split(" has ")[0].split("'")[1])
    """
    assert _output(code) == ["mlx.core", "mlx.core.fft", "mlx.core.linalg"]
