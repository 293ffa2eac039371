"""Runs a script until it calls a function, and explains that call."""

from __future__ import annotations

import ast
import difflib
import gc
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import ingot.core as mx
from ingot import _native
from ingot.compiler.call.function import CompiledFunction
from ingot.drop_in import install_as_mlx
from ingot.explain.report import Explanation
from ingot.graph.tree import tree_map

__all__ = ["ScriptError", "explain_call", "explain_with"]


class ScriptError(Exception):
    """An error that the user can fix, as a sentence, and its exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


class _Enough(BaseException):
    """Ends the script once the call has been seen; not an Exception, so that scripts do not catch
    it.
    """


class _Watch:
    """Watches for calls of one function, compiled or not."""

    def __init__(self, script: Path, name: str, call: int) -> None:
        self.script = str(script)
        self.name = name
        self.last_part = name.rpartition(".")[2]
        self.left = call
        self.seen = 0
        self.report: Explanation | None = None
        self.later: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None

    # Compiled functions: their `__call__` is replaced

    def __enter__(self) -> _Watch:
        watch, original = self, CompiledFunction.__call__

        def watched(compiled: CompiledFunction[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if not _native.recording() and watch._is_meant(compiled, sys._getframe(1)):
                watch._found(lambda: compiled.explain(*args, **kwargs))
            return original(compiled, *args, **kwargs)

        CompiledFunction.__call__ = watched  # type: ignore[assignment, method-assign]
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)
        del CompiledFunction.__call__

    def _is_meant(self, compiled: CompiledFunction[..., Any], caller: FrameType) -> bool:
        """Whether the function has the name, or is bound to it where it is called."""
        if self.name in _names(compiled) | _names(compiled._function):
            return True
        scopes = (caller.f_locals, caller.f_globals)
        return any(scope.get(self.name) is compiled for scope in scopes)

    # Python functions: a profile hook sees each call

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name != self.last_part or code.co_filename != self.script:
            return
        if not _is_called(code, self.name) or _inside_compiled_call(frame, code):
            return
        function = _function_of(code)
        if function is None:
            return
        sys.setprofile(None)
        try:
            args, kwargs = _arguments(frame)
            bound, args = _bound(function, args)
            if _native.in_tracing() or _native.recording():
                # Values do not exist yet; explain it for its shapes when the transform has ended.
                self._count(lambda: self._keep(bound, *tree_map(_like, (args, kwargs))))
            else:
                self._found(lambda: mx.compile(bound).explain(*args, **kwargs))
        finally:
            sys.setprofile(self._on_event)

    def _keep(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.later = (function, args, kwargs)
        raise _Enough

    def _count(self, act: Any) -> None:
        self.seen += 1
        self.left -= 1
        if self.left == 0:
            act()

    def _found(self, explain: Any) -> None:
        def act() -> None:
            self.report = explain()
            raise _Enough

        self._count(act)


def _names(function: Any) -> set[str]:
    """The names by which the command line may refer to a function."""
    qualified = getattr(function, "__qualname__", "")
    return {qualified, qualified.replace("<locals>.", ""), getattr(function, "__name__", "")}


def _is_called(code: CodeType, name: str) -> bool:
    return name in (code.co_name, code.co_qualname, code.co_qualname.replace("<locals>.", ""))


def _inside_compiled_call(frame: FrameType, code: CodeType) -> bool:
    """Whether this is a compiled function tracing its own code, a call that was already seen."""
    caller = frame.f_back
    while caller is not None:
        compiled = caller.f_locals.get("self")
        if isinstance(compiled, CompiledFunction):
            return getattr(compiled._function, "__code__", None) is code
        caller = caller.f_back
    return False


def _function_of(code: CodeType) -> Any:
    found = [each for each in gc.get_referrers(code) if isinstance(each, FunctionType)]
    return found[-1] if found else None


def _arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, from its frame, before its first line runs."""
    code, values = frame.f_code, frame.f_locals
    positional = code.co_varnames[: code.co_argcount]
    args = [values[name] for name in positional]
    end = code.co_argcount + code.co_kwonlyargcount
    kwargs = {name: values[name] for name in code.co_varnames[code.co_argcount : end]}
    if code.co_flags & inspect.CO_VARARGS:
        args += values[code.co_varnames[end]]
        end += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= values[code.co_varnames[end]]
    return tuple(args), kwargs


