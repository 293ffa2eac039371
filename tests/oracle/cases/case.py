"""One call to be made with both libraries, and the table of all of them.

Each of the other modules here adds its cases with `add`; `table.py` has them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from tests.oracle.harness.compare import EXACT, Close, is_array
from tests.oracle.harness.inputs import make

Run = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A call of `op` with descriptions of its arguments.

    `op` is a function of the module, or "array.<name>" for a method, property or operator of the
    first argument. `run(mx, *args, **kwargs)` replaces that call where more than a call is needed.
    """

    op: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    run: Run | None = None
    close: Close = EXACT
    reference: Callable[..., np.ndarray] | None = None
    note: str = ""

    def __str__(self) -> str:
        parts = [repr(arg) for arg in self.args]
        parts += [f"{key}={value!r}" for key, value in self.kwargs.items()]
        note = f" [{self.note}]" if self.note else ""
        text = f"{self.op}({', '.join(parts)}){note}"
        return " ".join(text.split())


CASES: dict[str, list[Case]] = {}


def add(case: Case) -> None:
    """Enter a case into the table."""
    CASES.setdefault(case.op, []).append(case)


def call(op: str, *args: Any, **kwargs: Any) -> None:
    """Enter a plain, exact call into the table."""
    add(Case(op, args, kwargs))


def outcome(case: Case, mx: ModuleType, *, evaluate: bool = True) -> Any:
    """The result of the case, evaluated if wanted, or the exception that it raises."""
    try:
        args, kwargs = make(mx, case.args), make(mx, case.kwargs)
        result = perform(case, mx, args, kwargs)
        if evaluate:
            evaluate_all(mx, result)
    except Exception as error:  # Every exception is an outcome to compare.
        return error
    return result


def perform(case: Case, mx: ModuleType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call of the case with arguments that have been made."""
    if case.run is not None:
        return case.run(mx, *args, **kwargs)
    owner, _, name = case.op.rpartition(".")
    if not owner:
        return getattr(mx, name)(*args, **kwargs)
    target = getattr(args[0], name)
    return target(*args[1:], **kwargs) if callable(target) else target


def evaluate_all(mx: ModuleType, result: Any) -> None:
    """Evaluate the arrays in a result."""
    if is_array(result):
        mx.eval(result)
    elif isinstance(result, (list, tuple)):
        for item in result:
            evaluate_all(mx, item)
