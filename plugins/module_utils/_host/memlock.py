# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How much memory processes may lock: what registers memory with a NIC locks it."""

from __future__ import annotations

import itertools
import re
import typing as t

from .._base.boot import unit_file
from .._base.errors import InputError
from .._base.steps import Plan, Step

FILES = "memlock"
UNLIMITED = "unlimited"
LEAST = 16  # GiB, below which AWS warns
SIZE = re.compile(r"(\d{1,6})G")
GIB = 1 << 30
HEADER = "# Written by gpu.node.host.\n"
LIMITS = "/etc/security/limits.d/zz-gpu-node.conf"
# What starts containers, jobs and sessions: they have the limit of what starts them.
UNITS = tuple(
    f"{name}.service"
    for name in (
        *("containerd", "docker", "crio", "k3s", "k3s-agent", "rke2-server", "rke2-agent"),
        *("k0sworker", "k0scontroller", "snap.microk8s.daemon-containerd"),
        *("slurmd", "ssh", "sshd"),
    )
)
FOLDER = "/etc/security"
EVERYBODY = ("*", "root")
LOCKED = re.compile(r"^Max locked memory\s+(\S+)", re.M)


class Service(t.NamedTuple):
    """A service that is there: the limit that it starts with and the one that it runs with, in bytes or infinite."""

    unit: str
    starts: float
    runs: float
    unread: bool = False  # systemd has not read its files again


def parse(value: str) -> float:
    """Return a limit in bytes, which may be infinite.

    Raises:
        InputError: if it is not valid.
    """
    size = SIZE.fullmatch(value)
    if value != UNLIMITED and (size is None or int(size[1]) < LEAST):
        raise InputError.of("memlock", value, f"{UNLIMITED}, or {LEAST}G or more")
    return float("inf") if size is None else float(int(size[1]) * GIB)


def limit(text: str) -> float:
    """Return a limit as systemd and the kernel print it; anything but a number is infinite."""
    return float(text) if text.isdigit() else float("inf")


def running(limits: str) -> float:
    """Return the limit of a process by its /proc/PID/limits; infinite if it does not run."""
    match = LOCKED.search(limits)
    return limit(match[1]) if match else float("inf")


def drop_in(unit: str) -> str:
    """Return where a unit's limit is written."""
    return f"{unit_file(unit)}.d/zz-gpu-node.conf"


PATHS = (LIMITS, *map(drop_in, UNITS))


def texts(desired: float) -> t.Dict[str, str]:
    """Return the texts of all files that may be written."""
    unlimited = desired == float("inf")
    size = "infinity" if unlimited else str(int(desired))
    value = UNLIMITED if unlimited else str(int(desired) // 1024)
    pairs = itertools.product(EVERYBODY, ("soft", "hard"))
    rows = [f"{subject} {kind} memlock {value}\n" for subject, kind in pairs]
    unit = f"{HEADER}[Service]\nLimitMEMLOCK={size}\n"
    return {LIMITS: HEADER + "".join(rows), **{drop_in(unit_name): unit for unit_name in UNITS}}


def lower(path: str, text: str, desired: float) -> bool:
    """Return whether a file of limits gives a session less, in a line that wins over ours.

    The last one of everybody wins, and one of a user or a group over those (limits.conf(5)).
    """
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) == 4 and fields[2] == "memlock" and fields[3].isdigit():
            wins = fields[0] not in EVERYBODY or path > LIMITS
            if wins and int(fields[3]) * 1024 < desired:
                return True
    return False


def plan(
    there: t.Mapping[str, str],
    services: t.Sequence[Service],
    desired: t.Optional[float],
    login_files: t.Mapping[str, str],
    logins_without_limits: t.Sequence[str] = (),
) -> Plan:
    """Return the plan to a limit, or without one to none of our files.

    ``there`` are the texts of those, ``login_files`` those of files of limits of somebody else, and
    ``logins_without_limits`` the files of PAM by which sessions get no limit at all.
    """
    target: t.Dict[str, str] = {}
    if desired is not None:
        every = texts(desired)
        paths = {drop_in(service.unit) for service in services if service.starts < desired}
        target = {path: every[path] for path in PATHS if path in {LIMITS, *paths, *there}}
    write = {path: text for path, text in target.items() if there.get(path) != text}
    remove = [path for path in there if path not in target]
    unread = [service.unit for service in services if service.unread]
    more = desired is not None and bool(unread)  # what they start with is known then
    steps = []
    # Our last file goes once systemd has read all others, so that a run that is killed before can be finished.
    last = [path for path in remove if path == LIMITS]
    for gone in ([path for path in remove if path != LIMITS], last):
        parts = [f"write {', '.join(write)}"] if write else []
        parts += [f"remove {', '.join(gone)}"] if gone else []
        parts += [f"have systemd read {', '.join(unread)} again"] if unread and not parts else []
        if parts:
            params = {"write": write, "remove": gone, "systemctl": [["daemon-reload"]]}
            steps.append(Step(FILES, f"memlock: {' and '.join(parts)}", params))
        write, unread = {}, []
    wish = 0 if desired is None else desired
    overruled = [] if steps else [service.unit for service in services if service.starts < wish]
    low = [service.unit for service in services if service.runs < wish]
    late = tuple(unit for unit in low if unit not in overruled)
    files = {} if steps else login_files
    sessions = [path for path, text in files.items() if lower(path, text, wish)]
    return Plan(
        tuple(steps),
        dict(there) if steps else {},
        target if steps else {},
        restart_required=late,
        warnings=tuple(_warnings(late, overruled, sessions, logins_without_limits if wish else ())),
        more=more,
    )


def _warnings(
    late: t.Sequence[str],
    overruled: t.Sequence[str],
    sessions: t.Sequence[str],
    logins_without_limits: t.Sequence[str],
) -> t.Iterator[str]:
    """Yield the warnings about services that run or start with less, and about sessions."""
    if late:
        yield (
            f"host: memlock waits for a restart of {', '.join(late)}: until then what is started there may lock less. "
            "Next step: restart what is named, or reboot the node"
        )
    for unit in overruled:
        yield (
            f"host: {unit} starts with less than memlock, as another of its drop-ins sets LimitMEMLOCK. Next step: "
            f"find it by systemctl cat {unit}, and remove that from it"
        )
    for path in sessions:
        yield (
            f"host: {path} gives sessions a lower limit than memlock. Next step: remove its lines with memlock, or "
            "raise them"
        )
    for path in logins_without_limits:
        yield (
            f"host: sessions by {path} get no limits, as neither it nor what it includes has pam_limits.so. Next step: "
            "add the line 'session required pam_limits.so' there"
        )
