# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of the driver and the kernel for the RHEL family, with genuine names and relations, for genuine dnf.

F12  kmod-nvidia-open-dkms and its kin: NVIDIA's Driver Installation Guide, names of its repository for rhel9.
F13  /lib/modules/K/build belongs to kernel-core and dangles until kernel-devel is there: kernel.spec of RHEL.
F14  dkms (EPEL, Fedora) needs (kernel-devel-matched if kernel-core): dkms.spec 3.1.2 of Fedora. That package needs
     kernel-core and kernel-devel of its own version: kernel.spec. dnf takes the newest, and with it a new kernel.
F15  Each branch has the streams B (precompiled), B-dkms and B-open; latest, latest-dkms and open-dkms are those of
     the newest, and latest-dkms is the default: genmodules.py in NVIDIA/cuda-repo-management.
F16  kmod-nvidia-V-K has the modules for one kernel K, without its distribution's ending, and conflicts with
     kmod-nvidia-latest-dkms: dnf-kmod-nvidia.spec in NVIDIA/yum-packaging-precompiled-kmod. Its key must be enrolled:
     UEFI.md there. Red Hat's are kmod-nvidia-open-V-K and kmod-64k-nvidia-open-V-K: DISTROS.md there, and the tests
     of mizdebsk/radii.
F17  nvidia-driver-cuda needs nvidia-kmod-common of its version, and that nvidia-kmod: nvidia-driver.spec in
     NVIDIA/yum-packaging-nvidia-driver, nvidia-kmod-common.spec in NVIDIA/yum-packaging-nvidia-kmod-common.
F18  epel-release is in extras of Rocky Linux, AlmaLinux and CentOS Stream, oracle-epel-release-el9 in Oracle's base:
     docs.fedoraproject.org, Getting started with EPEL; Oracle Linux, Managing software.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.played.rhel import rhel_bodies as bodies
from tests.fakes.played.rhel.rhel_systems import System

VERSION, OLDER, BEFORE = "580.95.05", "580.82.07", "570.195.03"
BROKEN = "590.44.01"
VERSIONS = (VERSION, OLDER, BEFORE)
KMODS = {"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"}
ENDINGS = {"open": "open", "proprietary": "dkms"}
USER_SPACE = (
    "nvidia-driver-cuda",
    "nvidia-driver-cuda-libs",
    "nvidia-kmod-common",
    "nvidia-persistenced",
)
HEAD = """\
Name: {name}
Epoch: {epoch}
Version: {version}
Release: {release}
Summary: played
License: none
{relations}
%description
played
"""
OPTIONS = {
    "_binary_payload": "w0.gzdio",
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "__brp_mangle_shebangs": "%{nil}",
}
STREAM = """\
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: "{name}"
  version: 20251101000000
  context: {context}
  arch: x86_64
  summary: Nvidia driver for {name} branch
  description: played
  license:
    module: [MIT]
  profiles:
    default:
      rpms: [nvidia-driver-cuda]
  artifacts:
    rpms:
{rpms}
...
"""
DEFAULTS = """\
---
document: modulemd-defaults
version: 1
data:
  module: nvidia-driver
  stream: latest-dkms
  profiles:
    latest-dkms: [default]
...
"""


