# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An expression's form made into a function of a device. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..values import Device
from .errors import CelError
from .functions import GLOBALS, METHODS, OPERATORS, Function, Quantity, kind
from .patterns import compiled
from .syntax import Call, Index, Items, Literal, Name, Node, Select
from .tokens import BadWord

Variables = dict[str, Any]
Run = Callable[[Variables], Any]

_MEMBERS: Final[dict[str, Callable[[Device], Any]]] = {
    "driver": lambda device: device.driver,
    "allowMultipleAllocations": lambda device: device.multiple,
    "attributes": lambda device: _Domains(device.attributes),
    "capacity": lambda device: _Domains(
        {
            domain: {name: Quantity(value) for name, value in of.items()}
            for domain, of in device.capacity_by_domain.items()
        }
    ),
}
_MACROS: Final = ("exists", "all")


class _Domains(dict[str, Mapping[str, Any]]):
    """Attributes or capacities by domain; one that a device does not have is an empty map."""

    def __missing__(self, key: str) -> Mapping[str, Any]:
        return {}


def program(node: Node) -> Callable[[Device], bool]:
    """Return what says whether an expression is true for a device. BadWord: it uses what is not known here."""
    run = _compiled(node, frozenset({"device"}))

    def true(device: Device) -> bool:
        result = run({"device": device})
        if not isinstance(result, bool):
            raise CelError(f"the result is a {kind(result)}, not a bool")
        return result

    return true


def _compiled(node: Node, names: frozenset[str]) -> Run:
    match node:
        case Literal(value):
            return lambda _variables: value
        case Name(name):
            return _variable(name, names)
        case Select(operand, field):
            return _selected(operand, field, names)
        case Index(operand, key):
            return _entry(_compiled(operand, names), _compiled(key, names))
        case Items(items):
            runs = tuple(_compiled(item, names) for item in items)
            return lambda variables: tuple(run(variables) for run in runs)
        case Call():
            return _call(node, names)


def _variable(name: str, names: frozenset[str]) -> Run:
    if name not in names:
        raise BadWord(f"there is no {name!r}, only device")
    return lambda variables: variables[name]


def _selected(operand: Node, field: str, names: frozenset[str]) -> Run:
    if operand == Name("device"):
        if field not in _MEMBERS:
            raise BadWord(f"a device has no {field!r}, but {', '.join(_MEMBERS)}")
        member = _MEMBERS[field]
        return lambda variables: member(variables["device"])
    return _entry(_compiled(operand, names), lambda _variables: field)


def _entry(operand: Run, key: Run) -> Run:
    def run(variables: Variables) -> Any:
        whole, wanted = operand(variables), key(variables)
        if isinstance(whole, tuple):
            return _item(whole, wanted)
        if not isinstance(whole, Mapping):
            raise CelError(f"no such overload: a {kind(whole)} has no entries")
        try:
            return whole[wanted]
        except (KeyError, TypeError):
            raise CelError(f"no such key: {wanted}") from None

    return run


def _item(items: tuple[Any, ...], wanted: Any) -> Any:
    if kind(wanted) != "number" or not 0 <= wanted < len(items):
        raise CelError(f"index out of bounds: {wanted}")
    return items[wanted]


def _call(node: Call, names: frozenset[str]) -> Run:
    if node.target is not None:
        return _method(node, names)
    if node.name in ("&&", "||"):
        return _either(*(_compiled(one, names) for one in node.arguments), end=node.name == "||")
    if node.name == "?:":
        return _choice(*(_compiled(one, names) for one in node.arguments))
    if node.name == "has":
        return _has(node, names)
    runs = tuple(_compiled(one, names) for one in node.arguments)
    if node.name in OPERATORS:
        operator, (one, other) = OPERATORS[node.name], runs
        return lambda variables: operator(one(variables), other(variables))
    if node.name in ("!_", "-_"):
        return _negated(node.name, runs[0])
    if node.name not in GLOBALS:
        raise BadWord(f"the function {node.name}() is not known")
    return _applied(node.name, GLOBALS[node.name], None, runs)


