# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Debian's genuine lsinitramfs and lsinitrd say of an initramfs decides whether it is rebuilt."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import Modules
from ansible_collections.gpu.node.plugins.module_utils._driver.machine import initramfs
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from nvsim.genuine import program

KERNEL = "6.1.0-40-amd64"
PLAIN = ("etc/modprobe.d/other.conf", f"usr/lib/modules/{KERNEL}/kernel/fs/ext4/ext4.ko")
OURS = (
    "etc/modprobe.d/gpu-node.conf",
    f"usr/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko",
    f"usr/lib/modules/{KERNEL}/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz",
)
LISTERS = {"lsinitramfs": "initramfs-tools-core", "lsinitrd": "dracut-core"}


def image(folder: Path, cpio: Path, *names: str) -> Path:
    """Make an initramfs with empty files in it."""
    root = folder / "root"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    words = [path.relative_to(root) for path in sorted(root.rglob("*"))]
    done = subprocess.run(
        [cpio, "--create", "--format=newc", "--quiet"],
        cwd=root,
        input="\n".join(map(str, words)).encode(),
        capture_output=True,
        check=True,
    )
    made = folder / f"initrd.img-{KERNEL}"
    made.write_bytes(gzip.compress(done.stdout))
    return made


@pytest.mark.parametrize("more", ["", *OURS])
@pytest.mark.parametrize("lister", LISTERS)
def test_an_initramfs_is_rebuilt_by_what_the_genuine_program_lists(
    lister: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpio = program("cpio", "cpio", "bookworm")
    there = program(LISTERS[lister], lister, "bookworm")
    made = image(tmp_path, cpio, *PLAIN, *filter(None, [more]))
    listed = tmp_path / "bin"
    listed.mkdir()
    for one in (cpio, there, there.with_name("unmkinitramfs")):
        if one.exists():
            (listed / one.name).symlink_to(one)
    monkeypatch.setenv("PATH", f"{listed}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("dracutbasedir", str(there.parents[1] / "lib/dracut"))
    monkeypatch.setattr(initramfs, "LISTERS", (lister,))
    monkeypatch.setattr(initramfs, "IMAGES", (str(made).replace(KERNEL, "{}"),))
    found = initramfs.looked_into(Host(), Modules(images=(KERNEL,)), changes=True)
    assert found.images == ((KERNEL,) if more else ())
    damaged = made.read_bytes()[:40]
    made.write_bytes(damaged)
    assert initramfs.looked_into(Host(), Modules(images=(KERNEL,)), changes=True).images == (
        KERNEL,
    )
