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

from collections.abc import Mapping
from pathlib import Path

from tests.fakes.played.rhel.rhel_systems import System
from tests.fakes.played.rpms import Rpm

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
# What dkms does in the scripts of the packages, in the language that rpm brings itself.
BUILD = """\
for kernel in posix.files("/lib/modules") do
  if kernel:sub(1, 1) ~= "." then
    if posix.stat("/lib/modules/" .. kernel .. "/build/Makefile") then
      posix.mkdir("/lib/modules/" .. kernel .. "/extra")
      local module = io.open("/lib/modules/" .. kernel .. "/extra/nvidia.ko", "w")
      module:write("MODULE\\n")
      module:close()
    else
      io.stderr:write("Error! Your kernel headers for kernel " .. kernel .. " cannot be found.\\n")
    end
  end
end
"""
UNBUILD = """\
for kernel in posix.files("/lib/modules") do
  local path = "/lib/modules/" .. kernel .. "/extra/nvidia.ko"
  local module = io.open(path)
  if module and module:read("l") == "MODULE" then
    os.remove(path)
  end
end
"""
EPEL = "[epel]\nname=epel\nbaseurl=file://{}\nenabled=1\ngpgcheck=0\n"
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
Stage = dict[str, tuple[Rpm, ...]]


def kernel(system: System, running: str) -> tuple[Rpm, ...]:
    """Return the packages of a kernel."""
    version, several = running.rpartition(".")[0], "Provides: installonlypkg(kernel)"
    modules, sources = f"lib/modules/{running}", f"usr/src/kernels/{running}"
    core = Rpm(
        system.core,
        version,
        (several, f"Provides: {system.core}-uname-r = {running}"),
        (
            (f"boot/vmlinuz-{running}", ""),
            (f"{modules}/modules.builtin", ""),
            (f"{modules}/build", f"->../../../{sources}"),
        ),
        folders=(modules,),
    )
    devel = Rpm(
        system.devel,
        version,
        (several, f"Provides: {system.devel}-uname-r = {running}"),
        ((f"{sources}/Makefile", ""),),
        folders=(sources,),
    )
    needs = tuple(f"Requires: {one} = {version}" for one in (system.core, system.devel))
    matched = (Rpm(f"{system.devel}-matched", version, needs),) if system.matched else ()
    return (core, devel, *matched)


def dkms(system: System) -> Rpm:
    """Return dkms, which comes from EPEL or from the distribution."""
    needs = "kernel-devel" if system.dist == "el8" else "(kernel-devel-matched if kernel-core)"
    version, files = f"3.2.2-1.{system.dist}", (("usr/sbin/dkms", ""),)
    return Rpm("dkms", version, (f"Requires: {needs}",), files)


def driver(system: System, version: str, *scripts: tuple[str, str]) -> tuple[Rpm, ...]:
    """Return the packages of one version of the driver, but for precompiled kernel modules.

    ``scripts`` are what more the packages with kernel modules run.
    """
    release, folder = f"{version}-1.{system.dist}", f"usr/src/nvidia-{version}"
    kmods = []
    for kind, name in KMODS.items():
        other, module = (
            KMODS["open" if kind == "proprietary" else "proprietary"],
            f"{version} {kind}",
        )
        provides = f"Provides: nvidia-kmod = 3:{version}"
        builds = (
            ("post", BUILD.replace("MODULE", module)),
            ("preun", UNBUILD.replace("MODULE", module)),
        )
        kmods.append(
            Rpm(
                name,
                release,
                ("Requires: dkms", f"Conflicts: {other}", provides),
                ((f"{folder}/dkms.conf", f"{module}\n"),),
                (*builds, *scripts),
                (folder,),
                3,
            )
        )
    needs = {
        "nvidia-driver-cuda": ("nvidia-driver-cuda-libs", "nvidia-kmod-common"),
        "nvidia-kmod-common": ("nvidia-kmod",),
    }
    files = {
        "nvidia-driver-cuda-libs": ((f"usr/lib64/libnvidia-ml.so.{version}", ""),),
        "nvidia-kmod-common": ((f"lib/firmware/nvidia/{version}/gsp_ga10x.bin", ""),),
    }
    return (
        *kmods,
        *(
            Rpm(
                name,
                release,
                tuple(f"Requires: {one} = 3:{version}" for one in needs.get(name, ())),
                files.get(name, ()),
                epoch=3,
            )
            for name in USER_SPACE
        ),
    )


