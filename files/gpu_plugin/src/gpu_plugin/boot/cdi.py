# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification, at boot and whenever the driver or a MIG layout has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .._shared._base.services.driver import DEVICE_NODES_PROGRAM, DEVICE_NODES_UNIT
from .._shared._base.services.mig import LOCK_SECONDS
from .._shared._cdi import boot as cdi_boot
from .._shared._cdi.machine.driver_files import DriverFiles
from .._shared._cdi.machine.specify import lost_files, lost_nodes, specify
from .._shared._machine.host import Host
from .._shared._machine.nvml.real import inventory
from ..tools import bounded, logs
from ..tools.start_timeout import StartTimeout
from .driver import ASK_SECONDS, Quiet, driver, ended, status_of

ROUNDS: Final = 5


def cdi(config: Path, lock: Path, wait: float, patience: float) -> int:
    """Write the specification that gpu.node.cdi would write. Return the exit status: 1 if it could not.

    ``wait`` is how many seconds the driver may take to come up, ``patience`` how many seconds later services wait
    for this one. If the driver does not come up, an existing file stays: to containers it makes no difference, and
    the driver may only be about to change.
    """
    with StartTimeout(patience):
        status = status_of(lambda path: _cdi(path, lock, wait), config)
    return ended(status)


def _cdi(config: Path, lock: Path, wait: float) -> int:
    options = cdi_boot.load(bounded.read(config).decode("utf-8", "replace"), str(config))
    # What changes while this runs starts no service a second time.
    for _round in range(ROUNDS):
        if not _write(options, lock, wait):
            return 0
    logs.warning("the GPUs keep changing; the next change is waited for")
    return 0


def _write(options: cdi_boot.Options, lock: Path, wait: float) -> bool:
    """Bring the file up to date. Return whether it was changed."""
    host = Host()
    files = DriverFiles(host, options.driver_root)
    with driver(wait, files.nvml_library()) as nvml, host.lock(str(lock), timeout=LOCK_SECONDS):
        _restore_nodes(files.root)
        desired, warnings = specify(inventory(nvml), files, options)
        before = host.read(options.path)
        if (before or "") == desired.text:
            return False
        refused = lost_nodes(host, before, desired.text, files.root)
        refused = refused or lost_files(host, before, desired.text)
        if refused:
            raise refused
        for warning in warnings:
            logs.warning(warning)
        if desired.text:
            host.write(options.path, desired.text, mode=0o644)
            logs.info(f"{options.path}: {', '.join(desired.devices)}")
        else:
            host.remove(options.path)
            logs.info(f"{options.path} removed")
        return True


def _restore_nodes(root: str) -> None:
    """Make the device nodes again that do not exist or have another number than the driver's.

    A driver with a root of its own makes its nodes there by itself.
    """
    host = Quiet()
    if root or not host.exists(DEVICE_NODES_PROGRAM):
        return
    check = host.run(["/bin/sh", DEVICE_NODES_PROGRAM, "check"], check=False, timeout=ASK_SECONDS)
    if check.rc != 0:
        logs.warning("it is not known whether device nodes are missing", cause=check.err.strip())
    elif missing := check.out.split():
        logs.warning("device nodes are missing or have a wrong number", nodes=missing)
        restart = ["systemctl", "restart", DEVICE_NODES_UNIT]
        completed = host.run(restart, check=False, timeout=ASK_SECONDS)
        if completed.rc != 0:
            logs.warning(f"{DEVICE_NODES_UNIT} does not make them", cause=completed.err.strip())
