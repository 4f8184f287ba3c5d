# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which attributes and capacities an expression looks at, so that equal devices are looked at once. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import fields

from ..values import Device
from .syntax import Index, Literal, Name, Node, Select

Read = tuple[str, str, str]


def reads(node: Node) -> tuple[Read, ...] | None:
    """Return (member, domain, identifier) of all that is read, or None where that can't be told beforehand."""
    found = list(_walk(node))
    return None if None in found else tuple(sorted({one for one in found if one}))


def key(device: Device, read: tuple[Read, ...]) -> Hashable:
    """Return the values of a device that an expression looks at."""
    return tuple(_value(device, *one) for one in read)


def _value(device: Device, member: str, domain: str, name: str) -> Hashable:
    if member == "attributes":
        value = device.attributes.get(domain, {}).get(name)
        return (type(value), value)
    if member == "capacity":
        return device.capacity_by_domain.get(domain, {}).get(name)
    return device.driver if member == "driver" else device.multiple


def _walk(node: Node) -> Iterator[Read | None]:
    whole = _entry(node)
    if whole:
        yield whole
    elif isinstance(node, Select) and node.operand == Name("device"):
        yield (node.field, "", "") if node.field not in ("attributes", "capacity") else None
    else:
        yield from _below(node)


def _below(node: Node) -> Iterator[Read | None]:
    for one in fields(node):
        value = getattr(node, one.name)
        for child in value if isinstance(value, tuple) else (value,):
            if not isinstance(child, str | int | float | None):
                yield from _walk(child)


def _entry(node: Node) -> Read | None:
    """Return what is read where a node is device.attributes["domain"].name, or the same of capacity."""
    name = _constant(node)
    inner = node.operand if isinstance(node, Select | Index) else None
    domain = _constant(inner)
    outer = inner.operand if isinstance(inner, Select | Index) else None
    if name is None or domain is None or not isinstance(outer, Select):
        return None
    known = outer.operand == Name("device") and outer.field in ("attributes", "capacity")
    return (outer.field, domain, name) if known else None


def _constant(node: Node | None) -> str | None:
    if isinstance(node, Select):
        return node.field
    if (
        isinstance(node, Index)
        and isinstance(node.key, Literal)
        and isinstance(node.key.value, str)
    ):
        return node.key.value
    return None
