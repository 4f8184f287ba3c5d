# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's modules on a node: configured, loaded and exchanged, with their device nodes and their services."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from ..._base.errors import NodeError
from ..._base.services.driver import FABRIC_SERVICE, SERVICE
from ..._machine.host import Host
from ..._machine.units import properties, systemctl
from ..._node.machine.facts import bridges, loaded_driver, pci_devices
from ..kernel.device_nodes import (
    CAPABILITIES,
    FILES,
    LINK,
    OF_OPTIONS,
    PROGRAM,
    TEXT,
    UNIT,
    Access,
    DeviceNodes,
    Differing,
    meant,
    meant_of,
)
from ..kernel.modules import driver_files
from ..module_options.declared import MODULES
from ..module_options.in_force import parse_own
from ..record import as_texts
from . import initramfs
from .kernel import PARAMS, build_error, dkms, modules
from .sources import Params, Part

# How the record calls them, and what to do where they do not start.
SERVICES = {
    SERVICE: ("service", "or set persistence to false"),
    FABRIC_SERVICE: ("fabric", "it must be of exactly the driver's version"),
}
# Where to look when the modules are not loaded.
DKMS = "see 'dkms status' and the kernel's log: DKMS needs the running kernel's headers, and Secure Boot a known key"
PREBUILT = (
    "see the kernel's log, journalctl -k: the modules must be of the running kernel, and Secure Boot must know their "
    "key"
)


def differing(host: Host) -> t.Tuple[Differing, ...]:
    """Return the device nodes whose mode or owner is not what the loaded driver's options or MIG's files give."""
    usual = meant(host.read(PARAMS) or "")
    paths = [f"/dev/{name}" for name in host.listdir("/dev")]
    expected = [(path, usual) for path in paths if OF_OPTIONS.fullmatch(path)]
    expected += [meant_of(host.read(path) or "") for path in sorted(host.sizes(CAPABILITIES))]
    result = []
    for path, access in expected:
        status = host.status(path) if access else None
        if access and status and stat.S_ISCHR(status.mode):
            has = Access(stat.S_IMODE(status.mode), status.uid, status.gid)
            result += [Differing(path, has, access)] if has != access else []
    return tuple(result)


def missing(host: Host) -> t.Tuple[str, ...]:
    """Return the device nodes that do not exist or have another number than the loaded driver's.

    Raises:
        NodeError: if that can't be told.
    """
    completed = host.run(["/bin/sh", "-c", TEXT, PROGRAM, "check"], check=False)
    if completed.rc != 0:
        raise NodeError("the driver's device nodes can't be compared", cause=completed.err.strip())
    return tuple(completed.out.split())


