# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file and the units of a module's work at boot: reading and changing them."""

from __future__ import annotations

import typing as t

from ..._base.boot import PROGRAM, Boot, BootState, unit_file
from ..._base.steps import Step
from ..._machine.host import Host
from ..._machine.units import properties_of, systemctl


def observe(host: Host, boot: Boot) -> BootState:
    """Read the files, and systemd's properties of the units."""
    names = ("ActiveState", "UnitFileState", "NeedDaemonReload")
    units = {unit: host.read(unit_file(unit)) for unit in boot.units}
    services = properties_of(host, boot.units, *names)
    return BootState(host.read(boot.config), units, services, host.exists(PROGRAM))


def files(boot: Boot) -> t.Tuple[str, ...]:
    """Return the paths of the files that are written."""
    return (boot.config, *map(unit_file, boot.units))


def apply(host: Host, step: Step) -> None:
    """Carry out a step of the boot's plan."""
    params = step.params
    if "disable" in params:
        host.run(["systemctl", "disable", *params["disable"]], check=False)
    for path, text in params.get("write", {}).items():
        host.write(path, text, mode=0o644)
    for path in params.get("remove", ()):
        host.remove(path)
    for arguments in params.get("systemctl", ()):
        systemctl(host, *arguments)
