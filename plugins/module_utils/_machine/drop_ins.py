# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drop-ins of our units: additions are the user's choice, but overrides may make a unit unsafe."""

from __future__ import annotations

import posixpath
import typing as t

from .host import Host

UNITS = "/etc/systemd/system"
# Units in these folders are read instead of ours.
CONTROL = ("/etc/systemd/system.control", "/run/systemd/system.control")
# Of drop-ins with one name the first counts (systemd.unit(5)).
FOLDERS = (
    *CONTROL,
    UNITS,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
# Settings with which a unit works, and the node is as protected from it as before.
HARMLESS = frozenset(
    {
        *(
            "After",
            "Before",
            "Description",
            "Documentation",
            "RequiresMountsFor",
            "Wants",
            "WantsMountsFor",
        ),
        *("Environment", "EnvironmentFile", "Nice", "OOMScoreAdjust", "RestartSec", "Slice"),
        *("CPUAccounting", "IOAccounting", "IPAccounting", "MemoryAccounting", "TasksAccounting"),
        *("CPUWeight", "IOWeight", "MemoryLow", "MemoryMin", "StartupCPUWeight", "StartupIOWeight"),
        *("LogExtraFields", "LogRateLimitBurst", "LogRateLimitIntervalSec", "SyslogIdentifier"),
        "TimeoutStopFailureMode",  # Fedora sets it for all services
    }
)
# The least of a limit that our units run with: bytes, tasks, files, percent of a core.
LEAST: t.Mapping[str, int] = {
    "CPUQuota": 20,
    "LimitNOFILE": 1024,
    "MemoryHigh": 256 << 20,
    "MemoryMax": 256 << 20,
    "TasksMax": 64,
}
LEAST_SHARE = 10  # percent of the node's memory, or of its tasks
SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
OFF = ("", "no", "false", "off", "0", "auto", "root")


def warnings(host: Host, units: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return warnings about drop-ins that override settings of our units, and about units that replace ours."""
    # The settings, and the units that they are of, by the drop-in; both in order, each once.
    overruled: t.Dict[str, t.Tuple[t.Dict[str, None], t.Dict[str, None]]] = {}
    messages = []
    for path in units:
        unit, ours = posixpath.basename(path), host.read(path) or ""
        messages += [
            f"systemd reads {folder}/{unit} in the place of {UNITS}/{unit}. Next step: remove it, then run systemctl "
            f"daemon-reload and systemctl restart {unit}"
            for folder in CONTROL
            if host.exists(f"{folder}/{unit}")
        ]
        for drop_in in drop_ins(host, unit):
            for name in replaced(ours, host.read(drop_in) or ""):
                names, overruled_units = overruled.setdefault(drop_in, ({}, {}))
                names[name] = overruled_units[unit] = None
    for drop_in, (names, overruled_units) in overruled.items():
        each = "" if len(overruled_units) == 1 else "each of "
        messages.append(
            f"{drop_in} overrides what {each}{', '.join(overruled_units)} sets, or may keep it from its work: "
            f"{', '.join(names)}. Next step: remove that from the file, then run systemctl daemon-reload and systemctl "
            f"restart {' '.join(overruled_units)}; other settings may stay"
        )
    return tuple(messages)


def drop_ins(host: Host, unit: str) -> t.List[str]:
    """Return the drop-ins that systemd reads for a unit: its own, those of prefixes of its name, those of its type."""
    stem, dot, kind = unit.rpartition(".")
    parts = stem.split("-")
    names = [unit, *("-".join(parts[:at]) + f"-{dot}{kind}" for at in range(len(parts) - 1, 0, -1))]
    paths: t.Dict[str, str] = {}
    for folder in FOLDERS:
        for name in (*names, kind):
            for file in host.listdir(f"{folder}/{name}.d"):
                if file.endswith(".conf"):
                    paths.setdefault(file, f"{folder}/{name}.d/{file}")
    return list(paths.values())


def settings(text: str) -> t.Iterator[t.Tuple[str, str]]:
    """Yield the settings of a unit file in their order, each under its section's name and its own."""
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        word = line.strip()
        if word.startswith("["):
            section = word
        elif "=" in word and not word.startswith(("#", ";")):
            name, _is, value = word.partition("=")
            yield f"{section}{name.strip()}", value.strip()


def replaced(unit: str, drop_in: str) -> t.List[str]:
    """Return the settings of a drop-in that change what a unit sets, or that aren't known to be harmless."""
    ours: t.Dict[str, t.List[str]] = {}
    for name, value in settings(unit):
        ours.setdefault(name, []).append(value)
    changed = [
        name.rpartition("]")[2]
        for name, value in settings(drop_in)
        if not _is_harmless(name.rpartition("]")[2], value, ours.get(name, []))
    ]
    return list(dict.fromkeys(changed))


def _is_harmless(setting: str, value: str, ours: t.Sequence[str]) -> bool:
    """Return whether a unit works, protected as before, with another value of a setting; ``ours`` are the unit's."""
    if value in ours or setting in HARMLESS:
        return True
    if setting not in LEAST:
        return not ours and not setting.startswith("Limit") and value.lower() in OFF
    # A limit, such as 2G, 50% or infinity: our units need the least.
    digits = value.rstrip("%KMGT")
    suffix = value[len(digits) :]
    if not digits.isdigit():
        return value in ("", "infinity")
    if suffix == "%":
        return int(digits) >= (LEAST[setting] if setting == "CPUQuota" else LEAST_SHARE)
    return int(digits) << SHIFTS.get(suffix, 0) >= LEAST[setting]
