"""Stories: random programs about objects, told line by line to ingot, its compile, and MLX.

A program of `grow.py` is a function of arrays; a story has modules, methods, dataclasses, closures
and training steps, and things that happen to them between calls. It is a list of lines that see
`mx`, `nn`, `optimizers`, `compile` (which does nothing when the story is told uncompiled) and
`show`, which notes values. `numbers(*shape)` gives other numbers each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.fuzz.variables import tell_of_variables

__all__ = ["KINDS", "Story", "tell_story"]

LENGTHS = (2, 3, 5)

ACTIVATIONS = ["mx.tanh({})", "mx.maximum({}, 0)", "mx.sin({})", "{} * 0.5", "mx.sigmoid({}) * {}"]
OPTIMIZERS = [
    "optimizers.SGD(0.1)",
    "optimizers.SGD(0.05, momentum=0.9)",
    "optimizers.Adam(0.02)",
    "optimizers.RMSprop(0.02)",
    "optimizers.AdamW(0.01)",
]


@dataclass
class Story:
    """A random program about objects.

    Attributes:
        definitions: Classes and functions, told as one line.
        lines: What happens. Each sees what is left of those before it.
        is_undeclared: Whether state is changed, or constants are replaced, without being declared:
            compiled, the story must not differ in silence, but it may differ with a warning.
        is_opaque: Whether functions get objects that compile may refuse to take.
        checks_captures: Whether it is told with INGOT_CHECK_CAPTURES.
        suits_mlx: Whether MLX can tell it.
    """

    seed: int
    kind: str
    definitions: str = ""
    lines: list[str] = field(default_factory=list)
    is_undeclared: bool = False
    is_opaque: bool = False
    checks_captures: bool = False
    suits_mlx: bool = True

    @property
    def slack(self) -> float:
        """What rounding may add in a comparison with another library.

        A normalisation of features that are nearly equal divides by the root of `eps`, and its
        gradients do too: for 1e-5, rounding errors of either library grow to 6e-4.
        """
        return 2e-3 if "Norm(" in self.definitions else 0

    def source(self) -> str:
        """The story as text."""
        check = "INGOT_CHECK_CAPTURES=1, " if self.checks_captures else ""
        command = f"python -m tests.fuzz --story {self.seed} --kinds '{self.kind}'"
        head = f"# Story {self.seed} ({check}{self.kind}): {command}"
        return "\n".join([head, self.definitions, *self.lines])


class Teller:
    """A story while it grows."""

    def __init__(self, seed: int, kind: str | None) -> None:
        self.random = np.random.default_rng([seed, 7])
        kinds = list(KINDS)
        self.kind = kind or self.choose(kinds)
        self.story = Story(seed, self.kind)

    def choose(self, items: Any) -> Any:
        return items[int(self.random.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def tell(self) -> Story:
        KINDS[self.kind](self)
        return self.story

    def add(self, *lines: str) -> None:
        self.story.lines += lines

    def happen(self, call: Callable[[], str], events: list[str], least: int = 3) -> None:
        """Calls, with events between them."""
        self.add(f"show({call()})")
        if self.chance(0.5):
            self.add(f"show({call()})")
        for _ in range(int(self.random.integers(least, least + 4))):
            if self.chance(0.8):
                self.add(self.choose(events))
            self.add(f"show({call()})")

    # Modules

    def define_module(self, compiled_method: bool) -> list[str]:
        """Defines the class `Model`; the events that may happen to one called `model`."""
        body = ["y = x @ self.weight"]
        setup = ["self.weight = numbers(n, n)"]
        events = [
            "model.weight = model.weight * 0.5",
            "model.weight = numbers(n, n)",
            "model.update({'weight': numbers(n, n)})",
            "model.weight += 0.25",
        ]
        options: list[tuple[list[str], list[str], list[str]]] = [
            (["self.bias = numbers(n)"], ["y = y + self.bias"], ["model.bias = numbers(n)"]),
            (
                ["self.scale = 2.0"],
                ["y = y * self.scale"],
                ["model.scale = 0.5", "model.scale = 3", "model.scale = model.scale + 0.5"],
            ),
            (
                [],
                ["y = y * 0.5 if self.training else y + 1"],
                ["model.eval()", "model.train()", "model.train(not model.training)"],
            ),
            (
                ['self.mode = "sum"'],
                ['y = y + y.sum() if self.mode == "sum" else y * 2'],
                ['model.mode = "twice"', 'model.mode = "sum"'],
            ),
            (
                ["self.layers = [nn.Linear(n, n), nn.Linear(n, n, bias=False)]", "seeded(self)"],
                ["for layer in self.layers:", f"    y = {self.choose(ACTIVATIONS[:3])}"],
                [
                    "model.layers.append(seeded(nn.Linear(n, n)))",
                    "model.layers.pop()",
                    "model.layers[0].weight = numbers(n, n)",
                    "model.layers = model.layers[::-1]",
                ],
            ),
            (
                ["self.drop = nn.Dropout(0.5)"],
                ["y = self.drop(y)"],
                ["model.eval()", "model.train()", "model.drop.eval()"],
            ),
            (
                ["self.norm = nn.LayerNorm(n)"],
                ["y = self.norm(y) * 0.5"],
                ["model.norm.weight = numbers(n)", "model.norm.eps = 0.5"],
            ),
            (
                ["self.table = {'w': numbers(n), 'k': 2}"],
                ["y = y + self.table['w'] * self.table['k']"],
                ["model.table['w'] = numbers(n)", "model.table['k'] = 5", "model.table['k'] = 2.5"],
            ),
            (
                ["self.total = mx.zeros((n,))"],
                ["self.total = self.total + y.sum(axis=0)", "y = y + self.total * 0.1"],
                ["model.total = mx.zeros((n,))"],
            ),
            (
                ["self.pair = Pair(numbers(n), 2)"],
                ["y = y + self.pair.a * self.pair.b"],
                ["model.pair = Pair(numbers(n), 3)", "model.pair = model.pair._replace(b=4)"],
            ),
        ]
        for number in sorted(self.random.choice(len(options), 3, replace=False).tolist()):
            extra_setup, extra_body, extra_events = options[number]
            extra_body = [line.format("layer(y)", "layer(y)") for line in extra_body]
            setup, body, events = setup + extra_setup, body + extra_body, events + extra_events
        method = "    @compile\n" if compiled_method else ""
        lines = [
            "class Model(nn.Module):",
            "    def __init__(self, n):",
            "        super().__init__()",
            *(f"        {line}" for line in setup),
            "",
            f"{method}    def __call__(self, x):",
            *(f"        {line}" for line in body),
            f"        return {self.choose(ACTIVATIONS).format('y', 'y')}",
            "",
            f"{method}    def other(self, x, k=1.0):",
            "        return self(x).sum() * k",
        ]
        self.story.definitions = "\n".join(lines)
        return events

    def length(self) -> int:
        return int(self.choose(LENGTHS))

    def arguments(self) -> str:
        return f"numbers({self.choose([1, 2, 4])}, n)"

    def methods(self) -> None:
        """A compiled method of a module that changes between the calls."""
        events = self.define_module(compiled_method=self.chance(0.7))
        self.add(f"n = {self.length()}", "model = Model(n)")
        calls = ["model({x})", "model.other({x})", "model.other({x}, k=2.0)"]
        calls += [
            "nn.value_and_grad(model, lambda x: model(x).sum())({x})",
            "mx.grad(lambda x: model(x).sum())({x})",
            "mx.vmap(lambda x: model(x[None]))({x})" if "total" not in self.story.definitions
            else "model({x})",
        ]  # fmt: skip
        if self.chance(0.5):
            self.add("function = compile(model)", "method = compile(model.other)")
            calls += ["function({x})", "method({x})"]
            if "total" not in self.story.definitions:  # which the lambda would have to declare
                calls.append("compile(lambda x: function(x) * 2)({x})")
        if self.chance(0.4):
            self.add("second = Model(n)")
            calls.append("second({x})")
        if self.chance(0.3):
            self.add("import copy")
            events.append("model = copy.copy(model)")
        some = [self.choose(calls) for _ in range(3)]
        self.happen(lambda: self.choose(some).format(x=self.arguments()), events)
        self.add("show(model.parameters())")

    def modules_as_arguments(self) -> None:
        """A function of a module, or of a tree with a module in it."""
        events = self.define_module(compiled_method=self.chance(0.2))
        self.add(f"n = {self.length()}", "model = Model(n)")
        form = self.choose(
            [
                ("lambda m, x: m(x)", "function(model, {x})"),
                ("lambda x, m: m(x) + m.weight.sum()", "function({x}, model)"),
                ("lambda d, x: d['m'](x) * d['k']", "function({{'m': model, 'k': 2.0}}, {x})"),
                ("lambda ms, x: [m(x) for m in ms]", "function([model, model], {x})"),
            ]
        )
        self.add(f"function = compile({form[0]})")
        calls = [form[1], form[1]]
        if form[0].startswith("lambda m,"):
            calls.append("mx.grad(lambda m, x: function(m, x).sum())(model, {x})")
        self.happen(lambda: self.choose(calls).format(x=self.arguments()), events)
        self.add("show(model.parameters())")

    def flips(self) -> None:
        """A closure over a module whose plain attributes change; arrays only where declared."""
        events = self.define_module(compiled_method=False)
        declared = self.chance(0.6)
        if not declared:
            arrays = ("numbers", "weight", "layers", "zeros")
            events = [event for event in events if not any(word in event for word in arrays)]
            events += ["model.eval()", "model.train()"]
            if "self.total" in self.story.definitions:
                self.story.is_undeclared = True
        options = ", inputs=model.state, outputs=model.state" if declared else ""
        self.add(
            f"n = {self.length()}",
            "model = Model(n)",
            f"function = compile(lambda x: model(x){options})",
        )
        calls = ["function({x})", "function({x})", "mx.grad(lambda x: function(x).sum())({x})"]
        self.happen(lambda: self.choose(calls).format(x=self.arguments()), events)

    # Objects as arguments

    def objects(self) -> None:
        """A function of objects: dataclasses, named tuples, and those that compile may refuse."""
        kind = self.choose(["dataclass", "frozen", "pair", "tagged", "config", "hashable", "slots"])
        self.add(f"n = {self.length()}")
        events = ["thing.w = numbers(n)", "thing.k = 3.0", "thing.k = thing.k + 1"]
        made = {
            "dataclass": "Thing(numbers(n), 2.0)",
            "frozen": "Frozen(1.5, 'a')",
            "pair": "Pair(numbers(n), 2.0)",
            "tagged": "Tagged((numbers(n), 2.0))",
            "config": "Config(2.0)",
            "hashable": "Hashable(2.0)",
            "slots": "Slots(2.0)",
        }[kind]
        body = {
            "dataclass": "x * t.w * t.k",
            "frozen": "x * t.k if t.name == 'a' else x + t.k",
            "pair": "x * t.a + t.b",
            "tagged": "x * t[0] * t[1] + t.tag",
            "config": "x * t.k",
            "hashable": "x * t.k",
            "slots": "x * t.k",
        }[kind]
        if kind == "frozen":
            events = ["thing = Frozen(2.5, 'a')", "thing = Frozen(1.5, 'b')"]
        elif kind == "pair":
            events = ["thing = Pair(numbers(n), 3.0)", "thing = thing._replace(b=5.0)"]
        elif kind == "tagged":
            events = ["thing.tag = 4.0", "thing = Tagged((numbers(n), 1.0))"]
        elif kind != "dataclass":
            events = ["thing.k = 3.0", "thing.k = thing.k * 2", "thing.k = -1.0"]
            self.story.is_opaque = True
        self.add(f"thing = {made}")
        place = self.choose(["function({x}, thing)", "function({x}, t=thing)"])
        wrapped = self.chance(0.3)
        if wrapped:
            place = place.replace("thing", "[thing]")
        body = body.replace("t", "t[0]").replace("[0]ag", "ag") if wrapped else body
        self.add(f"function = compile(lambda x, t: {body})")
        self.happen(lambda: place.format(x=self.choose(["numbers(n)", "numbers(2, n)"])), events)
        if kind in ("dataclass", "pair", "tagged") and not wrapped and self.chance(0.7):
            self.add("changed = compile(lambda x, t: (t, x))", "show(changed(numbers(n), thing))")

    # Training and undeclared state

    def training(self) -> None:
        """A training step, declared or not, and what happens between its calls."""
        self.story.is_undeclared = self.chance(0.35)
        layers = self.choose(
            [
                "nn.Linear(n, 4), nn.Linear(4, 1)",
                "nn.Linear(n, 3), nn.Tanh(), nn.Linear(3, 1)",
                "nn.Linear(n, 4), nn.Dropout(0.3), nn.ReLU(), nn.Linear(4, 2)",
                "nn.Linear(n, 4), nn.LayerNorm(4), nn.Linear(4, 1, bias=False)",
            ]
        )
        self.add(
            f"n = {self.length()}",
            f"model = seeded(nn.Sequential({layers}))",
            f"optimizer = {self.choose(OPTIMIZERS)}",
            "losses = nn.value_and_grad(model, lambda x, y: mx.square(model(x) - y).mean())",
        )
        state = "[model.state, optimizer.state, mx.random.state]"
        options = f", inputs={state}, outputs={state}"
        if self.story.is_undeclared:
            part = self.choose(["", "model.state", "optimizer.state"])
            options = f", inputs={part}, outputs={part}" if part else ""
        self.story.definitions = "\n".join(
            [
                "def make_step(model, optimizer, losses):",
                "    def step(x, y):",
                "        loss, gradients = losses(x, y)",
                "        optimizer.update(model, gradients)",
                "        return loss",
                "    return step",
            ]
        )
        self.add(f"step = compile(make_step(model, optimizer, losses){options})")
        events = [
            "model.eval()",
            "model.train()",
            "optimizer.learning_rate = 0.03",
            "model.layers[0].weight = model.layers[0].weight * 0.5",
            "model.freeze(keys='bias')",
            "model.unfreeze()",
        ]
        if self.story.is_undeclared:
            events = ["model.train()"]
        rows = self.choose([1, 3])
        self.happen(lambda: f"step(numbers({rows}, n), numbers({rows}, 1))", events)
        self.add("show(model.parameters())", "show(optimizer.state)")

    def leaks(self) -> None:
        """A function that keeps traced arrays somewhere, declared, returned, or neither."""
        holder, keep, look = self.choose(
            [
                ("kept = []", "kept.append(x * 2)", "kept[-1]"),
                ("kept = {'last': numbers(n)}", "kept['last'] = x + kept['last']", "kept['last']"),
                ("kept = {'last': numbers(n)}", "kept['last'] += x", "kept['last']"),
                ("kept = Thing(numbers(n), 1.0)", "kept.w = kept.w + x", "kept.w"),
                ("kept = nn.BatchNorm(n)", "kept(x[None])", "kept.running_mean"),
                ("kept = [Pair(numbers(n), 1)]", "kept[0] = Pair(kept[0].a * x, 2)", "kept[0].a"),
            ]
        )
        way = self.choose(["declared", "returned", "neither", "neither"])
        self.story.is_undeclared = way != "declared"
        state = "kept.state" if "nn." in holder else "vars(kept)" if "Thing" in holder else "kept"
        options = f", inputs={state}, outputs={state}" if way == "declared" else ""
        result = f"(x * 3, {look})" if way == "returned" else "x * 3"
        self.story.definitions = "\n".join(
            [
                "def make_function(kept):",
                "    def function(x):",
                f"        {keep}",
                f"        return {result}",
                "    return function",
            ]
        )
        self.add(
            f"n = {self.length()}", holder, f"function = compile(make_function(kept){options})"
        )
        events = ["pass", f"show({look})"]
        if self.chance(0.3):
            events.append("show(mx.grad(lambda x: mx.array(function(x)[0]).sum())(numbers(n)))")
        self.happen(lambda: "function(numbers(n))", events)
        self.add(f"show({look})")

    def constants(self) -> None:
        """Arrays that a closure holds are replaced while that is being watched."""
        self.story.is_undeclared = self.story.checks_captures = True
        events = self.define_module(compiled_method=False)
        self.add(
            f"n = {self.length()}",
            "model = Model(n)",
            "w = numbers(n)",
            "thing = Thing(numbers(n), 1.0)",
            "table = {'a': [numbers(n)]}",
            "function = compile(lambda x: model(x) * w + thing.w * table['a'][0])",
        )
        events += ["w = numbers(n)", "thing.w = numbers(n)", "table['a'] = [numbers(n)]"]
        events += ["table['a'][0] = table['a'][0] * 2", "w += 1", "model = Model(n)"]
        rows = self.choose([1, 2])
        self.happen(lambda: f"function(numbers({rows}, n))", events)

    # Containers under gradients

    def containers(self) -> None:
        """Gradients of functions that change their container arguments."""
        is_named = self.chance(0.4)
        changes = [
            "t['w'] = t['w'] * 2",
            "t['w'] += t['list'][0]",
            "t['list'][0] = t['w'] * t['list'][0]",
            "t['list'] = [t['w'] * 3]",
            "t['w'], t['v'] = t['v'] * 1, t['w'] * 1",
            "t['pair'] = t['pair']._replace(a=t['w'] * 2)",
            "t['pair'].b[0] = t['w'] + 1",
        ]
        wild = [  # MLX crashes when the number of arrays changes
            "t['new'] = t['w'] + 1",
            "t['list'].append(t['w'] * 2)",
            "t['gone'] = t.pop('v')",
            "t['inner'] = {'w': t['w'], 'p': Pair(t['v'] if 'v' in t else t['w'], [t['w']])}",
        ]
        count = int(self.random.integers(1, 4))
        chosen = [self.choose(changes) for _ in range(count)]
        if self.chance(0.4):
            chosen.append(self.choose(wild))
            self.story.suits_mlx = False
        place = int(self.random.integers(0, len(chosen) + 1))
        loss = "value = (t['w'] * t['list'][0]).sum() + (t['pair'].a * t['pair'].b[0]).sum()"
        chosen.insert(place, loss)
        lines = ["def loss(t, x):", *(f"    {line}" for line in chosen), "    return value * x"]
        self.story.definitions = "\n".join(lines)
        kind = "Listed" if is_named else "list"
        self.add(
            f"n = {self.length()}",
            f"t = dict(w=numbers(n), v=numbers(n), list={kind}([numbers(n)]), "
            "pair=Pair(numbers(n), [numbers(n)]))",
        )
        call = self.choose(
            [
                "mx.grad(loss)(t, mx.array(2.0))",
                "mx.value_and_grad(loss)(t, mx.array(0.5))",
                "mx.value_and_grad(loss, argnums=[0, 1])(t, mx.array(0.5))",
                "mx.grad(loss, argnums=[], argnames='t')(t=t, x=mx.array(2.0))",
            ]
        )
        self.add(f"show({call})", "show(t)")
        if self.chance(0.6):
            self.add(
                "inside = compile(lambda x, u: (mx.value_and_grad(loss)(u, x), u))",
                "u = dict(w=numbers(n), v=numbers(n), list=[numbers(n)], "
                "pair=Pair(numbers(n), [numbers(n)]))",
                "show(inside(mx.array(1.5), u))",
            )


KINDS: dict[str, Callable[[Teller], None]] = {
    "methods": Teller.methods,
    "modules as arguments": Teller.modules_as_arguments,
    "flips of attributes": Teller.flips,
    "objects as arguments": Teller.objects,
    "training": Teller.training,
    "leaks": Teller.leaks,
    "captured constants": Teller.constants,
    "variables": tell_of_variables,
    "changed containers": Teller.containers,
}


def tell_story(seed: int, kind: str | None = None) -> Story:
    """The story that belongs to a seed."""
    return Teller(seed, kind).tell()
