"""Attention: ops whose scores are never stored."""

from __future__ import annotations

from ingot.graph.roles.host import Host

__all__ = ["Attend", "AttendBackward"]


class Attend(Host, role=True):
    """Values weighted by the softmax of scaled and masked products of queries and keys.

    Queries are (B, heads, queries, D), keys (B, heads / n, keys, D) and values (B, heads / n, keys,
    E): n consecutive heads of queries share a head of keys. They are followed by a mask, if
    `has_mask`, of shape (B, heads, queries, keys) with 1 allowed for any length, and by sinks, if
    there is one more input, of shape (B, heads) or (1, heads). The outputs are the result (B,
    heads, queries, E) and two statistics (B, heads, queries) in the dtype of sums: the maximum of
    each query's scores and sink, and the sum of their exponentials relative to that maximum, from
    which `AttendBackward` recomputes the softmax.

    Write a frozen dataclass with these fields, and the rules. Compiled programs have loop nests
    for it that keep the scores of a block in cache.
    """

    scale: float
    causal: bool  # whether a query ignores keys after its own position; the last query sees all
    has_mask: bool  # boolean: False masks a key out; otherwise it is added to the scores

    several_outputs = True
    why_host = "its lengths are not known"


class AttendBackward(Host, role=True):
    """The cotangents of attention's queries, keys, values and sinks. Its inputs are the cotangent
    of attention's result, the three outputs of attention, and attention's inputs.

    Write a frozen dataclass with the fields of `Attend`, and the rules.
    """

    scale: float
    causal: bool
    has_mask: bool

    several_outputs = True
    why_host = "its lengths are not known"