def _method(node: Call, names: frozenset[str]) -> Run:
    if node.target == Name("cel") and node.name == "bind" and len(node.arguments) == 3:
        return _bound(node.arguments, names)
    if node.name in _MACROS and len(node.arguments) == 2:
        return _macro(node, names)
    if node.name not in METHODS:
        raise BadWord(f"the function {node.name}() is not known")
    if node.name == "matches" and node.arguments and isinstance(node.arguments[0], Literal):
        _readable_pattern(node.arguments[0].value)
    runs = tuple(_compiled(one, names) for one in node.arguments)
    target = None if node.target is None else _compiled(node.target, names)
    return _applied(node.name, METHODS[node.name], target, runs)


def _readable_pattern(pattern: object) -> None:
    try:
        compiled(str(pattern))
    except CelError as error:
        raise BadWord(str(error)) from error


def _applied(name: str, function: Function, target: Run | None, runs: tuple[Run, ...]) -> Run:
    targets, kinds, call = function
    if len(kinds) != len(runs):
        raise BadWord(f"{name}() has {len(kinds)} arguments, not {len(runs)}")

    def run(variables: Variables) -> Any:
        values = [one(variables) for one in runs]
        fit = all(map(isinstance, values, kinds))
        if target is not None:
            values.insert(0, target(variables))
            fit = fit and isinstance(values[0], targets)
        if not fit:
            raise CelError(f"no such overload: {name}({', '.join(map(kind, values))})")
        return call(*values)

    return run


def _either(one: Run, other: Run, *, end: bool) -> Run:
    """Return && or ||: where a side decides alone, what is wrong with the other does not matter."""

    def run(variables: Variables) -> bool:
        wrong: CelError | None = None
        for side in (one, other):
            try:
                value = _bool(side(variables))
            except CelError as error:
                wrong = wrong or error
                continue
            if value is end:
                return end
        if wrong is not None:
            raise wrong
        return not end

    return run


def _choice(condition: Run, yes: Run, no: Run) -> Run:
    def run(variables: Variables) -> Any:
        return yes(variables) if _bool(condition(variables)) else no(variables)

    return run


def _negated(sign: str, of: Run) -> Run:
    wanted = "bool" if sign == "!_" else "number"

    def run(variables: Variables) -> Any:
        value = of(variables)
        if kind(value) != wanted:
            raise CelError(f"no such overload: {sign[0]}{kind(value)}")
        return not value if sign == "!_" else -value

    return run


def _has(node: Call, names: frozenset[str]) -> Run:
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], Select):
        raise BadWord("has() needs one member, such as has(device.attributes['gpu.node'].type)")
    of = node.arguments[0]
    if of.operand == Name("device"):
        _compiled(of, names)
        return lambda _variables: True
    whole = _compiled(of.operand, names)

    def run(variables: Variables) -> bool:
        value = whole(variables)
        if not isinstance(value, Mapping):
            raise CelError(f"no such overload: a {kind(value)} has no entries")
        return of.field in value

    return run


def _bound(arguments: tuple[Node, ...], names: frozenset[str]) -> Run:
    name, value, body = arguments
    if not isinstance(name, Name):
        raise BadWord("cel.bind() needs a name first")
    known, inner = _compiled(value, names), _compiled(body, names | {name.name})
    variable = name.name
    return lambda variables: inner({**variables, variable: known(variables)})


def _macro(node: Call, names: frozenset[str]) -> Run:
    name, body = node.arguments
    if not isinstance(name, Name) or node.target is None:
        raise BadWord(f"{node.name}() needs a name first")
    variable, whole = name.name, _compiled(node.target, names)
    inner, end = _compiled(body, names | {name.name}), node.name == "exists"

    def run(variables: Variables) -> bool:
        items = whole(variables)
        if not isinstance(items, tuple | Mapping):
            raise CelError(f"no such overload: {node.name}() of a {kind(items)}")
        wrong: CelError | None = None
        for item in items:
            try:
                if _bool(inner({**variables, variable: item})) is end:
                    return end
            except CelError as error:
                wrong = error
        if wrong is not None:
            raise wrong
        return not end

    return run


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"no such overload: a {kind(value)} is no bool")
    return value
