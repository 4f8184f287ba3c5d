# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian's packages of the driver and the kernel, and a machine of 12 or 13 in a folder.

Names, versions, sections and relations as in bookworm and trixie: packages.debian.org, nvidia-driver, nvidia-smi,
nvidia-open-kernel-dkms, libcuda1 and linux-headers-amd64 of either. The open modules' sources are apart from the rest,
and of the same version upstream.
"""

from __future__ import annotations

from pathlib import Path

from tests.fakes.played.apt_machine import AptMachine
from tests.fakes.played.debs import Deb
from tests.fakes.played.machines import AptMachines
from tests.fakes.played.ubuntu.ubuntu_archive import AUTOINSTALL, UNBUILD

# The kernels of 12 and 13 at the time of their releases: packages.debian.org, linux-image-amd64.
KERNELS = {"bookworm": "6.1.0-37-amd64", "trixie": "6.12.38+deb13-amd64"}
PARTS = ("main", "contrib", "non-free", "non-free-firmware")
SOURCE, OPEN_SOURCE = "nvidia-graphics-drivers", "nvidia-open-gpu-kernel-modules"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class PlayedDebian(AptMachine):
    """A machine of Debian's."""

    os_release = 'ID=debian\nVERSION_CODENAME=noble\nPRETTY_NAME="Debian GNU/Linux (noble)"\n'
    main, all_parts = "main", " ".join(PARTS)
    libraries = f"/{LIBRARIES}"

    @staticmethod
    def kernels(kernel: str, flavour: str) -> tuple[str, ...]:
        return (f"linux-image-{flavour}", f"linux-image-{kernel}")


class Machines(AptMachines[PlayedDebian]):
    """Makers of machines of one release."""

    def __init__(self, place: Path, codename: str) -> None:
        suites = ("", "-updates", "-backports")
        super().__init__(PlayedDebian, place, codename, origin="Debian", parts=PARTS, suites=suites)


def driver(version: str, suite: str = "noble") -> tuple[Deb, ...]:
    """Return the driver's packages of one upstream version, with the revision of Debian's."""
    made, common = f"{version}-1", {"suite": suite, "component": "non-free"}
    same = f"(= {made})"

    def part(name: str, depends: str = "", source: str = SOURCE, **more: object) -> Deb:
        fields = (("Depends", depends),)
        return Deb(name, made, fields, source, **{**common, **more})  # type: ignore[arg-type]

    def dkms(name: str, kind: str, other: str, source: str, component: str) -> Deb:
        file = (f"usr/src/nvidia-{version}/dkms.conf", f"{version} {kind}\n")
        scripts = (("postinst", AUTOINSTALL), ("prerm", UNBUILD))
        fields = (
            ("Depends", "dkms"),
            ("Provides", f"nvidia-kernel-{version}"),
            ("Conflicts", other),
        )
        return Deb(name, made, fields, source, (file,), scripts, component, suite)

    library = ((f"{LIBRARIES}/libnvidia-ml.so.{version}", "nvml"),)
    return (
        part("libnvidia-ml1", files=library),
        part("libcuda1", f"libnvidia-ptxjitcompiler1 {same}"),
        part("libnvidia-ptxjitcompiler1"),
        part("libnvidia-cfg1"),
        part("nvidia-smi", f"libnvidia-ml1 {same}", files=(("usr/bin/nvidia-smi", "smi"),)),
        part("nvidia-cuda-mps", f"libcuda1 {same}"),
        part("nvidia-persistenced", "libnvidia-cfg1", "nvidia-persistenced", component="contrib"),
        part(
            "firmware-nvidia-gsp",
            component="non-free-firmware",
            files=((f"lib/firmware/nvidia/{version}/gsp_ga10x.bin", "gsp"),),
        ),
        part("nvidia-driver-libs", f"libcuda1 {same}"),
        part(
            "nvidia-driver",
            f"nvidia-driver-libs {same}, nvidia-kernel-dkms {same} | nvidia-kernel-{version}, nvidia-smi {same}",
        ),
        dkms("nvidia-kernel-dkms", "proprietary", "nvidia-open-kernel-dkms", SOURCE, "non-free"),
        dkms("nvidia-open-kernel-dkms", "open", "nvidia-kernel-dkms", OPEN_SOURCE, "contrib"),
    )


def kernel(name: str, *, headers: bool = True) -> tuple[Deb, ...]:
    """Return a kernel that linux-image-amd64 brings, and its headers."""
    version = f"{name.partition('-')[0]}-1"
    files = ((f"boot/vmlinuz-{name}", "kernel"), (f"lib/modules/{name}/modules.builtin", ""))
    there = (
        (f"usr/src/linux-headers-{name}/Makefile", ""),
        (f"lib/modules/{name}/build", f"->../../../usr/src/linux-headers-{name}"),
    )
    words = {"component": "main", "suite": "noble"}
    depends = (("Depends", f"linux-image-{name} (= {version})"),)
    found = (
        Deb(f"linux-image-{name}", version, (), "linux-signed-amd64", files, **words),  # type: ignore[arg-type]
        Deb("linux-image-amd64", version, depends, "linux-signed-amd64", **words),  # type: ignore[arg-type]
    )
    build = Deb(
        f"linux-headers-{name}",
        version,
        (),
        "linux",
        there,
        (("postinst", AUTOINSTALL),),
        **words,  # type: ignore[arg-type]
    )
    return (*found, build) if headers else found


DKMS = Deb("dkms", "3.0.10-8", component="main", suite="noble")


def archive(name: str, *versions: str, headers: bool = True) -> tuple[Deb, ...]:
    """Return an archive with a kernel, and the driver in each of the versions."""
    drivers = tuple(one for version in versions for one in driver(version))
    return (DKMS, *kernel(name, headers=headers), *drivers)
