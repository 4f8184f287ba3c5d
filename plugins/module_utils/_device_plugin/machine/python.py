# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Python of the device plugin on the node, and the distribution's packages for it."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Change, Record, Removal, held, still_there
from ..._machine.host import Host
from ..._machine.packages.api import Locked, PackageManager
from ..._node.machine.facts import os_release
from ..._node.machine.recorded import Additions, package_manager
from .. import python
from ..python import Missing

RECORD = "/var/lib/gpu-node/device_plugin.json"
VENV = python.VENV

KNOWN = f"import sys; sys.exit(not (3, {python.OLDEST}) <= sys.version_info[:2] <= (3, {python.NEWEST}))"
SAY = "import platform; print(platform.python_version())"


def find(host: Host, named: t.Optional[str]) -> str:
    """Return a Python that is known to work, empty if there is none; if one is named, only that is tried."""
    for name in [named] if named else python.PROGRAMS:
        if host.which(name) and host.run([name, "-c", KNOWN], check=False).rc == 0:
            return name
    return ""


def wheels(host: Host, program: str, offered: str) -> t.Dict[str, str]:
    """Return the Python and the machine whose wheels an environment needs; Python may be in an offered package."""
    packaged = re.sub(r"^python3\.?", "3.", offered)
    version = host.run([program, "-c", SAY]).out if program else packaged
    machine = host.run(["uname", "-m"]).out.strip()
    return {"python": ".".join(version.strip().split(".")[:2]), "machine": machine}


def missing(host: Host, named: t.Optional[str], timeout: float) -> Missing:
    """Return the system and the Python of a node, and the package that would bring a newer one."""
    release = os_release(host)
    family = python.family(release)
    offered: t.List[str] = []
    if family:
        names = python.packages(family, named)
        manager = package_manager(family.manager, host, timeout, "Python", "device_plugin")
        policies = manager.policies(names) if names else {}
        offered = [name for name in names if name in policies]
    version = host.run(["python3", "-c", SAY], check=False).out.strip()
    system = release.get("PRETTY_NAME", release.get("ID", ""))
    return Missing(system, version, family, next(iter(offered), ""))


class Packages:
    """Installs packages, and removes those that it has installed."""

    def __init__(self, host: Host, timeout: float) -> None:
        self._host, self._timeout = host, timeout
        self._added = Additions(host, RECORD, Record)

    def _manager(self, family: str = "", package: str = VENV) -> PackageManager:
        known = None if family else python.family(os_release(self._host))
        family = family or (known.manager if known else "debian")
        return package_manager(family, self._host, self._timeout, package, "device_plugin")

    def install(self, family: str, package: str) -> None:
        """Install a package of a family of distributions; lists that are missing or too old are fetched."""
        manager = self._manager(family, package)
        _repair(manager)
        try:
            self._install(manager, package)
        except Locked:
            raise
        except NodeError:
            complaint = manager.update()
            try:
                self._install(manager, package)
            except NodeError as error:
                error.cause = "; ".join(text for text in (error.cause, complaint) if text)
                raise

    def _install(self, manager: PackageManager, package: str) -> None:
        """Install a package, unless packages of others would be removed or lose their hold."""
        change = Change({package: None}, (), {}, frozenset())
        simulation = manager.simulate(change)
        stuck = held(simulation.changed, manager.packages())
        if simulation.removed or stuck:
            parts = [f"remove {name}" for name in simulation.removed]
            parts += [f"change {name}, on hold" for name in stuck]
            raise NodeError(
                f"the installation of {package} would {', '.join(parts)}; nothing was changed",
                hint=f"install {package} yourself, or name another Python in the option python",
            )
        self._added.remember(packages=self._added.record.packages | set(simulation.new))
        manager.change(change)

    def check(self) -> None:
        """Read the record of added packages.

        Raises:
            NodeError: if it is damaged.
        """
        _known = self._added.record

    def removal(self) -> t.Optional[Removal]:
        """Return the result of removing the added packages, None if there are none."""
        names = self._added.record.packages
        if not names:
            return None
        manager = self._manager()
        there = still_there(sorted(names), manager.packages())
        return manager.removal(there) if there else Removal((), (), ())

    def purge(self, packages: t.Sequence[str]) -> None:
        """Remove packages, and the record."""
        if packages:
            manager = self._manager()
            _repair(manager)
            manager.purge(packages)
        self._added.forget()


def _repair(manager: PackageManager) -> None:
    if manager.interrupted() or any(package.broken for package in manager.packages().values()):
        manager.finish(())
