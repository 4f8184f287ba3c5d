# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's modules on a node: configured, loaded, exchanged, and the services that use them."""

from __future__ import annotations

import dataclasses

from ..._base.errors import NodeError
from ..._base.services.driver import FABRIC_SERVICE, SERVICE
from ..._machine.host import properties
from ..._machine.units import systemctl
from ..._node.machine.facts import bridges, pci_devices
from ..kernel.modules import MODULES, has_driver
from ..state import Observed
from .kernel import build_error, dkms, modules, write_modprobe
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


class Loading(Part):
    """The modules and the driver's two services."""

    def observe(self, observed: Observed) -> Observed:
        """Add the state of the services; only NVSwitches need the fabric manager."""
        units = (SERVICE, FABRIC_SERVICE) if observed.nvswitch else (SERVICE,)
        host, names = self._node.host, ("ActiveState", "UnitFileState")
        states = {unit: properties(host, unit, *names) for unit in units}
        service, fabric = states[SERVICE], states.get(FABRIC_SERVICE, {})
        return dataclasses.replace(observed, service=service, fabric=fabric)

    def configure(self, params: Params) -> None:
        """Write or remove our modprobe file, and rebuild what has it."""
        self._node.added.remember(modprobe=True)
        write_modprobe(self._node.host, params["text"], params["kernels"])
        if not params["text"]:
            self._node.added.remember(modprobe=False)

    def load(self, params: Params) -> None:
        """Load the driver; where only another kernel has modules, the next plan may say so instead."""
        host = self._node.host
        self._build()
        if params.get("waits") and self._elsewhere():
            return
        try:
            host.run(["modprobe", "nvidia"])
        except NodeError as error:
            for one in dkms(host):
                if one.kernel == self._node.kernel and one.state == "failed":
                    raise build_error(host, one) from error
            error.hint = (DKMS if host.which("dkms") else PREBUILT) + ". Or set load to false"
            raise

    def _build(self) -> None:
        """Have DKMS build modules that it did not build when they were installed, for lack of headers then."""
        host, kernel = self._node.host, self._node.kernel
        known = host.read(f"/lib/modules/{kernel}/modules.dep")
        if known and not has_driver(known) and host.which("dkms"):
            # It fails where any other module fails too; whether ours is there is for modprobe to say.
            host.run(["dkms", "autoinstall", "-k", kernel], check=False)

    def _elsewhere(self) -> bool:
        """Tell whether another kernel than the running one has the driver."""
        bare = modules(self._node.host, (), added=False)
        return self._node.kernel in bare.bare and set(bare.kernels) > set(bare.bare)

    def reload(self, params: Params) -> None:
        """Exchange the modules; where the kernel does not let go of them, the next plan says so."""
        host = self._node.host
        # In the order in which the kernel lets go of them.
        driver, *users = MODULES
        loaded = [*(one for one in users if host.exists(f"/sys/module/{one}")), driver]
        switches = bridges(host) or any(one.kind == "nvswitch" for one in pci_devices(host))
        active = [
            unit
            for unit in ((FABRIC_SERVICE, SERVICE) if switches else (SERVICE,))
            if host.run(["systemctl", "is-active", unit], check=False).rc == 0
        ]
        for unit in active:
            host.run(["systemctl", "stop", unit])
        try:
            done = host.run(["rmmod", *loaded], check=False)
            if done.rc != 0:
                failed = f"rmmod failed with status {done.rc}"
                self._node.reload_note = done.err.strip() or failed
            self.load(params)
            for name in reversed(loaded[:-1]):
                host.run(["modprobe", name], check=False)
        finally:
            for unit in reversed(active):
                host.run(["systemctl", "start", unit], check=False)

    def enable(self, unit: str, params: Params) -> None:
        """Enable and start one of the driver's services."""
        name, advice = SERVICES[unit]
        if not params["was_enabled"]:
            self._node.added.remember(**{name: True})
        words = ["enable", "--now"] if params["start"] else ["enable"]
        words = ["start"] if params["was_enabled"] else words
        systemctl(self._node.host, *words, unit, advice=advice)

    def disable(self, params: Params) -> None:
        """Disable and stop the services that were enabled."""
        for unit, (name, _advice) in SERVICES.items():
            if params[name]:
                self._node.host.run(["systemctl", "disable", "--now", unit])
