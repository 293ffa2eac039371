"""Stories about variables: what functions read by name changes between calls."""

from __future__ import annotations

from typing import Any

__all__ = ["tell_of_variables"]

DEFINITIONS = """
class Settings(Config):
    rate = 2.0
    def scaled(self, x):
        return x * self.k * type(self).rate
def helper(x):
    return x * 0.5 + offset
helper.factor = 1.5
def make(factor):
    def inner(x):
        return x * factor
    def change(value):
        nonlocal factor
        factor = value
    return inner, change
"""

# What a function may read, and what may happen to it.
READS = {
    "k": ["k = 3.0", "k = k + 1"],
    "helper(x)": ["offset = offset * 2", "def helper(x): return x * 3 + offset"],
    "helper.factor": ["helper.factor = 0.5"],
    "table['a'][1]['b']": ["table['a'][1]['b'] = 5", "table = {'a': [1, {'b': 9}]}"],
    "len(table['a'])": ["table['a'].append(1)"],
    "settings.k": ["settings.k = 0.25", "settings = Settings(4.0)"],
    "settings.scaled(x)": ["settings.k = -1.0", "Settings.rate = 3.0"],
    "things[0].k": ["things[0].k = 7.0", "things[0] = Settings(5.0)"],
    "things[1].k": ["things[1].k = 7.0"],
    "inner(x)": ["change(4.0)", "inner, change = make(5.0)"],
    "model['options']['rate']": ["model['options']['rate'] = 3.0"],
    "model.options['rate']": [
        "model.options['rate'] = 0.5",
        "model.options = {'rate': 1.0}",
    ],
}


def tell_of_variables(teller: Any) -> None:
    """A function of what it reads by name: numbers, containers, objects, classes, functions."""
    teller.story.definitions = DEFINITIONS
    teller.add(
        *(f"n = {teller.length()}", "offset = 1.0", "k = 2.0", "table = {'a': [1, {'b': 2}]}"),
        *("things = [Settings(2.0), Slots(3.0)]", "settings = Settings(1.5)"),
        *("inner, change = make(2.0)", "model = nn.Sequential(nn.Dropout(0.0))"),
        "model.options = {'rate': 2.0}",
    )
    chosen = [teller.choose(list(READS)) for _ in range(int(teller.random.integers(1, 4)))]
    body = " + ".join(["x * 2", *(f"x * ({read})" for read in chosen)])
    teller.add(f"function = compile(lambda x: {body})")
    calls = ["function({x})", "function({x})", "mx.grad(lambda x: function(x).sum())({x})"]
    if teller.chance(0.5):
        teller.add("outer = compile(lambda x: function(x) * 0.5)")
        calls += ["outer({x})", "mx.vmap(outer)({x})"]
    events = [event for read in chosen for event in READS[read]]
    x = f"numbers({teller.choose([1, 3])}, n)"
    teller.happen(lambda: teller.choose(calls).format(x=x), events)