class Loading(Part):
    """The modules, the driver's two services, and the device nodes, by the program that makes them at boot too."""

    def services(self, *, nvswitch: bool) -> t.Tuple[t.Dict[str, str], t.Dict[str, str]]:
        """Return the state of the persistence daemon, and of the fabric manager, which only NVSwitches need."""
        names = ("ActiveState", "UnitFileState")
        service = properties(self._node.host, SERVICE, *names, "ExecStart")
        return service, properties(self._node.host, FABRIC_SERVICE, *names) if nvswitch else {}

    def configure(self, params: Params) -> None:
        """Write or remove our modprobe file, and rebuild each initramfs that has it."""
        text, spared = params["text"], params.get("spared", ())
        self._node.added.remember(
            modprobe=True,
            options=as_texts(parse_own(text)),
            pending=frozenset(params.get("pending", ())),
        )
        marks = initramfs.write(self._node.host, text, params["kernels"], spared)
        self._node.added.remember(modprobe=bool(text), initramfs=marks if text else frozenset())

    def load(self, params: Params) -> None:
        """Load the driver, with its device nodes; where only another kernel has modules, the next plan may say so."""
        self._load(params)
        self._make_missing()

    def _load(self, params: Params) -> None:
        host, kernel = self._node.host, self._node.kernel
        known = host.read(f"/lib/modules/{kernel}/modules.dep")
        if known and not driver_files(known) and host.which("dkms"):
            # Modules that it did not build when they were installed, for lack of headers then. It fails where any other
            # module fails too; whether ours is there is for modprobe to say.
            host.run(["dkms", "autoinstall", "-k", kernel], check=False)
        before = modules(host, (), added=False) if params.get("waits") else None
        if before and kernel in before.bare and set(before.kernels) > set(before.bare):
            return
        try:
            host.run(["modprobe", "nvidia"])
        except NodeError as error:
            for build in dkms(host):
                if build.kernel == kernel and build.state == "failed":
                    raise build_error(host, build) from error
            error.hint = (DKMS if host.which("dkms") else PREBUILT) + ". Or set load to false"
            raise

    def reload(self, params: Params) -> None:
        """Exchange the modules; where the kernel does not let go of them, the next plan says so."""
        host = self._node.host
        # In the order in which the kernel lets go of them.
        driver, *users = MODULES
        loaded = [*(user for user in users if host.exists(f"/sys/module/{user}")), driver]
        switches = bridges(host) or any(device.kind == "nvswitch" for device in pci_devices(host))
        active = [
            unit
            for unit in ((FABRIC_SERVICE, SERVICE) if switches else (SERVICE,))
            if host.run(["systemctl", "is-active", unit], check=False).rc == 0
        ]
        for unit in active:
            host.run(["systemctl", "stop", unit])
        try:
            completed = host.run(["rmmod", *loaded], check=False)
            if completed.rc != 0:
                failed = f"rmmod failed with status {completed.rc}"
                self._node.reload_note = completed.err.strip() or failed
            self._load(params)
            for name in reversed(loaded[:-1]):
                host.run(["modprobe", name], check=False)
        finally:
            for unit in reversed(active):
                host.run(["systemctl", "start", unit], check=False)
        self._make_missing()

    def enable(self, unit: str, params: Params) -> None:
        """Enable and start one of the driver's services."""
        name, advice = SERVICES[unit]
        if not params["was_enabled"]:
            self._node.added.remember(**{name: True})
        command = ["enable", "--now"] if params["start"] else ["enable"]
        command = ["start"] if params["was_enabled"] else command
        systemctl(self._node.host, *command, unit, advice=advice)

    def disable(self, params: Params) -> None:
        """Disable and stop the services that were enabled."""
        for unit, (name, _advice) in SERVICES.items():
            if params[name]:
                self._node.host.run(["systemctl", "disable", "--now", unit])

    def nodes(self, *, loaded: bool) -> DeviceNodes:
        """Return the device nodes that are missing or differ, and whether they are made at each boot."""
        host = self._node.host
        at_boot = host.readlink(LINK) is not None
        at_boot = at_boot and all(host.read(path) == text for path, text in FILES.items())
        return DeviceNodes(missing(host) if loaded else (), at_boot, differing(host))

    def make_nodes(self, _params: Params) -> None:
        """Have device nodes made at each boot, and make those that are missing."""
        host = self._node.host
        self._node.added.remember(device_nodes=True)
        for path, text in FILES.items():
            host.write(path, text, mode=0o644)
        host.symlink(f"/etc/systemd/system/{UNIT}", LINK)
        host.run(["systemctl", "daemon-reload"], check=False)
        self._make_missing()

    def _make_missing(self) -> None:
        """Load nvidia-uvm and make the device nodes that are missing, if the driver is loaded."""
        if loaded_driver(self._node.host) is None:
            return
        try:
            self._node.host.run(["/bin/sh", "-c", TEXT, PROGRAM, "make"])
        except NodeError as error:
            # Its text, which would be in the message, says nothing to a user.
            raise NodeError(
                "the driver's device nodes could not be made",
                cause=error.cause,
                hint="see the kernel's log; CUDA needs the kernel module nvidia-uvm. Or set load to false",
            ) from error

    def remove_nodes(self) -> None:
        """Remove what makes device nodes at each boot; they themselves are the loaded driver's, and gone with it."""
        host, folder = self._node.host, posixpath.dirname(PROGRAM)
        host.run(["systemctl", "stop", UNIT], check=False)  # or it stays active until the next boot
        for path in (LINK, *FILES):
            host.remove(path)
        if not host.listdir(folder):
            host.remove(folder)
        host.run(["systemctl", "daemon-reload"], check=False)
