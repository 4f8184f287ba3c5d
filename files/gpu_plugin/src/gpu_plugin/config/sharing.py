# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of the configuration that are lists: who shares what, and which names things get. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import cut, shown
from ..mps.settings import Settings
from . import mps as entry
from .naming import LONGEST_PATTERN, Naming, Rule, qualified
from .strict_yaml import ConfigError, Value, is_whole

Found = Mapping[str, Value]

MOST_REPLICAS: Final = 4096
ALL: Final = "all"
UUID: Final = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
INDEX: Final = "[0-9]{1,9}"
REFERENCE: Final = re.compile(
    rf"{INDEX}(:{INDEX})?|GPU-{UUID}|MIG-{UUID}|MIG-GPU-{UUID}/{INDEX}/{INDEX}"
)
REFERENCES: Final = (
    "all, a number of devices, or a list of indices (0, 0:1) and UUIDs (GPU-..., MIG-...)"
)

STRATEGIES: Final = ("timeSlicing", "mps")
KEYS: Final = (
    *(f"resources.{kind}[].{key}" for kind in ("gpus", "mig") for key in ("pattern", "name")),
    *(
        f"sharing.{strategy}.{key}"
        for strategy in STRATEGIES
        for key in (
            "renameByDefault",
            "failRequestsGreaterThanOne",
            "resources[].name",
            "resources[].rename",
            "resources[].devices",
            "resources[].replicas",
        )
    ),
    "sharing.timeSlicing.resources[].timeSlice",
    *entry.KEYS,
)
TIME_SLICES: Final = ("default", "short", "medium", "long")  # by the driver's numbers


@dataclass(frozen=True)
class Share:
    """Devices of a resource that several containers use at once, and what they are offered as.

    ``first`` is how many of them, ``devices`` are indices and UUIDs; without either it is all.
    They take turns of ``time_slice``, or use it at the same time where ``mps`` says how.
    """

    name: str
    replicas: int
    offered_as: str
    first: int | None = None
    devices: tuple[str, ...] = ()
    mps: Settings | None = None
    time_slice: str = ""


@dataclass(frozen=True)
class Sharing:
    """How devices are shared. ``one_each``: a container may have one share in time only."""

    shares: tuple[Share, ...] = ()
    one_each: bool = False


def naming(found: Found) -> Naming:
    """Return the rules of the section resources."""
    kinds = []
    for kind in ("gpus", "mig"):
        rules = []
        for at in _items(found, f"resources.{kind}"):
            pattern = _text(found, at, "pattern")
            if len(pattern) > LONGEST_PATTERN:
                raise _invalid(found[f"{at}.pattern"], f"at most {LONGEST_PATTERN} characters")
            rules.append(Rule(pattern, _name(found, at, "name")))
        kinds.append(tuple(rules))
    return Naming(*kinds)


def sharing(found: Found) -> Sharing:
    """Return what the section sharing asks for. Of two strategies MPS takes its devices first."""
    shares: list[Share] = []
    before: dict[str, set[str]] = {}
    for strategy in ("mps", "timeSlicing"):
        for at, share in _strategy(found, strategy):
            taken = before.setdefault(share.name, set())
            if both := _twice(share, taken):
                raise ConfigError(
                    f"{found[at].where}: {at}: {cut(both)} of {share.name} is shared twice",
                    hint="name other devices in each entry",
                )
            if not share.devices and share.first is None:
                taken.add(ALL)
            taken.update(share.devices)
            shares.append(share)
    one_each = _flag(found, "sharing.timeSlicing.failRequestsGreaterThanOne")
    return Sharing(tuple(shares), bool(one_each))


def _strategy(found: Found, strategy: str) -> Iterator[tuple[str, Share]]:
    section = f"sharing.{strategy}"
    rename = _flag(found, f"{section}.renameByDefault")
    one_each = _flag(found, f"{section}.failRequestsGreaterThanOne")
    listed = f"{section}.resources"
    items = list(_items(found, listed))
    given = [path for path in found if path.startswith(f"{section}.")]
    if given and not items:
        raise ConfigError(
            f"{found[given[0]].where}: {listed} is missing or empty",
            cause="expected one or more mappings with name and replicas",
        )
    for at in items:
        share = _share(found, at, bool(rename))
        if strategy == "mps":
            share = replace(share, mps=entry.settings(found, at, share.replicas, one_each))
        elif _given(found, f"{at}.timeSlice"):
            share = replace(share, time_slice=_time_slice(found[f"{at}.timeSlice"]))
        yield at, share


def _share(found: Found, at: str, rename: bool) -> Share:
    name = _name(found, at, "name")
    replicas = _required(found, at, "replicas")
    if not is_whole(replicas.data) or not 1 <= replicas.data <= MOST_REPLICAS:
        raise _invalid(replicas, f"a whole number from 1 to {MOST_REPLICAS}")
    offered_as = name
    if _given(found, f"{at}.rename"):
        offered_as = _name(found, at, "rename")
    elif rename:
        offered_as = _full(found[f"{at}.name"], f"{name}.shared")
    first, devices = _devices(found.get(f"{at}.devices"))
    return Share(name, replicas.data, offered_as, first, devices)


def _time_slice(value: Value) -> str:
    if value.data not in TIME_SLICES:
        raise _invalid(value, f"one of {', '.join(TIME_SLICES)}")
    return str(value.data)


def _devices(value: Value | None) -> tuple[int | None, tuple[str, ...]]:
    if value is None or value.data in (None, ALL):
        return None, ()
    data = value.data
    if is_whole(data) and data > 0:
        return data, ()
    if not isinstance(data, list) or not data:
        raise _invalid(value, REFERENCES)
    references = []
    for item in data:
        text = str(item) if is_whole(item) else item
        if not isinstance(text, str) or not REFERENCE.fullmatch(text):
            raise ConfigError(
                f"{value.where}: {value.path}: {shown(item)} is not valid",
                cause=f"expected {REFERENCES}",
            )
        references.append(text)
    return None, tuple(dict.fromkeys(references))


def _twice(share: Share, taken: Collection[str]) -> str:
    """Return what a share and those before it both take, as far as their words tell."""
    if ALL in taken:
        return "each device"
    return ", ".join(each for each in share.devices if each in taken)


def _items(found: Found, path: str) -> Iterator[str]:
    number = 0
    while f"{path}[{number}]" in found:
        yield f"{path}[{number}]"
        number += 1


def _given(found: Found, path: str) -> bool:
    return path in found and found[path].data is not None


def _required(found: Found, at: str, key: str) -> Value:
    if not _given(found, f"{at}.{key}"):
        raise ConfigError(f"{found[at].where}: {at}.{key} is missing")
    return found[f"{at}.{key}"]


def _text(found: Found, at: str, key: str) -> str:
    value = _required(found, at, key)
    if not isinstance(value.data, str) or not value.data:
        raise _invalid(value, "a string")
    return value.data


def _name(found: Found, at: str, key: str) -> str:
    text = _text(found, at, key)
    return _full(found[f"{at}.{key}"], text)


def _full(value: Value, name: str) -> str:
    try:
        return qualified(name)
    except NodeError as error:
        raise ConfigError(f"{value.where}: {value.path}: {error}") from error


def _flag(found: Found, path: str) -> bool | None:
    if not _given(found, path):
        return None
    data: Any = found[path].data
    if not isinstance(data, bool):
        raise _invalid(found[path], "true or false")
    return data


def _invalid(value: Value, expected: str) -> ConfigError:
    return ConfigError(
        f"{value.where}: {value.path}: {shown(value.data)} is not valid",
        cause=f"expected {expected}",
    )