def build(
    folder: Path, name: str, version: str, body: str, relations: str = "", epoch: int = 0
) -> None:
    """Build a package into the folder; ``version`` is with its release."""
    bare, release = version.split("-", 1)
    spec = folder.parent / "specs" / f"{name}-{version}.spec"
    spec.parent.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    head = HEAD.format(name=name, epoch=epoch, version=bare, release=release, relations=relations)
    spec.write_text(head + body)
    defined = {"_topdir": f"{folder.parent}/work", "_rpmdir": str(folder), **OPTIONS}
    words = [one for pair in defined.items() for one in ("--define", " ".join(pair))]
    command = ["rpmbuild", "-bb", "--target", "x86_64", *words, str(spec)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def kernel(folder: Path, system: System, running: str) -> None:
    """Build the packages of a kernel."""
    version = running.rpartition(".")[0]
    several = "Provides: installonlypkg(kernel)\n"
    provides = f"{several}Provides: {system.core}-uname-r = {running}"
    build(folder, system.core, version, bodies.CORE.format(kernel=running), provides)
    provides = f"{several}Provides: {system.devel}-uname-r = {running}"
    build(folder, system.devel, version, bodies.DEVEL.format(kernel=running), provides)
    if system.matched:
        needs = f"Requires: {system.core} = {version}\nRequires: {system.devel} = {version}"
        build(folder, f"{system.devel}-matched", version, bodies.NO_FILES, needs)


def dkms(folder: Path, system: System) -> None:
    """Build dkms, which comes from EPEL or from the distribution."""
    needs = "kernel-devel" if system.dist == "el8" else "(kernel-devel-matched if kernel-core)"
    build(folder, "dkms", f"3.2.2-1.{system.dist}", bodies.DKMS, f"Requires: {needs}")


def driver(folder: Path, system: System, version: str, script: str = "") -> None:
    """Build the packages of one version of the driver, but for precompiled kernel modules.

    ``script`` is what more the packages with kernel modules run.
    """
    release = f"{version}-1.{system.dist}"
    for kind, name in KMODS.items():
        other = KMODS["open" if kind == "proprietary" else "proprietary"]
        relations = f"Requires: dkms\nConflicts: {other}\nProvides: nvidia-kmod = 3:{version}"
        body = script + bodies.KMOD.format(version=version, kind=kind)
        build(folder, name, release, body, relations, 3)
    needs = {
        "nvidia-driver-cuda": (
            f"Requires: nvidia-driver-cuda-libs = 3:{version}\nRequires: nvidia-kmod-common = 3:{version}"
        ),
        "nvidia-kmod-common": f"Requires: nvidia-kmod = 3:{version}",
    }
    for name in USER_SPACE:
        libraries = name == "nvidia-driver-cuda-libs"
        body = bodies.LIBRARIES.format(version=version) if libraries else bodies.NO_FILES
        build(folder, name, release, body, needs.get(name, ""), 3)


def precompiled(folder: Path, version: str, running: str, kind: str = "proprietary") -> str:
    """Build the modules for one kernel, and return their package as a stream names it."""
    short, dist = running.rpartition(".")[0].rsplit(".", 1)
    name = f"kmod-nvidia-{'open-' if kind == 'open' else ''}{version}-{short}"
    relations = f"Provides: nvidia-kmod = 3:{version}\nConflicts: kmod-nvidia-latest-dkms\n"
    relations += f"Requires: (kernel-core = {short}.{dist} if kernel-core)"
    body = bodies.READY.format(version=version, kind=kind, kernel=running)
    build(folder, name, f"{version}-3.{dist}", body, relations, 3)
    return f"{name}-3:{version}-3.{dist}.x86_64"


def index(folder: Path, streams: Mapping[str, list[str]] | None = None) -> None:
    """Write the index of a repository, with the module streams that it has."""
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True, capture_output=True)
    if not streams:
        return
    text = DEFAULTS
    for number, (name, rpms) in enumerate(sorted(streams.items())):
        lines = "\n".join(f"      - {one}" for one in rpms)
        text += STREAM.format(name=name, context=f"c0ffee{number:02}", rpms=lines)
    described = folder.parent / "modules.yaml"
    described.write_text(text)
    words = ["modifyrepo_c", "--mdtype=modules", str(described), str(folder / "repodata")]
    subprocess.run(words, check=True, capture_output=True)


def broken(folder: Path, system: System, script: str = bodies.FAILS, gone: str = "") -> Path:
    """Build a repository with a branch, or its stream, whose kernel modules cannot be installed, and return it.

    ``gone`` is a package that the stream has and the repository has not.
    """
    driver(folder, system, BROKEN, script)
    for path in folder.glob(f"*/{gone or 'none'}-{BROKEN}-*.rpm"):
        path.unlink()
    parts = [*USER_SPACE, KMODS["open"]]
    rpms = [f"{one}-3:{BROKEN}-1.{system.dist}.x86_64" for one in parts]
    index(folder, {"590-open": rpms} if system.streams else None)
    return folder


def streams_of(system: System, ready: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the packages of each stream; ``ready`` are the precompiled modules by their version."""
    found: dict[str, list[str]] = {}
    for version in VERSIONS:
        branch = version.split(".", maxsplit=1)[0]
        names = {f"{branch}-{ENDINGS[kind]}": [*USER_SPACE, kmod] for kind, kmod in KMODS.items()}
        rolling = {"open-dkms": f"{branch}-open", "latest-dkms": f"{branch}-dkms"}
        if version == VERSION:
            names.update({name: names[of] for name, of in rolling.items()})
        for stream, parts in names.items():
            rpms = [f"{one}-3:{version}-1.{system.dist}.x86_64" for one in parts]
            found.setdefault(stream, []).extend(rpms)
        user = [f"{one}-3:{version}-1.{system.dist}.x86_64" for one in USER_SPACE]
        found.setdefault(branch, []).extend([*user, *ready.get(version, [])])
    return found


def repositories(root: Path, system: System) -> dict[str, Path]:
    """Build the repositories base, epel, cuda and Red Hat's extensions, and return their folders."""
    found = {name: root / name for name in ("base", "epel", "cuda", "extensions")}
    for folder in found.values():
        folder.mkdir(parents=True)
    for one in (system.kernel, system.newer):
        kernel(found["base"], system, one)
    base = found["base"]
    build(base, "python3-dnf-plugin-versionlock", f"4.3.0-21.{system.dist}", bodies.LOCKING)
    if system.epel:
        name = "oracle-epel-release-el9" if system.ident == "ol" else "epel-release"
        build(base, name, f"9-9.{system.dist}", bodies.release(found["epel"]))
    dkms(found["epel" if system.epel else "base"], system)
    for version in VERSIONS:
        driver(found["cuda"], system, version)
    for name in ("base", "epel"):
        index(found[name])
    # NVIDIA's are of the newest version for the newer kernel only, as it comes later than a kernel does.
    ready = {VERSION: [], OLDER: []}
    for version, running in (
        (VERSION, system.newer),
        (OLDER, system.newer),
        (OLDER, system.kernel),
    ):
        ready[version].append(precompiled(found["cuda"], version, running))
    index(found["cuda"], streams_of(system, ready) if system.streams else None)
    for running in (system.kernel, system.newer):
        precompiled(found["extensions"], VERSION, running, "open")
    index(found["extensions"])
    return found
