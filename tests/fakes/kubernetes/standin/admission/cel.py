# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Expressions of admission policies and webhooks: as much of CEL as our manifests use. Anything else is an error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.placement.cel.syntax import Call, Index, Items, Literal, Name, Node, Select, parse

Variables = Mapping[str, Any]
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "in": lambda one, other: one in other,
    "+": lambda one, other: one + other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
}
METHODS: dict[str, Callable[..., Any]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "substring": lambda text, *ends: text[slice(*ends)] if len(ends) > 1 else text[ends[0] :],
    "size": len,
}


def value(expression: str, variables: Variables) -> Any:
    """Return what an expression is with these variables. LookupError, TypeError: the genuine one fails too."""
    return _value(_parsed(expression), variables)


@functools.cache
def _parsed(expression: str) -> Node:
    return parse(expression)


def _value(node: Node, variables: Variables) -> Any:
    match node:
        case Literal(found):
            return found
        case Name(name):
            return variables[name]
        case Select(operand, field):
            return _value(operand, variables)[field]
        case Index(operand, key):
            return _value(operand, variables)[_value(key, variables)]
        case Items(items):
            return [_value(one, variables) for one in items]
        case Call():
            return _called(node, variables)


def _called(node: Call, variables: Variables) -> Any:
    match node.name, node.arguments:
        case "&&", (one, other):
            return _value(one, variables) and _value(other, variables)
        case "||", (one, other):
            return _value(one, variables) or _value(other, variables)
        case "?:", (asked, yes, no):
            return _value(yes if _value(asked, variables) else no, variables)
        case "!_", (one,):
            return not _value(one, variables)
        case "has", (Select(operand, field),):
            return field in _value(operand, variables)
        case ("exists" | "all") as name, (Name(each), condition) if node.target is not None:
            some = _value(node.target, variables)
            found = (_value(condition, {**variables, each: one}) for one in some)
            return any(found) if name == "exists" else all(found)
    arguments = [_value(one, variables) for one in node.arguments]
    if node.target is not None:
        return METHODS[node.name](_value(node.target, variables), *arguments)
    return SIGNS[node.name](*arguments)
