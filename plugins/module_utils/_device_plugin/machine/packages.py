# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The distribution's packages that environments are made with, recorded where this brings them."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Change, Record, Removal, held, still_there
from ..._machine.host import Host
from ..._machine.packages.api import Locked, PackageManager
from ..._node.machine.facts import os_release
from ..._node.machine.recorded import Additions, package_manager
from .. import python

RECORD = "/var/lib/gpu-node/device_plugin.json"
VENV = python.VENV


class Packages:
    """Installs packages, and removes those that it has installed."""

    def __init__(self, host: Host, timeout: float) -> None:
        self._host, self._timeout = host, timeout
        self._added = Additions(host, RECORD, Record)

    def _manager(self, family: str, package: str) -> PackageManager:
        return package_manager(family, self._host, self._timeout, package, "device_plugin")

    def install(self, family: str, package: str) -> None:
        """Install a package; lists that are missing or too old are fetched."""
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
                error.cause = "; ".join(one for one in (error.cause, complaint) if one)
                raise

    def _install(self, manager: PackageManager, package: str) -> None:
        """Install a package; refuse where others' packages would go or lose their hold."""
        change = Change({package: None}, (), {}, frozenset())
        found = manager.simulate(change)
        stuck = held(found.changed, manager.packages())
        if found.removed or stuck:
            words = [f"remove {name}" for name in found.removed]
            words += [f"change {name}, on hold" for name in stuck]
            raise NodeError(
                f"the installation of {package} would {', '.join(words)}; nothing was changed",
                hint=f"install {package} yourself, or name another Python in the option python",
            )
        self._added.remember(packages=self._added.record.packages | set(found.new))
        manager.change(change)

    def removal(self) -> t.Optional[Removal]:
        """Return what goes of those that were installed, and what stays since others need it; None without any."""
        names = self._added.record.packages
        if not names:
            return None
        manager = self._manager(self._family(), VENV)
        there = still_there(sorted(names), manager.packages())
        return manager.removal(there) if there else Removal((), (), ())

    def purge(self, packages: t.Sequence[str]) -> None:
        """Remove packages, and the record."""
        if packages:
            manager = self._manager(self._family(), VENV)
            _repair(manager)
            manager.purge(packages)
        self._added.forget()

    def _family(self) -> str:
        found = python.family(os_release(self._host))
        return found.manager if found else "debian"


def _repair(manager: PackageManager) -> None:
    if manager.interrupted() or any(one.broken for one in manager.packages().values()):
        manager.repair()
