# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin check-config``: whether a configuration is valid, and can be used on this node as it is."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from .._shared._base.dra import versions
from .._shared._base.errors import NodeError
from .._shared._base.gpu import NvmlError
from .._shared._base.kubelet.allocate import KUBELET, depend_on, refusal
from .._shared._cdi.machine.driver_files import DriverFiles
from .._shared._device_plugin.held import NOBODY, WAITS
from .._shared._machine.host import Host
from .._shared._machine.nvml.within import LATE, within
from ..advertise.decide import DIVIDED, Holders, decide, divided
from ..config import configuration, sources
from ..config.configuration import Config
from ..config.strict_yaml import LONGEST, ConfigError
from ..driver.nvml import Driver
from ..kubelet.holders import FILE, read_allocations, read_forms
from ..model.inventory import Inventory, Kind
from ..model.mps.paths import PROGRAM as CONTROL
from ..model.mps.paths import SETTINGS
from ..mps import state as mps
from ..mps.reconciler import Reconciler
from ..mps.units import Systemd
from ..tools import bounded, logs

STANDARD_INPUT: Final = "standard input"
SECONDS: Final = 10.0  # which a program has to print its version


def check(file: Path, *, node: bool, pods: Path, state: Path) -> int:
    """Check a file, or standard input for "-". Return the exit status.

    ``pods`` is the kubelet's PodResources socket, and ``state`` the folder of the daemon's state.

    Raises:
        NodeError: if the configuration can't be used.
    """
    name = STANDARD_INPUT if str(file) == "-" else str(file)
    checked = configuration.parse(_read(file), name)
    waits = _on_node(checked, name, pods, state) if node else []
    for warning in sources.warnings(checked, Path("/")):
        logs.warning(warning)
    print("\n".join([*waits, f"{name}: valid"]))
    return 0


def _read(file: Path) -> str:
    if str(file) != "-":
        return sources.read(file)[0]
    data = sys.stdin.buffer.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ConfigError(f"{STANDARD_INPUT} is longer than {LONGEST >> 10} KiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{STANDARD_INPUT} is not UTF-8 text", cause=str(error)) from error


def _on_node(checked: Config, source: str, pods: Path, state: Path) -> list[str]:
    """Return which devices could not be allocated, and why; an error if devices can't be shared as configured."""
    _refuse_dropped(checked, source)
    managers = Path(SETTINGS)
    _check_driver_root(checked, source)
    shared = any(share.mps for share in checked.sharing.shares)
    if shared and shutil.which(CONTROL) is None:
        root = checked.driver.root.rstrip("/")
        cause = "it is not installed"
        if root and Path(f"{root}/usr/bin/{CONTROL}").exists():
            cause = f"it is below {root} alone, and runs with the driver of the node itself"
        raise ConfigError(
            f"{source}: sharing.mps needs the program {CONTROL}",
            cause=cause,
            hint="install the driver's package for it (nvidia-cuda-mps in Debian)",
        )
    try:
        inventory = within(LATE, "looking at the GPUs", lambda: _look(checked))
        advertised = decide(inventory, {}, checked)
        unknown: NodeError | None = advertised.refusal
    except NvmlError as error:
        unknown = error
    if unknown:
        logs.warning("the devices can't be read, so what they allow is not known", cause=unknown)
        return []
    if advertised.crowded:
        raise ConfigError(
            f"{source}: sharing can't be as it is: {advertised.crowded}",
            hint="choose fewer replicas",
        )
    if shared or mps.devices(managers) or mps.left(managers):
        why = advertised.unsharable or Reconciler(managers, Systemd()).refuses(advertised.mps)
        if why:
            raise ConfigError(f"{source}: sharing.mps can't be as it is: {why}")
    whole = [f"{NOBODY}{uuid}: {DIVIDED}" for uuid in divided(inventory, checked)]
    return [*whole, *(f"{WAITS}{wait}" for wait in _waits(checked, inventory, pods, state))]


def _refuse_dropped(checked: Config, source: str) -> None:
    """Refuse answers of the device plugin that the node's kubelet drops. A pod has no kubelet to ask."""
    strategies, program = checked.containers.device_list_strategies, shutil.which(KUBELET)
    if program is None or not depend_on(strategies, (KUBELET,)):
        return
    printed = bounded.run([program, "--version"], "", {}, SECONDS).out
    version = versions.parse(printed)
    error = refusal(source, strategies, {KUBELET: version}) if version else None
    if error:
        raise error


def _check_driver_root(checked: Config, source: str) -> None:
    """Refuse a root that has no driver. A plugin in a container may not see it, and has its driver from its runtime."""
    if Path(checked.driver.container_root).is_dir():
        return
    try:
        DriverFiles(Host(), checked.driver.root).required_nvml_library()
    except NodeError as error:
        message = f"{source}: flags.nvidiaDriverRoot: {error.message}"
        raise ConfigError(message, cause=error.cause, hint=error.hint) from error


def _look(checked: Config) -> Inventory:
    driver = Driver(Path("/"), lambda: None)
    try:
        return driver.scan(checked.driver.root)
    finally:
        driver.close()


def _waits(checked: Config, inventory: Inventory, pods: Path, state: Path) -> list[str]:
    try:
        holders = Holders(read_allocations([pods]), read_forms(state / FILE))
    except NodeError as error:
        logs.warning("which pods would be waited for is not known", cause=error)
        return []
    held = decide(inventory, {}, checked, holders=holders).held
    return [f"{uuid}: {problem}" for uuid, problem in held.items() if problem.kind is Kind.HELD]
