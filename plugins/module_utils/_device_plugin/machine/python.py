# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding a Python for the device plugin on the node, and what could be installed where there is none."""

from __future__ import annotations

import re
import typing as t

from ..._machine.host import Host
from ..._node.machine.facts import os_release
from ..._node.machine.recorded import package_manager
from .. import python
from ..python import Missing

KNOWN = f"import sys; sys.exit(not (3, {python.OLDEST}) <= sys.version_info[:2] <= (3, {python.NEWEST}))"
SAY = "import platform; print(platform.python_version())"


def find(host: Host, named: t.Optional[str]) -> str:
    """Return the program that will do, empty where there is none; only the one that is named, if one is."""
    for name in [named] if named else python.PROGRAMS:
        if host.which(name) and host.run([name, "-c", KNOWN], check=False).rc == 0:
            return name
    return ""


def wheels(host: Host, program: str, offered: str) -> t.Dict[str, str]:
    """Return whose wheels an environment takes: of which Python, there or in a package that is offered, and machine."""
    coming = re.sub(r"^python3\.?", "3.", offered)
    version = host.run([program, "-c", SAY]).out if program else coming
    machine = host.run(["uname", "-m"]).out.strip()
    return {"python": ".".join(version.strip().split(".")[:2]), "machine": machine}


def missing(host: Host, named: t.Optional[str], timeout: float) -> Missing:
    """Return what a node has instead, and which package would bring one."""
    release = os_release(host)
    found = python.family(release)
    offered: t.List[str] = []
    if found:
        names = python.packages(found, named)
        manager = package_manager(found.manager, host, timeout, "Python", "device_plugin")
        policies = manager.policies(names) if names else {}
        offered = [one for one in names if one in policies]
    said = host.run(["python3", "-c", SAY], check=False).out.strip()
    system = release.get("PRETTY_NAME", release.get("ID", ""))
    return Missing(system, said, found, next(iter(offered), ""))
