"""The examples of the documents that the project started from run, as printed, under `ingot run`.

`seeds/` has the code of the documents: a page of MLX's documentation about `compile`, notes on it,
and a guide. Only the lines `# %%` were added, and a stray space taken out that no Python accepts
("state as a result" of the page). Two examples measure gelu with arrays of half a gigabyte, which
takes a minute: here they are 100 times smaller, unless INGOT_SEEDS is "as-printed".
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from .processes import HERE, printed, start

FILES = ["compile_page", "curated_notes", "practical_guide"]
SMALLER = [("(32, 1000, 4096)", "(32, 10, 4096)")]
if os.environ.get("INGOT_SEEDS") == "as-printed":
    SMALLER = []

FAST = "mx.compile(gelu)"
GELU = f"[mx.allclose({FAST}(x), gelu(x)).item(), len({FAST}.explain(x).kernels)]"

# The search whose function asks a placeholder for a list does as the error and the guide advise:
# without compile, or with the array itself.
SEARCH = """(
    search := mx.compile(lambda x: idx.search(x, k=10)),
    queries := mx.random.uniform(shape=(100, 64)),
    found := search(queries)[1],
    mx.disable_compile(),
    found.shape,
    mx.array_equal(found, c_search(queries)[1]).item(),
    search.cache_info().misses,
)[-3:]"""

# Three iterations find the largest singular value, which stands out, to float32's precision.
SVD = """(
    U.shape,
    S.shape,
    Vt.shape,
    mx.allclose(U.T @ U, mx.eye(32), atol=1e-4).item(),
    mx.allclose(S[0], mx.linalg.svd(A, compute_uv=False, stream=mx.cpu)[0], rtol=1e-4).item(),
    mx.all(S[1:] <= S[:-1]).item(),
)"""
SVD_ANSWER = "((512, 32), (32,), (32, 256), True, True, True)"

# What is asked after an example, and the answer.
QUESTIONS = {
    "compile_page: not compiled again": (
        "compiled_fun.cache_info().misses, compiled_fun.cache_info().hits",
        "(1, 2)",
    ),
    "compile_page: timing gelu": (GELU, "[True, 1]"),
    "compile_page: inner and outer": ("fun(mx.array(1.0))", "None"),
    "compile_page: shapeless reshape": (
        "out.shape, mx.array_equal(out, x.reshape(25, 3)).item(), compiled_fun.cache_info().misses",
        "((25, 3), True, 1)",
    ),
    "compile_page: shapeless flatten": (
        "out.shape, compiled_fun.cache_info().misses",
        "((25, 3), 1)",
    ),
    "curated_notes: training step": ("float(loss) < 1.9", "True"),
    "practical_guide: cache": ("compiled.cache_info().misses", "1"),
    "practical_guide: gelu speedup": (GELU, "[True, 1]"),
    "practical_guide: compiled svd": (SVD, SVD_ANSWER),
    "practical_guide: compiled kernel wrapper": (SVD, SVD_ANSWER),
    "practical_guide: compiled flat search": (SEARCH, "((100, 10), True, 1)"),
}

EXP = "array(2.36788, dtype=float32)"
E = "array(2.71828, dtype=float32)"
TWO, SIX = "array(2, dtype=float32)", "array(6, dtype=float32)"
ABS = "array(1, dtype=float32)\narray([1, 3], dtype=float32)\n"
THREE = "[array(3, dtype=float32)]\n"
MILLISECONDS = r"(Time per iter(ation)?:? \d+\.\d{3} (ms|\(ms\))\n){2}"
LOSSES = r"(array\(\d\.\d+, dtype=float32\)\n){10}"

# What an example prints; where that is times or random numbers, a pattern.
PRINTED = {
    "compile_page: basics": f"{EXP}\n{EXP}\n",
    "compile_page: timing gelu": re.compile(MILLISECONDS),
    "compile_page: compile disabled": "array(-5, dtype=float32)\n",
    "compile_page: state as a result": THREE,
    "compile_page: captured outputs": THREE,
    "compile_page: constants": f"{TWO}\n{TWO}\n",
    "compile_page: captured inputs": f"{TWO}\n{SIX}\n",
    "compile_page: compiled training": re.compile(LOSSES),
    "compile_page: transformations": f"{E}\n{E}\n",
    "compile_page: shapeless": ABS,
    "curated_notes: timed with and without compile": re.compile(
        r"no-compile: [\d.e-]+\ncompile:   [\d.e-]+\n"
    ),
    "curated_notes: timed first and later calls": re.compile(
        r"Regular: [\d.]+s \| First compiled: [\d.]+s \| Cached: [\d.]+s\n"
        + re.escape(f"{EXP} {EXP}\n")
    ),
    "curated_notes: training step": re.compile(r"Initial loss: [\d.]+\nFinal loss: [\d.]+\n"),
    "practical_guide: basics": f"{EXP}\n{EXP}\n",
    "practical_guide: gelu speedup": re.compile(MILLISECONDS),
    "practical_guide: state as a result": THREE,
    "practical_guide: captured outputs": THREE,
    "practical_guide: captured inputs": f"{TWO}\n{SIX}\n",
    "practical_guide: compiled training": re.compile(LOSSES),
    "practical_guide: transformations": f"{E}\n{E}\n",
    "practical_guide: shapeless": ABS,
}

# What crashes MLX raises an error that names the line and the ways out.
WAYS_OUT = (
    " has no value: compile only traces the function, with placeholders. Choose between values "
    "with mx.where or mx.cond instead of `if`; pass the array itself on, not its values; give "
    "lengths and counts as Python numbers; return it from the function; or capture the container "
    "that it is put into with outputs=. To look at values while debugging, call "
    "mx.disable_compile() first."
)
ARGUMENT = "practical_guide: compiled flat search"
ERRORS = {
    "compile_page: printing inside": "z = -x",
    "compile_page: printing what escaped": "z = x + y",
}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What every example did, by its name; all run in one process."""
    task = {
        "files": [str(HERE / "seeds" / f"{name}.py") for name in FILES],
        "replace": SMALLER,
        "ask": {name: question for name, (question, _) in QUESTIONS.items()},
    }
    process = start(HERE / "run_cells.py", with_ingot=True, stdin=True)
    cells = json.loads(printed(process, json.dumps(task)))
    return {f"{cell['file']}: {cell['name']}": cell for cell in cells}


