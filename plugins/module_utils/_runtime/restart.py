# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which containers a restart of their runtime would end, and whether it waits for them."""

from __future__ import annotations

import typing as t

NEVER, WHEN_IDLE, ALWAYS = "never", "when_idle", "always"
UNKNOWN = "containers that are not known, as {} does not answer"
MOST = 5  # names in a message
SHORT = 12  # characters of an id, as the field shows it
SOCKET = "/var/run/docker.sock"
# With these, systemd ends the main process of a unit and leaves the others: containers and what watches them.
SPARING = ("process", "none", "")
WATCHERS = ("containerd-shim", "conmon")


def docker_socket(config: t.Mapping[str, t.Any]) -> str:
    """Return where Docker listens on the machine."""
    hosts = config.get("hosts")
    for one in hosts if isinstance(hosts, list) else ():
        if isinstance(one, str) and one.startswith("unix://"):
            return one[len("unix://") :]
    return SOCKET


def docker_names(info: t.Any, containers: t.Any) -> t.Tuple[str, ...]:
    """Return the containers that end with Docker's daemon, given what it tells of itself and of those that run."""
    if not isinstance(info, dict) or not isinstance(containers, list):
        return (UNKNOWN.format("docker"),)
    if info.get("LiveRestoreEnabled") is True:
        return ()
    names = (one.get("Names") or [one.get("Id", "?")[:SHORT]] for one in containers)
    return tuple(str(one[0]).lstrip("/") for one in names)


def watched(command: str) -> t.Optional[str]:
    """Return the container that a process watches, given its command line with its words apart by NUL."""
    words = command.split("\0")
    if not words[0].rpartition("/")[2].startswith(WATCHERS):
        return None
    for option in ("-id", "--id", "-c", "--cid"):
        if option in words[:-1]:
            return words[words.index(option) + 1][:SHORT]
    return words[0]


def listed(names: t.Sequence[str]) -> str:
    """Return names as a message has them."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