def precompiled(version: str, running: str, kind: str = "proprietary") -> Rpm:
    """Return the modules for one kernel."""
    short, dist = running.rpartition(".")[0].rsplit(".", 1)
    return Rpm(
        f"kmod-nvidia-{'open-' if kind == 'open' else ''}{version}-{short}",
        f"{version}-3.{dist}",
        (
            f"Provides: nvidia-kmod = 3:{version}",
            "Conflicts: kmod-nvidia-latest-dkms",
            f"Requires: (kernel-core = {short}.{dist} if kernel-core)",
        ),
        ((f"lib/modules/{running}/extra/drivers/video/nvidia/nvidia.ko", f"{version} {kind}\n"),),
        epoch=3,
    )


def described(streams: Mapping[str, list[Rpm]]) -> str:
    """Return the description of module streams."""
    text = DEFAULTS
    for number, (name, rpms) in enumerate(sorted(streams.items())):
        lines = "\n".join(f"      - {one.full}" for one in rpms)
        text += STREAM.format(name=name, context=f"c0ffee{number:02}", rpms=lines)
    return text


def broken(system: System, *scripts: tuple[str, str]) -> tuple[tuple[Rpm, ...], str]:
    """Return a branch whose kernel modules run these scripts, and the description of its stream."""
    packages = driver(system, BROKEN, *scripts)
    of_stream = [one for one in packages if one.name != KMODS["proprietary"]]
    return packages, described({"590-open": of_stream}) if system.streams else ""


def streams_of(packages: tuple[Rpm, ...]) -> dict[str, list[Rpm]]:
    """Return the packages of each stream that NVIDIA's repository has."""
    found: dict[str, list[Rpm]] = {}
    for version in VERSIONS:
        branch = version.split(".", maxsplit=1)[0]
        ours = [one for one in packages if one.version.startswith(f"{version}-")]
        user = [one for one in ours if one.name in USER_SPACE]
        for kind, kmod in KMODS.items():
            parts = [*user, *(one for one in ours if one.name == kmod)]
            rolling = {"open": "open-dkms", "proprietary": "latest-dkms"}[kind]
            for stream in (f"{branch}-{ENDINGS[kind]}", *([rolling] if version == VERSION else [])):
                found.setdefault(stream, []).extend(parts)
        ready = [one for one in ours if one.name not in (*USER_SPACE, *KMODS.values())]
        found.setdefault(branch, []).extend([*user, *ready])
    return found


def stage(system: System, epel: Path) -> Stage:
    """Return the repositories base, epel, cuda and Red Hat's extensions; ``epel`` is where that one will lie."""
    kernels = (system.kernel, system.newer)
    base = [one for running in kernels for one in kernel(system, running)]
    plugin = (("usr/lib/dnf-plugins/versionlock.py", ""),)
    base.append(Rpm("python3-dnf-plugin-versionlock", f"4.3.0-21.{system.dist}", (), plugin))
    if system.epel:
        name = "oracle-epel-release-el9" if system.ident == "ol" else "epel-release"
        entry = (("etc/yum.repos.d/epel.repo", EPEL.format(epel)),)
        base.append(Rpm(name, f"9-9.{system.dist}", (), entry))
    # NVIDIA's are of the newest version for the newer kernel only, as it comes later than a kernel does.
    ready = ((VERSION, system.newer), (OLDER, system.newer), (OLDER, system.kernel))
    return {
        "base": (*base, *(() if system.epel else (dkms(system),))),
        "epel": (dkms(system),) if system.epel else (),
        "cuda": (
            *(one for version in VERSIONS for one in driver(system, version)),
            *(precompiled(*one) for one in ready),
        ),
        "extensions": tuple(precompiled(VERSION, running, "open") for running in kernels),
    }


def modules(system: System, offered: Stage) -> dict[str, str]:
    """Return the descriptions of module streams by repository."""
    return {"cuda": described(streams_of(offered["cuda"]))} if system.streams else {}
