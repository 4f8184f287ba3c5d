# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ubuntu's packages of the driver and the kernel, and the archive as it moves from stage to stage.

Names, versions and relations are those of Ubuntu 24.04. Where each was seen:

F1  prebuilt modules: linux-signatures (= V), linux-objects (= V), nvidia-kernel-common with a lower bound that is
    the driver's version; in 2022 an upper bound too. packages.ubuntu.com: linux-modules-nvidia-580-open-generic;
    NVIDIA's GPU operator documentation quotes 515-server-5.15.0-56 and 525-server-5.15.0-69.
F3  the modules of a kernel are built again under the same name: 6.8.0-64.67+1, 7.0.0-1016.16+3. packages.ubuntu.com.
F4  tracking packages provide nvidia-dkms-BRANCH and nvidia-prebuilt-kernel. packages.ubuntu.com, as F1.
F5  nvidia-dkms and nvidia-kernel-source: packages.ubuntu.com, nvidia-dkms-580-open.
F6  libnvidia-compute needs the virtual nvidia-kernel-common-BRANCH-VERSION: packages.ubuntu.com,
    libnvidia-compute-580-server 580.173.02.
F7  branches conflict by nvidia-kernel-common: bug reports of 525/535 and 515/530. That libnvidia-compute and
    libnvidia-cfg1 do the same is an assumption; the former is enough.
F8  570-server is transitional to 580-server: packages.ubuntu.com, source nvidia-graphics-drivers-580-server.
F9  libnvidia-decode and libnvidia-encode: debian/templates/control.in of NVIDIA's ubuntu-packaging-nvidia-driver.
F10 modules whose linux-signatures is gone: NVIDIA's list for 550-server-6.8.0-1031-azure.
"""

from __future__ import annotations

import dataclasses

from tests.fakes.played.debs import Deb

OLD, NEW, NEWER = "580.95.05", "580.105.08", "580.126.09"
K85, K86 = "6.8.0-85-generic", "6.8.0-86-generic"
# What dkms does when it or a kernel's headers are configured: build each source for each kernel with headers.
AUTOINSTALL = """\
for source in "$DPKG_ROOT"/usr/src/nvidia-*/dkms.conf; do
  [ -f "$source" ] || continue
  for build in "$DPKG_ROOT"/lib/modules/*/build/Makefile; do
    [ -f "$build" ] || continue
    kernel="${build%/build/Makefile}"
    mkdir -p "$kernel/updates/dkms"
    cp "$source" "$kernel/updates/dkms/nvidia.ko"
  done
done
"""
UNBUILD = 'rm -f "$DPKG_ROOT"/lib/modules/*/updates/dkms/nvidia.ko\n'


def full(version: str) -> str:
    """Return the version of Ubuntu's packages of a driver."""
    return f"{version}-0ubuntu0.24.04.1"


