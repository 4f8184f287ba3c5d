# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The packages that a mirror of each distribution must have, by the tables that the modules install from."""

from __future__ import annotations

import typing as t

from .._base.distributions import SUPPORTED, Distribution
from .._device_plugin import python
from .._driver.branches import Version
from .._driver.components import cuda, dcgm
from .._driver.known_families import FAMILIES
from .._driver.names import Names, Offer, Wanted
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


def releases() -> t.Iterator[t.Tuple[str, Distribution, str]]:
    """Yield each supported release: the name of its list, its distribution, and its name in words."""
    for one in SUPPORTED:
        for codename, number in one.releases.items():
            words = f"{one.title} {number}" + (f" ({codename})" if codename != number else "")
            yield f"{one.title.lower().replace(' ', '-')}-{number}", one, words


def parts(distribution: Distribution, version: str) -> t.List[Part]:
    """Return what a release's mirror must have; ``version`` is the driver's or its branch, empty for any."""
    found = []
    if distribution.family in ARCHIVES:
        found.append(_driver(distribution, version, repository=False))
    found.append(_driver(distribution, version, repository=True))
    found.append(
        Part(
            "the container toolkit, from NVIDIA's repository (container_toolkit_state: present)",
            TOOLKIT,
        )
    )
    found.append(Part("DCGM, from NVIDIA's repository (dcgm_state: present)", _dcgm(version)))
    found.append(_python(distribution))
    return found


def text(words: str, found: t.Sequence[Part]) -> str:
    """Return the list as a file: a package a line, and lines that begin with # between them."""
    lines = [
        f"# Packages for a mirror of {words}, each with what it depends on. Words in <> are yours to fill in.",
        "# The container runtime is not installed by this collection. It needs one of "
        + ", ".join(f"{one.name} {'.'.join(map(str, one.minimum))}" for one in RUNTIMES)
        + " or later.",
    ]
    for one in found:
        lines += [
            "",
            f"# {one.title}{': one of these is enough' if one.any_of else ''}",
            *one.packages,
        ]
    return "\n".join(lines) + "\n"


def _driver(distribution: Distribution, version: str, *, repository: bool) -> Part:
    packages: t.Dict[str, None] = {}
    family = FAMILIES[distribution.family]
    for kind in TYPES:
        wanted = Wanted(Version(version), kind, KERNEL, repository=repository, nvswitch=True)
        packages.update(dict.fromkeys(_names(family.names(Offer(), wanted))))
    place = (
        "NVIDIA's repository (nvidia_driver_source: repository, or auto)"
        if repository
        else "the distribution's own archive"
    )
    return Part(f"the driver, from {place}", tuple(packages))


def _names(names: Names) -> t.Iterator[str]:
    yield from names.relevant
    yield from names.needs
    if names.headers:
        yield names.headers_of(KERNEL)


def _dcgm(version: str) -> t.Tuple[str, ...]:
    return dcgm(cuda(version) or "<CUDA's major version>")


def _python(distribution: Distribution) -> Part:
    title = "the device plugin's virtual environment"
    found = python.family({"ID": distribution.ids[0]})
    if found is None:
        return Part(title, (python.VENV,))
    known = f"{title}, where python3 is older than 3.{python.OLDEST} (device_plugin_install_python)"
    return Part(known, tuple(python.packages(found, None)), any_of=True)
