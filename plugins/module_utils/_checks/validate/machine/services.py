# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which parts of gpu.node are on a node, by the files that they leave, and the units that must be on for them."""

from __future__ import annotations

import typing as t

from ...._base.boot import unit_file
from ...._base.dra.names import UNIT as DRA_UNIT
from ...._base.errors import NodeError
from ...._base.services.driver import SERVICE
from ...._base.services.mig import UNIT as MIG_UNIT
from ...._cdi import boot as cdi_boot
from ...._device_plugin.plan import LABELS_UNIT, UNIT
from ...._device_plugin.state import SETTINGS
from ...._driver.capability import RECORD as DRIVER
from ...._driver.state import Record
from ...._machine.host import Host
from ...._mig import boot as mig_boot
from ...._node.machine.dcgm import managed
from ...._runtime.machine.record import RECORD as RUNTIME
from ..services import Unit

# Of a part, the file that shows that it is there, and the units that it has started; those that end when they are done
# are to be enabled alone.
PARTS: t.Mapping[str, t.Tuple[str, t.Mapping[str, bool]]] = {
    "runtime": (RUNTIME, {}),
    "mig": (mig_boot.CONFIG, {MIG_UNIT: False}),
    "cdi": (cdi_boot.CONFIG, {cdi_boot.UNIT: False, cdi_boot.PATH_UNIT: True}),
    "device_plugin": (unit_file(UNIT), {UNIT: True}),
    "labels": (SETTINGS, {LABELS_UNIT: True}),
    "dra": (unit_file(DRA_UNIT), {DRA_UNIT: True}),
}


def parts(host: Host) -> t.FrozenSet[str]:
    """Return the parts that are on the node."""
    return frozenset(part for part, (path, _units) in PARTS.items() if host.exists(path))


def units(host: Host, there: t.Collection[str]) -> t.Tuple[Unit, ...]:
    """Return the units of the parts as systemd has them, asked for all at once."""
    wanted = {name: runs for part in sorted(there) for name, runs in PARTS[part][1].items()}
    wanted.update(dict.fromkeys(_recorded(host), True))
    if not wanted:
        return ()
    argv = ["systemctl", "show", *wanted, "--property=UnitFileState,ActiveState"]
    told = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in host.run(argv, check=False).out.split("\n\n")
    ]
    told += [{}] * (len(wanted) - len(told))
    return tuple(
        Unit(name, told[at].get("UnitFileState", ""), told[at].get("ActiveState", ""), runs)
        for at, (name, runs) in enumerate(wanted.items())
    )


def _recorded(host: Host) -> t.Tuple[str, ...]:
    """Return the units that records name: nvidia-persistenced where we have enabled it, and those of DCGM."""
    try:
        enabled = Record.load(host.read(DRIVER), DRIVER).service
        return (*((SERVICE,) if enabled else ()), *managed(host))
    except NodeError:
        return ()