def driver(version: str, ending: str = "-server", *, phased: int | None = None) -> tuple[Deb, ...]:
    """Return all packages that come from the sources of one version; ``ending`` as in nvidia-utils-580-server."""
    mark = f"{version.split('.')[0]}{ending}"
    made = full(version)

    def part(name: str, *depends: str, alone: str = "", **more: object) -> Deb:
        fields = {"Depends": ", ".join(depends)}
        provides = [alone] if alone else []
        if name == "nvidia-kernel-common":
            provides.append(f"nvidia-kernel-common-{mark}-{version}")  # F6
        fields["Provides"] = ", ".join(provides)
        fields["Conflicts"] = fields["Replaces"] = alone  # F7
        source = f"nvidia-graphics-drivers-{mark}"
        return Deb(
            f"{name}-{mark}" if "{}" not in name else name.format(mark),
            made,
            tuple(fields.items()),
            source,
            phased=phased,
            **more,  # type: ignore[arg-type]
        )

    same = f"(= {made})"
    common = f"nvidia-kernel-common-{mark}"
    parts = [
        part(
            "nvidia-kernel-common",
            f"nvidia-firmware-{mark}-{version}",
            alone="nvidia-kernel-common",
        ),
        part(
            f"nvidia-firmware-{{}}-{version}",
            files=((f"lib/firmware/nvidia/{version}/gsp_ga10x.bin", "gsp"),),
        ),
        part(
            "libnvidia-compute",
            f"nvidia-kernel-common-{mark}-{version}",
            alone="libnvidia-compute",
            files=((f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", "nvml"),),
        ),
        part("libnvidia-cfg1", alone="libnvidia-cfg1"),
        part("libnvidia-gl", f"libnvidia-compute-{mark} {same}"),
        part("libnvidia-decode", f"libnvidia-compute-{mark} {same}", alone="libnvidia-decode"),
        part("libnvidia-encode", alone="libnvidia-encode"),
        part(
            "nvidia-utils",
            f"libnvidia-compute-{mark} {same}",
            alone="nvidia-utils",
            files=(("usr/bin/nvidia-smi", "smi"),),
        ),
        part("nvidia-compute-utils", f"libnvidia-compute-{mark}", alone="nvidia-compute-utils"),
    ]
    for kind, end in (("open", "-open"), ("proprietary", "")):
        bounds = f"{common} (<= {version}-1), {common} (>= {version})"  # F5
        parts += [
            part(f"nvidia-kernel-source-{{}}{end}"),
            part(
                f"nvidia-dkms-{{}}{end}",
                "dkms",
                bounds,
                f"nvidia-kernel-source-{mark}{end} {same}",
                alone="nvidia-dkms-kernel",
                files=((f"usr/src/nvidia-{version}/dkms.conf", f"{version} {kind}\n"),),
                scripts=(("postinst", AUTOINSTALL), ("prerm", UNBUILD)),
            ),
            part(
                f"nvidia-driver-{{}}{end}",
                f"nvidia-dkms-{mark}{end} (<= {version}-1) | nvidia-prebuilt-kernel",
                f"libnvidia-compute-{mark} {same}",
                f"nvidia-utils-{mark} {same}",
                f"nvidia-compute-utils-{mark} {same}",
                f"libnvidia-cfg1-{mark} {same}",
            ),
            part(
                f"nvidia-headless-no-dkms-{{}}{end}",
                f"nvidia-kernel-source-{mark}{end} {same}",
                f"{common} {same}",
                f"libnvidia-compute-{mark} {same}",
            ),
        ]
    return tuple(parts)


def transitional(branch: str, version: str) -> tuple[Deb, ...]:
    """Return the packages of a server branch that are there only to bring those of another one (F8)."""
    mark = f"{version.split('.')[0]}-server"
    names = [one.name for one in driver(version) if one.name.endswith((mark, f"{mark}-open"))]
    return tuple(
        Deb(
            name.replace(mark, f"{branch}-server"),
            full(version),
            (("Depends", name),),
            f"nvidia-graphics-drivers-{mark}",
        )
        for name in names
    )


def prebuilt(
    kernel: str,
    built: str,
    respin: str = "",
    *,
    upper: bool = False,
    ending: str = "-server",
    signatures: str = "",
) -> tuple[Deb, ...]:
    """Return the modules of a kernel for a version of the driver, of both types, with what they need.

    ``respin`` as +1 tells builds for one kernel apart (F3), ``upper`` has the bounds of 2022 (F1), and
    ``signatures`` is the version of linux-signatures where that is another (F10).
    """
    mark = f"{built.split('.')[0]}{ending}"
    made = package_version(kernel, respin)
    found = [_kernels("linux-signatures-nvidia-" + kernel, signatures or made)]
    for kind, end in (("open", "-open"), ("proprietary", "")):
        objects = f"linux-objects-nvidia-{mark}{end}-{kernel}"
        common = f"nvidia-kernel-common-{mark}"
        bounds = f"{common} (<= {built}-1), " if upper else ""
        file = f"lib/modules/{kernel}/kernel/nvidia-{mark}{end}/nvidia.ko"
        found += [
            _kernels(objects, made),
            _kernels(
                f"linux-modules-nvidia-{mark}{end}-{kernel}",
                made,
                f"linux-signatures-nvidia-{kernel} (= {made}), {objects} (= {made}), "
                f"{bounds}{common} (>= {built}), linux-image-{kernel}",
                # It links the objects when it is configured.
                files=((file, f"{built} {kind}\n"),),
            ),
        ]
    return tuple(found)


def tracking(
    kernel: str, built: str, respin: str = "", *, ending: str = "-server"
) -> tuple[Deb, ...]:
    """Return the packages that follow a flavour of the kernel (F1, F4)."""
    mark, flavour = f"{built.split('.')[0]}{ending}", kernel.rpartition("-")[2]
    made = package_version(kernel, respin)
    return tuple(
        _kernels(
            f"linux-modules-nvidia-{mark}{end}-{flavour}",
            made,
            f"linux-modules-nvidia-{mark}{end}-{kernel} (= {made}), nvidia-kernel-common-{mark} (>= {built})",
            f"nvidia-dkms-{mark}{end} (= {full(built)}), nvidia-prebuilt-kernel",
        )
        for end in ("-open", "")
    )


def _kernels(
    name: str,
    version: str,
    depends: str = "",
    provides: str = "",
    files: tuple[tuple[str, str], ...] = (),
    scripts: tuple[tuple[str, str], ...] = (),
    source: str = "linux-restricted-modules",
    component: str = "restricted",
) -> Deb:
    fields = (("Depends", depends), ("Provides", provides))
    return Deb(name, version, fields, source, files, scripts, component)


def package_version(kernel: str, respin: str = "") -> str:
    """Return the version of a kernel's packages: 6.8.0-85.85+1."""
    bare = kernel.rpartition("-")[0]
    return f"{bare}.{bare.rpartition('-')[2]}{respin}"


def kernel(name: str, *, newest: bool = True) -> tuple[Deb, ...]:
    """Return a kernel with its headers, and the packages that bring the newest one."""
    made, flavour = package_version(name), name.rpartition("-")[2]
    image = (
        (f"boot/vmlinuz-{name}", "kernel"),
        (f"lib/modules/{name}/modules.builtin", ""),
    )
    headers = (
        (f"usr/src/linux-headers-{name}/Makefile", ""),
        (f"lib/modules/{name}/build", f"->../../../usr/src/linux-headers-{name}"),
    )
    autoinstall = (("postinst", AUTOINSTALL),)
    words = {"source": "linux", "component": "main"}
    found = [
        _kernels(f"linux-image-{name}", made, files=image, **words),  # type: ignore[arg-type]
        _kernels(f"linux-headers-{name}", made, "", "", headers, autoinstall, **words),  # type: ignore[arg-type]
    ]
    if newest:
        meta = {"source": "linux-meta", "component": "main"}
        both = f"linux-image-{flavour} (= {made}), linux-headers-{flavour} (= {made})"
        found += [
            _kernels(f"linux-image-{flavour}", made, f"linux-image-{name}", **meta),  # type: ignore[arg-type]
            _kernels(f"linux-headers-{flavour}", made, f"linux-headers-{name}", **meta),  # type: ignore[arg-type]
            _kernels(f"linux-{flavour}", made, both, **meta),  # type: ignore[arg-type]
        ]
    return tuple(found)


DKMS = Deb("dkms", "3.0.11-1ubuntu13", component="main", suite="noble")
# As found by hand in June 2026; names as in the findings.
A = (DKMS, *kernel(K85), *driver(OLD), *prebuilt(K85, OLD, "+1"), *tracking(K85, OLD, "+1"))


def stage_b(*, upper: bool = False) -> tuple[Deb, ...]:
    """Return the archive with 580.105.08 only, whose modules kernel 86 has; kernel 85's are of 580.95.05."""
    return (
        *(DKMS, *kernel(K85, newest=False), *kernel(K86), *driver(NEW)),
        *(*prebuilt(K85, OLD, "+1", upper=upper), *prebuilt(K86, NEW, upper=upper)),
        *tracking(K86, NEW),
    )


B = stage_b()
C = tuple(one for one in B if K85 not in one.name or one.source != "linux-restricted-modules")
G = (DKMS, *kernel(K85), *driver(NEWER), *prebuilt(K85, OLD, "+1"), *tracking(K85, OLD, "+1"))
G2 = (DKMS, *kernel(K85), *driver(NEWER), *prebuilt(K85, NEWER, "+3"), *tracking(K85, NEWER, "+3"))
PH = (
    *(dataclasses.replace(one, suite="noble") for one in A),
    *driver(NEW, phased=0),
)
H = (*A, *driver("570.195.03"), *prebuilt(K85, "570.195.03", "+1"))