def test_examples_print_what_they_say(results: dict[str, Any]) -> None:
    assert PRINTED.keys() | QUESTIONS.keys() | ERRORS.keys() <= results.keys()
    for name, cell in results.items():
        expected = PRINTED.get(name, "")
        found = cell["printed"]
        assert found == expected if isinstance(expected, str) else expected.fullmatch(found), name


def test_only_what_crashes_mlx_fails(results: dict[str, Any]) -> None:
    failed = {name for name, cell in results.items() if cell["error"]}
    assert failed == {*ERRORS, ARGUMENT}


def test_only_what_escaped_is_warned_of(results: dict[str, Any]) -> None:
    warned = {name: cell["warnings"] for name, cell in results.items() if cell["warnings"]}
    assert list(warned) == ["compile_page: printing what escaped"]
    ((kind, text),) = warned["compile_page: printing what escaped"]
    assert kind == "UndeclaredStateWarning"
    assert "in state[0]" in text
    assert "mx.compile(fun, inputs=[state], outputs=[state])" in text


def test_errors_name_the_line(results: dict[str, Any]) -> None:
    for name, made in ERRORS.items():
        kind, text = results[name]["error"]
        assert kind == "ValueError"
        found = re.fullmatch(r"\[eval\] the array made at (.*):(\d+) in fun(.*)", text)
        assert found is not None
        assert found[3] == WAYS_OUT
        with open(found[1]) as file:
            assert file.readlines()[int(found[2]) - 1].strip() == made


def test_an_error_names_the_argument(results: dict[str, Any]) -> None:
    assert results[ARGUMENT]["error"] == ["ValueError", "[eval] argument `xq`" + WAYS_OUT]


def test_questions_after_examples(results: dict[str, Any]) -> None:
    for name, (_, answer) in QUESTIONS.items():
        assert results[name]["answer"] == answer, name


def test_compiled_training_learns(results: dict[str, Any]) -> None:
    for name in ("compile_page: compiled training", "practical_guide: compiled training"):
        losses = [float(loss) for loss in re.findall(r"\((\d\.\d+),", results[name]["printed"])]
        assert losses == sorted(losses, reverse=True), name
