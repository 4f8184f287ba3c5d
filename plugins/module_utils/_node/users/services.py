# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that may be stopped for a change, and the record of those that were."""

from __future__ import annotations

import json
import re
import typing as t

from ..._base.boot import BEFORE
from ..._base.errors import InputError, readable
from ..._base.services.driver import FABRIC_SERVICE, SERVICE
from ..._base.text import json_data
from .holders import OURS

RECORD = "/var/lib/gpu-node/stopped-services.json"
STOP, START = "stop_services", "start_services"
# Holders of GPUs besides services that are switched off for a reset, by their names in the record and in messages.
PERSISTENCE, DRM = "persistence mode of ", "the module nvidia_drm"
NAME = re.compile(r"[A-Za-z0-9:_.@][A-Za-z0-9:_.@\\-]*\.service")
OUR_UNITS = frozenset(
    f"gpu-{name}.service"
    for name in (
        "node-labels",
        "mig",
        "settings",
        "cdi",
        "device-nodes",
        "mps",
        "dra",
        "dcgm-exporter",
    )
) | {OURS}
PODS = frozenset(unit for unit in BEFORE.split() if unit not in OUR_UNITS)
NODES_OWN = re.compile(r"(systemd-.*|dbus|dbus-broker|ssh|sshd|NetworkManager)\.service")
HINT = "start stopped services such as nvidia-dcgm and nvsm by hand, then remove it"


def persistence(uuid: str) -> str:
    """Return the name of a GPU's persistence mode in the record and in messages."""
    return f"{PERSISTENCE}{uuid}"


def command(service: str, *, on: bool) -> t.Tuple[str, ...]:
    """Return the command that switches a holder off or on that is no service; none for a service."""
    if service.startswith(PERSISTENCE):
        return ("nvidia-smi", "-pm", str(int(on)), "-i", service[len(PERSISTENCE) :])
    if service == DRM:
        # Not modprobe -r, which also removes the driver if nothing uses it.
        return ("modprobe", "nvidia_drm") if on else ("rmmod", "nvidia_drm")
    return ()


class Service(t.NamedTuple):
    """A service by systemd's name, and whether it is on the node and runs."""

    unit: str
    there: bool
    runs: bool


class Stopped(t.NamedTuple):
    """The services that were stopped, in that order, since a boot."""

    units: t.Tuple[str, ...] = ()
    boot: str = ""


def parse(names: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return the services that the user names.

    Raises:
        InputError: if one may not be stopped, with the reason.
    """
    units = [name if "." in name else f"{name}.service" for name in names]
    for unit in units:
        expected = _why_not(unit)
        if expected:
            raise InputError.of("stop_services", unit, expected)
    return tuple(dict.fromkeys(units))


def _why_not(unit: str) -> str:
    if not NAME.fullmatch(unit):
        return "the name of a service of systemd, such as nvsm.service"
    if unit in OUR_UNITS:
        return "a service of others: gpu.node stops and starts its own"
    if unit in (SERVICE, FABRIC_SERVICE):
        return (
            "another service: this one is stopped and started where the kernel modules are reloaded"
        )
    if unit in PODS:
        return "another service: to stop this one ends no container; drain the node"
    if NODES_OWN.fullmatch(unit):
        return "another service: without this one the node can't be reached or does not work"
    return ""


def check(unit: str, dependent: str) -> None:
    """Refuse a service with which another one stops that must not be stopped."""
    if _why_not(dependent):
        expected = f"a service that {dependent} does not stop with, as it needs this one"
        raise InputError.of("stop_services", unit, expected)


def dump(stopped: Stopped) -> str:
    """Return the record's text."""
    return json.dumps({"units": list(stopped.units), "boot": stopped.boot}) + "\n"


def load(text: t.Optional[str]) -> Stopped:
    """Return the services that were stopped and not started again.

    Raises:
        NodeError: if the file is damaged.
    """
    if not text:
        return Stopped()
    with readable(RECORD, HINT):
        units = json_data.loads(text)
        return Stopped(tuple(map(str, units["units"])), str(units["boot"]))
