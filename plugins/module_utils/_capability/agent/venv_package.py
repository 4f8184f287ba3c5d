# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Debian and Ubuntu leave out of their Python, from a package of theirs."""

from __future__ import annotations

from ..._core.errors import NodeError
from ..._core.packages.package import Change, held
from ..._host.api import Host
from ..._host.packages.api import Locked, PackageManager
from ..._host.packages.families import package_manager

PACKAGE = "python3-venv"


def install(host: Host, timeout: float) -> None:
    """Install what makes virtual environments; lists that are missing or too old are fetched."""
    manager = package_manager("debian", host, timeout, PACKAGE)
    if manager.interrupted() or any(one.broken for one in manager.packages().values()):
        manager.repair()
    try:
        _install(manager)
    except Locked:
        raise
    except NodeError:
        complaint = manager.update()
        try:
            _install(manager)
        except NodeError as error:
            error.cause = "; ".join(one for one in (error.cause, complaint) if one)
            raise


def _install(manager: PackageManager) -> None:
    """Install the package; refuse where others' packages would go or lose their hold."""
    change = Change({PACKAGE: None}, (), {}, frozenset())
    found = manager.simulate(change)
    stuck = held(found.changed, manager.packages())
    if found.removed or stuck:
        words = [f"remove {name}" for name in found.removed]
        words += [f"change {name}, on hold" for name in stuck]
        raise NodeError(
            f"the installation of {PACKAGE} would {', '.join(words)}; nothing was changed",
            hint=f"install {PACKAGE} yourself, or name another Python in the option python",
        )
    manager.change(change)
