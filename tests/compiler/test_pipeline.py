"""The pipeline: texts after each stage against goldens; all modes compute the same; it is linear.

`INGOT_UPDATE_GOLDENS=1 pytest tests/compiler/test_pipeline.py` updates the goldens. Read the
difference before you commit it.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler import pipeline
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.generate import Executable
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse
from ingot.compiler.passes.simplify import simplify
from ingot.compiler.pipeline import FIRST_AT_EVALUATION, PASSES, Pass, Stages, run_pipeline
from ingot.graph.tree import arrays_in
from ingot.runtime.compile_mode import CompileMode

GOLDENS = Path(__file__).parent / "goldens"


def gelu(x: Any) -> Any:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def softmax(x: Any) -> Any:
    return mx.softmax(x, axis=-1)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) * mx.rsqrt(variance + 1e-5) * weight + bias


def two_outputs(x: Any, y: Any) -> Any:
    total = x + y
    return mx.exp(total), mx.sin(total) * x


def shared_subexpression(x: Any) -> Any:
    return mx.exp(-x) * 2 + mx.tanh(mx.exp(-x))


def column_sums(x: Any) -> Any:
    return (x * x).sum(axis=0) / x.shape[0]


def views(x: Any) -> Any:
    left, right = x[:, :2], x[:, 2:]
    return (left.T @ right).reshape(-1)[::-1] + mx.concatenate([left, right], axis=1).sum()


def dead_code(x: Any) -> Any:
    mx.exp(x @ x)
    unused = mx.sort(x)
    del unused
    return mx.stop_gradient(x) + 0 * x.astype(mx.float32)


def merged_scalars(x: Any) -> Any:
    return (x * 2 + mx.array(2.0)) / (2.0 * x + mx.sqrt(mx.array(4.0)))


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.swapaxes(-1, -2)
    return mx.softmax(scores, axis=-1) @ v


def logistic_gradient(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        logits = x @ w
        return mx.logaddexp(0, -y * logits).mean()

    return mx.grad(loss)(w)


def mixed_dtypes(x: Any) -> Any:
    half = x.astype(mx.float16)
    return (half * 3).sum(axis=1), (x > 0).astype(mx.int32) + 1


def mask_of_a_relu(x: Any, w: Any) -> Any:
    """A cast that both kernels around the product get one of."""
    mask = (x > 0).astype(mx.float32)
    return ((x * mask) @ w) * mask


def sort_and_gather(x: Any, indices: Any) -> Any:
    return mx.sort(x * 2, axis=0)[indices] + 1


def training_step(parameters: Any, x: Any, y: Any) -> Any:
    def loss(parameters: Any) -> Any:
        hidden = mx.maximum(x @ parameters["w1"] + parameters["b1"], 0)
        logits = hidden @ parameters["w2"] + parameters["b2"]
        return (
            mx.logsumexp(logits, axis=-1) - mx.take_along_axis(logits, y[:, None], 1)[:, 0]
        ).mean()

    value, gradients = mx.value_and_grad(loss)(parameters)
    return value, {name: parameters[name] - 0.1 * gradients[name] for name in parameters}


def numbers(*shape: int) -> mx.array:
    generator = np.random.default_rng(sum(shape))
    return mx.array(generator.standard_normal(shape).astype(np.float32))


FUNCTIONS: dict[Any, tuple[Any, ...]] = {
    gelu: (numbers(4, 5),),
    softmax: (numbers(4, 5),),
    layer_norm: (numbers(4, 5), numbers(5), numbers(5)),
    two_outputs: (numbers(4, 5), numbers(4, 5)),
    shared_subexpression: (numbers(4, 5),),
    column_sums: (numbers(40, 5),),
    views: (numbers(4, 4),),
    dead_code: (numbers(4, 4),),
    merged_scalars: (numbers(4, 5),),
    attention: (numbers(2, 3, 4), numbers(2, 3, 4), numbers(2, 3, 4)),
    logistic_gradient: (numbers(5), numbers(4, 5), numbers(4)),
    mixed_dtypes: (numbers(4, 5),),
    mask_of_a_relu: (numbers(4, 5), numbers(5, 5)),
    sort_and_gather: (numbers(4, 5), mx.array([2, 0])),
    training_step: (
        {"w1": numbers(5, 8), "b1": numbers(8), "w2": numbers(8, 3), "b2": numbers(3)},
        numbers(6, 5),
        mx.array([0, 1, 2, 0, 1, 2]),
    ),
}


def tape_of_call(function: Any, args: tuple[Any, ...]) -> Tape:
    return traced(function, *args, word="number").tape


def golden_text(stages: Stages) -> str:
    """Every form but the last, which is LLVM's business. A pass that hands a form on as it was is
    left out, so that a new pass shows only where it does something. How many iterations are worth a
    thread depends on the code that is made of them, and is left out too.
    """
    found = []
    before = ""
    for name in ("trace", *(each.name for each in pipeline.PASSES[:-1])):
        form = stages.form(name)
        form.verify()
        text = re.sub(r" grain \d+", "", form.text())
        if text != before:
            found.append(f"== {name} ==\n{text}\n")
        before = text
    return "\n".join(found)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_goldens(function: Any) -> None:
    tape = tape_of_call(function, FUNCTIONS[function])
    stages = run_pipeline(tape, CompileMode.enabled)
    text = golden_text(stages)
    for kernel in stages.nests.kernels:
        verify(kernel.nest)  # also that no two parallel iterations meet
    path = GOLDENS / f"{function.__name__}.txt"
    if os.environ.get("INGOT_UPDATE_GOLDENS"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_golden_has_a_function() -> None:
    assert {path.stem for path in GOLDENS.glob("*.txt")} == {f.__name__ for f in FUNCTIONS}


@pytest.mark.parametrize(
    "mode", [CompileMode.enabled, CompileMode.no_fuse, CompileMode.no_simplify]
)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_mode_computes_the_same(function: Any, mode: CompileMode) -> None:
    args = FUNCTIONS[function]
    expected = arrays_in(function(*args))
    program = run_pipeline(tape_of_call(function, args), mode).program
    found = program.run(tuple([x._data for x in arrays_in(args)]))
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-3, atol=1e-5)


def test_the_gelu_of_the_seeds_is_one_group() -> None:
    explanation = mx.compile(gelu).explain(numbers(4, 5))
    kinds = [group.kind for group in explanation.stages.schedule.groups]
    assert kinds.count("fused") == 1
    assert kinds.count("single") == 0


@pytest.mark.parametrize("function", [softmax, layer_norm])
def test_rows_are_one_group(function: Any) -> None:
    explanation = mx.compile(function).explain(*FUNCTIONS[function])
    assert len(explanation.kernels) == 1
    assert explanation.kernels[0].by_rows


def slow(each: Pass) -> Pass:
    """The same pass, taking a twentieth of a second longer."""

    def run(form: Any, options: Options) -> Any:
        time.sleep(0.05)
        return each.run(form, options)

    return replace(each, run=run)


@pytest.mark.parametrize("name", [each.name for each in PASSES])
def test_every_pass_is_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = tuple(slow(each) if each.name == name else each for each in PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)
    stages = run_pipeline(tape_of_call(gelu, FUNCTIONS[gelu]), CompileMode.enabled)
    assert stages.form(name) is not None
    assert stages.seconds[name] >= 0.05
    phase = next(each.phase for each in PASSES if each.name == name)
    assert stages.program.account.phases[phase] >= 0.05


def test_each_pass_takes_what_the_one_before_gives() -> None:
    gives = [Tape, *(each.gives for each in PASSES)]
    assert [each.takes for each in PASSES] == gives[:-1]
    assert gives[-1] is Executable


def test_what_waits_for_an_evaluation() -> None:
    stages = run_pipeline(tape_of_call(gelu, FUNCTIONS[gelu]), CompileMode.enabled)
    names = [each.name for each in PASSES]
    waiting = names[names.index(FIRST_AT_EVALUATION) :]
    assert [name for name in names if name not in stages.forms] == waiting
    stages.program.run((FUNCTIONS[gelu][0]._data,))
    assert [name for name in waiting if name not in stages.program.contiguous.forms] == []
    with pytest.raises(ValueError, match=r"no pass 'melt'.*trace, simplify.*, generate"):
        stages.form("melt")


@pytest.mark.parametrize("name", [each.name for each in PASSES])
def test_every_form_is_verified(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run with INGOT_VERIFY=1: a pass that gives something wrong is named, or its form
    raises.
    """

    class WrongError(Exception):
        pass

    gives = next(each.gives for each in PASSES if each.name == name)
    count = sum(each.gives is gives for each in PASSES[: [p.name for p in PASSES].index(name)])
    count += gives is Tape  # the tape that comes in
    verified = 0
    original = gives.verify

    def verify(form: Any) -> None:
        nonlocal verified
        verified += 1
        if verified > count:
            raise WrongError
        original(form)

    monkeypatch.setattr(gives, "verify", verify)
    with pytest.raises(WrongError):
        _ = run_pipeline(tape_of_call(gelu, FUNCTIONS[gelu]), CompileMode.enabled).executable


