# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The packages that a mirror of each distribution must have, by the tables that the modules install from."""

from __future__ import annotations

import typing as t

from .._base.distributions import Distribution
from .._device_plugin import python
from .._driver.branches import Version
from .._driver.family import load_family
from .._driver.packages.components import cuda, dcgm
from .._driver.packages.names import Offer, Requirements
from .._runtime.containerd import CONTAINERD
from .._runtime.state import CRIO, DOCKER, PODMAN
from .._software.toolkit.plan import ALL as TOOLKIT

KERNEL = "<kernel>"
TYPES = ("open", "proprietary")
RUNTIMES = (CONTAINERD, CRIO, DOCKER, PODMAN)
# Families that have the driver in their own archives too.
ARCHIVES = ("debian", "ubuntu")


class Part(t.NamedTuple):
    """Packages that belong together: what they are for and where they are from, and whether one of them is enough."""

    title: str
    packages: t.Tuple[str, ...]
    any_of: bool = False


def parts(distribution: Distribution, version: str) -> t.List[Part]:
    """Return what a release's mirror must have; ``version`` is the driver's or its branch, empty for any."""
    where = (False, True) if distribution.family in ARCHIVES else (True,)
    from_nvidia = "from NVIDIA's repository"
    return [
        *(_driver(distribution, version, repository=from_repository) for from_repository in where),
        Part(f"the container toolkit, {from_nvidia} (container_toolkit_state: present)", TOOLKIT),
        Part(
            f"DCGM, {from_nvidia} (dcgm_state: present)",
            dcgm(cuda(version) or "<CUDA's major version>"),
        ),
        _python(distribution),
    ]


def text(title: str, package_parts: t.Sequence[Part]) -> str:
    """Return the list as a file: a package a line, and lines that begin with # between them."""
    lines = [
        f"# Packages for a mirror of {title}, each with what it depends on. Words in <> are yours to fill in.",
        "# The container runtime is not installed by this collection. It needs one of "
        + ", ".join(f"{part.name} {'.'.join(map(str, part.minimum))}" for part in RUNTIMES)
        + " or later.",
    ]
    for part in package_parts:
        lines += [
            "",
            f"# {part.title}{': one of these is enough' if part.any_of else ''}",
            *part.packages,
        ]
    return "\n".join(lines) + "\n"


def _driver(distribution: Distribution, version: str, *, repository: bool) -> Part:
    packages: t.Dict[str, None] = {}
    family = load_family(distribution.family)
    for kind in TYPES:
        requirements = Requirements(
            Version(version), kind, KERNEL, repository=repository, nvswitch=True
        )
        names = family.names(Offer(), requirements)
        headers = [names.headers.package_for(KERNEL)] if names.headers.form else []
        packages.update(dict.fromkeys([*names.relevant, *names.needs, *headers]))
    nvidias = "NVIDIA's repository (nvidia_driver_source: repository, or auto)"
    place = nvidias if repository else "the distribution's own archive"
    return Part(f"the driver, from {place}", tuple(packages))


def _python(distribution: Distribution) -> Part:
    title = "the device plugin's virtual environment"
    python_family = python.family({"ID": distribution.ids[0]})
    if python_family is None:
        return Part(title, (python.VENV,))
    known = f"{title}, where python3 is older than 3.{python.OLDEST} (device_plugin_install_python)"
    return Part(known, tuple(python.packages(python_family, None)), any_of=True)
