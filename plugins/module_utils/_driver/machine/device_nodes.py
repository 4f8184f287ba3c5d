# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's device nodes: what is missing of them, and making them now and at each boot."""

from __future__ import annotations

import dataclasses
import posixpath
import stat
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..._node.machine.facts import loaded_driver
from ..kernel.device_nodes import (
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
)
from ..state import Observed
from .sources import Params, Part

PARAMS = "/proc/driver/nvidia/params"


def differing(host: Host) -> t.Tuple[Differing, ...]:
    """Return the device nodes that have another mode or owner than the loaded driver's options say."""
    wanted = meant(host.read(PARAMS) or "")
    if wanted is None:
        return ()
    paths = [f"/dev/{name}" for name in host.listdir("/dev")]
    found = ((path, host.status(path)) for path in paths if OF_OPTIONS.fullmatch(path))
    nodes = (
        Differing(path, Access(stat.S_IMODE(one.mode), one.uid, one.gid), wanted)
        for path, one in found
        if one is not None and stat.S_ISCHR(one.mode)
    )
    return tuple(one for one in nodes if one.has != wanted)


class Nodes(Part):
    """The device nodes, by the program that makes them at boot too."""

    def observe(self, observed: Observed) -> Observed:
        """Add what is missing where the driver is loaded, and whether it comes at each boot."""
        host, desired = self._node.host, self._node.desired
        if desired.state == "absent" or not (desired.load and observed.gpus):
            return observed
        check = ["/bin/sh", "-c", TEXT, PROGRAM, "check"]
        missing = host.run(check, check=False).out.split() if observed.loaded else ()
        at_boot = host.readlink(LINK) is not None
        at_boot = at_boot and all(host.read(path) == text for path, text in FILES.items())
        found = DeviceNodes(tuple(missing), at_boot, differing(host))
        return dataclasses.replace(observed, device_nodes=found)

    def make(self, _params: Params) -> None:
        """Have them made at each boot, and make those that are missing."""
        host = self._node.host
        self._node.added.remember(device_nodes=True)
        for path, text in FILES.items():
            host.write(path, text, mode=0o644)
        host.symlink(f"/etc/systemd/system/{UNIT}", LINK)
        host.run(["systemctl", "daemon-reload"], check=False)
        self.make_missing()

    def make_missing(self) -> None:
        """Load nvidia-uvm and make what is missing, where the driver is loaded; NodeError with what that says."""
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

    def remove(self) -> None:
        """Remove what makes them at each boot; they themselves are the loaded driver's, and gone with it."""
        host, folder = self._node.host, posixpath.dirname(PROGRAM)
        host.run(["systemctl", "stop", UNIT], check=False)  # or it stays active until the next boot
        for path in (LINK, *FILES):
            host.remove(path)
        if not host.listdir(folder):
            host.remove(folder)
        host.run(["systemctl", "daemon-reload"], check=False)