def test_a_pass_that_gives_another_form_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(PASSES[0], run=lambda tape, options: "nothing")
    monkeypatch.setattr(pipeline, "PASSES", (wrong, *PASSES[1:]))
    with pytest.raises(AssertionError, match="simplify gave a str"):
        run_pipeline(tape_of_call(gelu, FUNCTIONS[gelu]), CompileMode.enabled)


def test_a_new_pass_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass that does nothing takes: its function, and its place among the others. It is then
    run, timed, verified and shown like them.
    """
    seen = []

    def nothing(tape: Tape, options: Options) -> Tape:
        seen.append(len(tape.steps))
        return tape

    new = Pass("nothing", Tape, Tape, nothing, "fuse")
    monkeypatch.setattr(pipeline, "PASSES", (PASSES[0], new, *PASSES[1:]))
    report = mx.compile(gelu).explain(*FUNCTIONS[gelu])
    stages = report.stages
    assert seen == [len(stages.simplified.steps)]
    assert stages.form("nothing") is stages.simplified
    assert "nothing" in stages.seconds
    assert "== nothing ==" not in golden_text(stages)  # and no golden changes
    assert report.section("nothing") == stages.simplified.text()


# What docs/architecture.md shows: the picture of the forms, and one function in each of them

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


def followed(x: Any) -> Any:
    return mx.exp(-x) * 2 + mx.exp(-x)


def picture() -> str:
    """The forms from top to bottom, and the passes between them with their modules."""
    lines = ["a function and its arguments", "  |  trace                trace/trace.py", "Tape"]
    for each in PASSES:
        if each.name == FIRST_AT_EVALUATION:
            lines.append("- - - - - - what follows waits for the first evaluation - - - - - -")
        module = each.run.__module__.removeprefix("ingot.compiler.").replace(".", "/")
        lines += [f"  |  {each.name:<20} {module}.py", each.gives.__name__]
    return "\n".join(lines)


def function_in_every_form() -> str:
    """The source of a function, and the forms that it goes through."""
    tape = tape_of_call(followed, (numbers(1000),))
    text = golden_text(run_pipeline(tape, CompileMode.enabled))
    source = inspect.getsource(followed).replace(": Any", "").replace(" -> Any", "")
    return f"{source}\n{text.rstrip()}"


@pytest.mark.parametrize(
    ("name", "shown"), [("forms", picture), ("function", function_in_every_form)]
)
def test_what_the_documents_show(name: str, shown: Callable[[], str]) -> None:
    section = re.compile(rf"(<!-- {name}: begin [^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    new, found = section.subn(
        lambda match: f"{match[1]}```\n{shown()}\n```\n{match[2]}", ARCHITECTURE.read_text()
    )
    assert found == 1
    if os.environ.get("INGOT_UPDATE_GOLDENS"):
        ARCHITECTURE.write_text(new)
    assert ARCHITECTURE.read_text() == new


# Linearity


def chain(x: Any, count: int) -> Any:
    for number in range(count // 4):
        x = mx.sin(x) * 0.5 + x  # two scalars, broadcast
        if number % 64 == 0:
            x = x - x.mean()
    return x


def fan(x: Any, count: int) -> Any:
    return [x * 2.0 for _ in range(count // 4)], [mx.exp(x + float(k)) for k in range(count // 4)]


def ladder(x: Any, count: int) -> Any:
    left, right = x, x * 2
    for _ in range(count // 2):
        left, right = left + right, left * right
    return left, right


def seconds_and_steps(function: Any, count: int) -> tuple[float, int]:
    x = numbers(4)
    best = math.inf
    for _ in range(2):
        started = time.process_time()
        tape = tape_of_call(lambda x: function(x, count), (x,))
        fuse(simplify(tape, Options()), Options())
        best = min(best, time.process_time() - started)
    return best, len(tape.steps)


@pytest.mark.parametrize("function", [chain, fan, ladder])
def test_trace_simplify_and_fuse_are_linear(function: Any) -> None:
    """Four times the steps: quadratic time would be 16 times as long."""
    short, few = seconds_and_steps(function, 6_000)
    long, many = seconds_and_steps(function, 24_000)
    assert many > 3.5 * few
    assert long < 10 * short + 0.2
    assert long * 50_000 / many < 20


def test_a_scalar_used_ten_thousand_times() -> None:
    two = mx.array(2.0)

    def function(x: Any) -> Any:
        return [x * two + mx.array(2.0) for _ in range(10_000)]

    started = time.process_time()
    tape = tape_of_call(function, (numbers(4),))
    options = Options()
    simplified = simplify(tape, options)
    assert time.process_time() - started < 20
    assert len(simplified.steps) == 5  # the input, the scalar, its broadcast, the product, the sum
    assert len(options.report.merged) == len(tape.steps) - 5
