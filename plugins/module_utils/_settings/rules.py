# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The user's rules: which GPUs, and their settings, checked against the limits of a board."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from .._base.errors import InputError
from .._base.gpu import (
    ACCOUNTING,
    CLOCKS,
    COMPUTE,
    COMPUTE_MODES,
    NAMES,
    POWER,
    POWER_PROFILES,
    PROFILES,
    Gpu,
    Profiles,
    SettingsTold,
    Value,
    product_key,
    profile_number,
)
from .._base.text.json_data import is_whole
from .._base.text.table import check_keys, mapping

ALL, DEFAULT = "all", "default"
MATCH = ("model", "uuid", "index", "pci")
PERCENT = re.compile(r"([1-9][0-9]{0,2})%")
# The only values that a GPU in MIG mode can be set to (nvmlDeviceSetComputeMode, nvmlDeviceSetAccountingMode).
IN_MIG: t.Mapping[str, Value] = {ACCOUNTING: False, COMPUTE: DEFAULT}
WANTED: t.Mapping[str, str] = {
    POWER: "watts, a share of the board's default such as 80%, or default",
    **dict.fromkeys(CLOCKS, "two clocks in MHz, from and to, one clock, or default for no lock"),
    POWER_PROFILES: f"some of {', '.join(PROFILES)}, or default for none",
    COMPUTE: f"one of {', '.join(COMPUTE_MODES)}",
}


class Rule(t.NamedTuple):
    """The settings of the GPUs that match; ``match`` has allowed values by attribute, and is empty for all GPUs."""

    key: str
    match: t.Mapping[str, t.Tuple[str, ...]]
    settings: t.Mapping[str, t.Any]

    def matches(self, gpu: Gpu) -> bool:
        """Return whether a rule is about a GPU."""
        return all(
            any(_is(gpu, name, value) for value in values) for name, values in self.match.items()
        )


def _is(gpu: Gpu, name: str, text: str) -> bool:
    text = text.lower()
    if name == "model":
        return fnmatch.fnmatchcase(product_key(gpu.name), product_key(text))
    if name == "pci":
        has_no_domain = text.count(":") == 1
        return (f"0000:{text}" if has_no_domain else text[-12:]) == gpu.pci_bus_id
    return text == {"uuid": gpu.uuid.lower(), "index": str(gpu.index)}[name]


def parse(rules: t.Sequence[t.Any]) -> t.Tuple[Rule, ...]:
    """Return the parsed rules.

    Raises:
        InputError: if one is invalid, with the nearest known name.
    """
    return tuple(_rule(f"rules[{at}]", rule) for at, rule in enumerate(rules))


def _rule(key: str, data: t.Any) -> Rule:
    row = mapping(key, data, "a mapping with match and settings")
    check_keys(key, row, ("match", *NAMES))
    settings = {name: value for name, value in row.items() if name != "match" and value is not None}
    if not settings:
        raise InputError.of(key, data, f"at least one of {', '.join(NAMES)}")
    for name, value in settings.items():
        if not _valid(name, value):
            raise InputError.of(f"{key}.{name}", value, WANTED.get(name, "true or false"))
    return Rule(key, _match(f"{key}.match", row.get("match", ALL)), settings)


def _match(key: str, data: t.Any) -> t.Dict[str, t.Tuple[str, ...]]:
    if data == ALL:
        return {}
    row = mapping(key, data, f"{ALL}, or a mapping with some of {', '.join(MATCH)}")
    check_keys(key, row, MATCH)
    result = {}
    for name, value in row.items():
        values = _as_list(value)
        if not values or not all(isinstance(item, str) or is_whole(item) for item in values):
            raise InputError.of(f"{key}.{name}", value, "a text or a number, or a list of them")
        result[name] = tuple(map(str, values))
    return result


def _as_list(value: t.Any) -> t.List[t.Any]:
    return value if isinstance(value, list) else [value]


def _valid(name: str, value: t.Any) -> bool:
    if name == COMPUTE:
        return isinstance(value, str) and value in COMPUTE_MODES
    if name not in (POWER, POWER_PROFILES, *CLOCKS):
        return isinstance(value, bool)
    if value == DEFAULT:
        return True
    if name == POWER_PROFILES:
        return bool(value) and all(profile_number(item) is not None for item in _as_list(value))
    if name == POWER:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        return number or bool(isinstance(value, str) and PERCENT.fullmatch(value))
    values = _as_list(value)
    ordered = len(values) in (1, 2) and all(is_whole(item) and item > 0 for item in values)
    return ordered and values[0] <= values[-1]


def resolve_rules(rules: t.Sequence[Rule], gpu: Gpu, reported: SettingsTold) -> t.Dict[str, Value]:
    """Return the desired settings of a GPU; of the rules that match, the last with a setting counts.

    A setting that the GPU does not have is returned as it is written.

    Raises:
        InputError: if the GPU's board does not allow it.
    """
    result: t.Dict[str, Value] = {}
    for rule in rules:
        if rule.matches(gpu):
            for name, value in rule.settings.items():
                result[name] = _resolved(f"{rule.key}.{name}", name, value, gpu, reported)
    return result


def _resolved(key: str, name: str, value: t.Any, gpu: Gpu, reported: SettingsTold) -> Value:
    if name == POWER and POWER in reported.present:
        milliwatts = _milliwatts(value, reported.power_default)
        least, most = reported.power
        if not least <= milliwatts <= most:
            allowed = f"{least / 1000:g} to {most / 1000:g} W"
            expected = f"{allowed}, which GPU {gpu.index} ({gpu.name}) allows"
            raise InputError.of(key, value, expected)
        return milliwatts
    if name in CLOCKS and name in reported.clocks:
        if value == DEFAULT:
            return None
        values = _as_list(value)
        least, most = reported.clocks[name]
        if not least <= values[0] <= values[-1] <= most:
            expected = f"{least} to {most} MHz, which GPU {gpu.index} ({gpu.name}) has"
            raise InputError.of(key, value, expected)
        return values[0], values[-1]
    if name == POWER_PROFILES and POWER_PROFILES in reported.present:
        return _profiles(key, [] if value == DEFAULT else _as_list(value), gpu, reported.profiles)
    return t.cast(Value, value)


def _profiles(
    key: str, names: t.Sequence[str], gpu: Gpu, board: t.Mapping[str, Profiles]
) -> Profiles:
    """Return power profiles in the order of their numbers; refuse those that the board lacks or that conflict."""
    named = f"GPU {gpu.index} ({gpu.name})"
    if not set(names) <= set(board):
        raise InputError.of(key, list(names), f"some of {', '.join(board)}, which {named} has")
    for name in names:
        conflicting = [other for other in board[name] if other in names and other != name]
        if conflicting:
            expected = f"profiles that go together: {name} and {conflicting[0]} conflict on {named}"
            raise InputError.of(key, list(names), expected)
    return tuple(name for name in board if name in names)


def _milliwatts(value: t.Any, default: int) -> int:
    if value == DEFAULT:
        return default
    share = PERCENT.fullmatch(value) if isinstance(value, str) else None
    if share:
        return default * int(share[1]) // 100_000 * 1000  # whole watts, as nvidia-smi has them
    milliwatts: int = round(value * 1000)
    return milliwatts
