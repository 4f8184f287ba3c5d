# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a roll-out goes over its nodes: how many change at a time, and when it ends as too many have failed."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError

SERIAL, UNAVAILABLE = "gpu_nodes_serial", "gpu_nodes_max_unavailable"
FAIL_PERCENTAGE = "gpu_nodes_max_fail_percentage"
FAILED, BEGUN = "failed", "begun"
Values = t.Mapping[str, t.Mapping[str, t.Any]]
Sizes = t.List[t.Union[int, str]]


class Settings(t.NamedTuple):
    """Batches as Ansible's serial has them, and the two limits, None where they are not given."""

    serial: t.Tuple[t.Union[int, str], ...] = (1,)
    max_unavailable: t.Union[int, str, None] = None
    max_fail_percentage: t.Optional[float] = None


class RolloutNode(t.NamedTuple):
    """What became of a node: one of the words above or another, and the nodes of its batch."""

    state: str = ""
    batch: t.Tuple[str, ...] = ()


def settings(values: Values, aliases: t.Sequence[str] = ()) -> t.Tuple[Settings, t.List[str]]:
    """Return what the nodes' variables say, by name and node, and the older names that they use.

    Raises:
        InputError: if a value is not valid, or nodes disagree.
    """
    old = [alias for alias in aliases if values.get(alias) and not values.get(SERIAL)]
    name = old[0] if old else SERIAL
    result = Settings(
        tuple(agreed(values, name, _serial) or (1,)),
        agreed(values, UNAVAILABLE, size),
        agreed(values, FAIL_PERCENTAGE, _fail_percentage),
    )
    return result, [alias for alias in aliases if values.get(alias)]


def agreed(values: Values, name: str, parse: t.Callable[[str, t.Any], t.Any]) -> t.Any:
    """Return the one value that the nodes have, None where none has any."""
    by_node = values.get(name) or {}
    by_value: t.Dict[str, t.List[str]] = {}
    for node, value in by_node.items():
        by_value.setdefault(repr(parse(f"{name} of {node}", value)), []).append(node)
    if len(by_value) > 1:
        listing = ", ".join(
            f"{by_node[nodes[0]]!r} for {_few(nodes)}" for nodes in by_value.values()
        )
        raise InputError(
            f"{name}: nodes of one roll-out disagree: {listing}",
            hint=f"give {name} once for all of them, in the group's variables or with -e",
        )
    return parse(name, next(iter(by_node.values()))) if by_node else None


def _few(nodes: t.Sequence[str]) -> str:
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more


def _serial(name: str, value: t.Any) -> Sizes:
    sizes = value if isinstance(value, (list, tuple)) else [value]
    if not sizes:
        raise InputError.of(name, value, "a number of nodes, a percentage, or a list of these")
    return [size(name, item) for item in sizes]


def size(name: str, value: t.Any) -> t.Union[int, str]:
    """Return a number of nodes from 1 on, or a percentage as text."""
    number, sign = _number(value)
    if number is None or number < 1 or not number.is_integer() or (sign and number > 100):
        raise InputError.of(name, value, "a number from 1 on, or a percentage from 1% to 100%")
    return f"{int(number)}%" if sign else int(number)


def _fail_percentage(name: str, value: t.Any) -> float:
    number, _sign = _number(value)
    if number is None or not 0 <= number <= 100:
        raise InputError.of(name, value, "a percentage from 0 to 100")
    return number


def _number(value: t.Any) -> t.Tuple[t.Optional[float], bool]:
    """Return a number that may be text, and whether a percent sign follows it; no number where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None, False
    text = str(value).strip()
    sign = text.endswith("%")
    try:
        return float(text[:-1] if sign else text), sign
    except ValueError:
        return None, sign


def stopped(
    nodes: t.Mapping[str, RolloutNode], limits: Settings, batch: t.Collection[str] = ()
) -> str:
    """Say why no other batch may begin, nothing where one may; ``batch`` is the one that would."""
    gone = [name for name, node in nodes.items() if _is_gone(name, node, batch)]
    if not gone:
        return ""
    message = f"{len(gone)} of {len(nodes)} nodes failed ({_few(gone)})"
    if limits.max_unavailable is None and limits.max_fail_percentage is None:
        return f"{message}, and neither {UNAVAILABLE} nor {FAIL_PERCENTAGE} allows for any"
    limit = most(limits.max_unavailable, len(nodes))
    if limit is not None and len(gone) >= limit:
        return f"{message}, and {UNAVAILABLE} is {limits.max_unavailable}"
    for nodes_of_batch in sorted({node.batch for node in nodes.values() if node.batch}):
        share = 100 * len(set(gone) & set(nodes_of_batch)) / len(nodes_of_batch)
        if limits.max_fail_percentage is not None and share > limits.max_fail_percentage:
            allowed = f"{limits.max_fail_percentage:g}"
            return f"{message}, {share:.0f} % of a batch, and {FAIL_PERCENTAGE} is {allowed}"
    return ""


def _is_gone(name: str, node: RolloutNode, batch: t.Collection[str]) -> bool:
    """Return whether a node failed, or was lost in the middle of its change."""
    return node.state == FAILED or (node.state == BEGUN and name not in batch)


def most(limit: t.Union[int, str, None], count: int) -> t.Optional[int]:
    """Return the number of nodes that a limit is of so many, one at least; None without one."""
    if isinstance(limit, str):
        return max(1, count * int(limit[:-1]) // 100)
    return limit