def _bound(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A method bound to its object, since compiled functions do not take that as an argument."""
    if args and inspect.getattr_static(type(args[0]), function.__name__, None) is function:
        return function.__get__(args[0]), args[1:]
    return function, args


def _like(leaf: Any) -> Any:
    return mx.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, mx.array) else leaf


# Scripts


def _functions(tree: ast.AST) -> list[str]:
    """The qualified names of all functions of a script, including methods and nested functions."""
    names: list[str] = []

    def visit(node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", "")
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.append(owner + name)
                visit(child, f"{owner}{name}.")
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{owner}{name}.")
            else:
                visit(child, owner)

    visit(tree, "")
    return names


def _known_names(tree: ast.AST, functions: list[str]) -> set[str]:
    """All names that may refer to a function: its own, or those that values are assigned to."""
    found = {end for name in functions for end in (name, name.rpartition(".")[2])}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def _read(script: Path, name: str) -> CodeType:
    """Compiles a script, in which the name must occur."""
    source = script.read_text(encoding="utf-8")
    try:
        tree = ast.parse(source, str(script))
    except SyntaxError as error:
        raise ScriptError(f"{script} is not a Python program: {error}", 1) from None
    functions = _functions(tree)
    known = _known_names(tree, functions)
    if name not in known and name.partition(".")[0] not in known:
        raise _unknown(script, name, functions)
    return compile(tree, str(script), "exec")


def _unknown(script: Path, name: str, functions: list[str]) -> ScriptError:
    ends = {function.rpartition(".")[2]: function for function in functions}
    near = difflib.get_close_matches(name, [*functions, *ends], n=1)
    if near:
        hint = f"Did you mean {ends.get(near[0], near[0])}?"
    elif functions:
        hint = f"It has {', '.join(functions[:10])}{' ...' if len(functions) > 10 else ''}."
    else:
        hint = "It has none."
    return ScriptError(f"{script} has no function {name}. {hint}")


def _prepare(script: Path, name: str, arguments: Sequence[str]) -> ModuleType:
    """Creates the module for a script, with sys.argv and sys.path as a program would find them."""
    install_as_mlx()
    module = ModuleType(name)
    module.__file__ = str(script)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    sys.modules[name] = module
    return module


def explain_call(script: Path, name: str, call: int, arguments: Sequence[str]) -> Explanation:
    """Runs the script up to the given call of a function, and explains that call."""
    code = _read(script, name)
    module = _prepare(script, "__main__", arguments)
    watch = _Watch(script, name, call)
    try:
        with watch:
            exec(code, module.__dict__)
    except _Enough:
        pass
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise ScriptError(
                f"{script} ended with exit code {ended.code!r} before it called {name}.", 1
            ) from None
    if watch.later is not None:
        function, args, kwargs = watch.later
        return mx.compile(function).explain(*args, **kwargs)
    if watch.report is None:
        raise _not_called(script, name, watch.seen)
    return watch.report


def _not_called(script: Path, name: str, seen: int) -> ScriptError:
    if seen:
        times = "once" if seen == 1 else f"{seen} times"
        return ScriptError(f"{script} calls {name} only {times}.")
    return ScriptError(
        f"{script} never calls {name}. Give arguments for it: --args 'mx.ones((3, 4))', which are "
        "evaluated in the script."
    )


def explain_with(script: Path, name: str, given: str, arguments: Sequence[str]) -> Explanation:
    """Imports the script and explains a function for arguments given as expressions."""
    code = _read(script, name)
    module = _prepare(script, script.stem, arguments)
    exec(code, module.__dict__)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ScriptError(f"{script} has no {name} once it is imported.")
        found = getattr(found, part)
    if not callable(found):
        raise ScriptError(f"{name} in {script} is not a function but {type(found).__name__}.")
    namespace = {"mx": mx, **vars(module), "__take": lambda *args, **kwargs: (args, kwargs)}
    try:
        args, kwargs = eval(f"__take({given})", namespace)
    except Exception as error:
        raise ScriptError(f"--args {given!r}: {type(error).__name__}: {error}") from None
    compiled = found if isinstance(found, CompiledFunction) else mx.compile(found)
    return compiled.explain(*args, **kwargs)
