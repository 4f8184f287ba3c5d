# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of the driver and the kernel for the RHEL family 9, with genuine names and relations, for genuine dnf.

F13  /lib/modules/K/build belongs to kernel-core and dangles until kernel-devel is there: kernel.spec of RHEL.
F12  kmod-nvidia-open-dkms and its kin: NVIDIA's Driver Installation Guide, names of its repository for rhel9.
dkms comes from EPEL.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

KERNEL = "5.14.0-570.12.1.el9_6.x86_64"
VERSION, OLDER = "580.95.05", "580.82.07"
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
CORE = """\
%install
mkdir -p %{{buildroot}}/boot %{{buildroot}}/lib/modules/{kernel}
touch %{{buildroot}}/boot/vmlinuz-{kernel} %{{buildroot}}/lib/modules/{kernel}/modules.builtin
ln -s ../../../usr/src/kernels/{kernel} %{{buildroot}}/lib/modules/{kernel}/build
%files
/boot/vmlinuz-{kernel}
/lib/modules/{kernel}
"""
DEVEL = """\
%install
mkdir -p %{{buildroot}}/usr/src/kernels/{kernel}
touch %{{buildroot}}/usr/src/kernels/{kernel}/Makefile
%files
/usr/src/kernels/{kernel}
"""
DKMS = """\
%install
mkdir -p %{buildroot}/usr/sbin
touch %{buildroot}/usr/sbin/dkms
chmod 755 %{buildroot}/usr/sbin/dkms
%files
/usr/sbin/dkms
"""
# What dkms does in the script of the package, in the language that rpm brings itself.
KMOD = """\
%install
mkdir -p %{{buildroot}}/usr/src/nvidia-{version}
echo '{version} {kind}' > %{{buildroot}}/usr/src/nvidia-{version}/dkms.conf
%post -p <lua>
for kernel in posix.files("/lib/modules") do
  if kernel:sub(1, 1) ~= "." then
    if posix.stat("/lib/modules/" .. kernel .. "/build/Makefile") then
      posix.mkdir("/lib/modules/" .. kernel .. "/extra")
      local module = io.open("/lib/modules/" .. kernel .. "/extra/nvidia.ko", "w")
      module:write("{version} {kind}\\n")
      module:close()
    else
      io.stderr:write("Error! Your kernel headers for kernel " .. kernel .. " cannot be found.\\n")
    end
  end
end
%preun -p <lua>
for kernel in posix.files("/lib/modules") do
  os.remove("/lib/modules/" .. kernel .. "/extra/nvidia.ko")
end
%files
/usr/src/nvidia-{version}
"""
LIBRARIES = """\
%install
mkdir -p %{{buildroot}}/usr/lib64
touch %{{buildroot}}/usr/lib64/libnvidia-ml.so.{version}
%files
/usr/lib64/libnvidia-ml.so.{version}
"""
NO_FILES = "%files\n"


def build(
    folder: Path, name: str, version: str, body: str, relations: str = "", epoch: int = 0
) -> None:
    """Build a package into the folder; ``version`` is with its release."""
    bare, release = version.split("-", 1)
    spec = folder / f"{name}.spec"
    head = HEAD.format(name=name, epoch=epoch, version=bare, release=release, relations=relations)
    spec.write_text(head + body)
    words = [
        "rpmbuild",
        "-bb",
        "--define",
        f"_topdir {folder}/work",
        "--define",
        f"_rpmdir {folder}",
    ]
    words += ["--define", "_binary_payload w0.gzdio", "--define", "_build_id_links none"]
    words += ["--target", "x86_64", "--define", "__os_install_post %{nil}"]
    words += ["--define", "__brp_mangle_shebangs %{nil}", str(spec)]
    subprocess.run(words, check=True, capture_output=True, text=True)


def _indexed(folder: Path) -> None:
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True, capture_output=True)


def repositories(root: Path) -> dict[str, Path]:
    """Build the repositories base, epel and cuda, and return their folders."""
    found = {name: root / name for name in ("base", "epel", "cuda")}
    for folder in found.values():
        folder.mkdir(parents=True)
    made = KERNEL.rpartition(".")[0]
    build(
        found["base"],
        "kernel-core",
        made,
        CORE.format(kernel=KERNEL),
        f"Provides: kernel-core-uname-r = {KERNEL}",
    )
    build(
        found["base"],
        "kernel-devel",
        made,
        DEVEL.format(kernel=KERNEL),
        f"Provides: kernel-devel-uname-r = {KERNEL}",
    )
    build(found["epel"], "dkms", "3.2.2-1.el9", DKMS)
    for version in (VERSION, OLDER):
        full = f"3:{version}-1.el9"
        for kind, name, other in (
            ("open", "kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"),
            ("proprietary", "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms"),
        ):
            relations = f"Requires: dkms\nConflicts: {other}\nProvides: nvidia-kmod = {full}"
            body = KMOD.format(version=version, kind=kind)
            build(found["cuda"], name, f"{version}-1.el9", body, relations, 3)
        libs = "nvidia-driver-cuda-libs"
        build(found["cuda"], libs, f"{version}-1.el9", LIBRARIES.format(version=version), "", 3)
        needs = f"Requires: {libs} = {full}"
        build(found["cuda"], "nvidia-driver-cuda", f"{version}-1.el9", NO_FILES, needs, 3)
        build(found["cuda"], "nvidia-persistenced", f"{version}-1.el9", NO_FILES, "", 3)
    for folder in found.values():
        _indexed(folder)
    return found
