# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""pip on the controller: the wheels of other Pythons and machines, each by its hash."""

from __future__ import annotations

import sys
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host

try:
    from packaging.requirements import Requirement
except ImportError:  # ansible-core brings it, wherever it runs
    Requirement = None  # type: ignore[assignment,misc]

# RHEL 8's, the oldest system that is supported: what needs a later one does not run there.
GLIBC = 28
PIP = (sys.executable, "-m", "pip", "--version")
DOWNLOAD = (
    *(sys.executable, "-m", "pip", "download", "--require-hashes", "--only-binary=:all:"),
    *("--no-deps", "--implementation", "cp"),
    *("--disable-pip-version-check", "--no-input", "--quiet"),
)


def platforms(machine: str) -> t.List[str]:
    """Return the tags of wheels that run on a machine with glibc, the newest first."""
    named = [f"manylinux_2_{minor}" for minor in range(GLIBC, 4, -1)]
    named += ["manylinux2014", "manylinux2010", "manylinux1"]
    return [f"{tag}_{machine}" for tag in named]


def requirements(text: str, python: str, machine: str) -> str:
    """Return those of a list that are for a Python and machine; pip would take its own for both."""
    if Requirement is None:
        raise NodeError(
            "the Python library packaging can't be imported on this machine",
            cause=sys.executable,
            hint=f"run the playbook with the Python of ansible-core, or {sys.executable} -m pip install packaging",
        )
    place = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    names = []
    for line in text.replace("\\\n", " ").splitlines():
        named, mark, hashes = line.partition("--hash=")
        if not mark:
            continue
        requirement = Requirement(named.strip())
        if requirement.marker is None or requirement.marker.evaluate(place):
            names.append(f"{requirement.name}{requirement.specifier} {mark}{hashes}")
    return "\n".join(names) + "\n"


def check(host: Host) -> None:
    """Refuse a Python without pip."""
    if host.run(PIP, check=False).rc:
        raise NodeError(
            f"{sys.executable} has no pip, which fetches the wheels",
            hint="install the distribution's python3-pip, or run Ansible from a virtual environment",
        )


def download(host: Host, listed: str, folder: str, python: str, machine: str) -> None:
    """Fetch the wheels of a file of requirements into a folder, from where pip on this machine is set to."""
    tags = [word for platform in platforms(machine) for word in ("--platform", platform)]
    args = ["--python-version", python, *tags, "--dest", folder, "--requirement", listed]
    host.run([*DOWNLOAD, *args])
