# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine in a folder that GRUB or systemd-boot boots, by the genuine programs that write their entries."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._host.machine.loaders import LOADER_INFO
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.host.host_nodes import MACHINE_ID
from tests.fakes.played.rooted import Rooted
from tests.support.paths import REPOSITORY

PACKAGES = REPOSITORY / ".cache/grub"
KERNEL = "6.1.0-20-amd64"
# What grub-probe says of a machine with one disk. In a folder there is none.
PROBE = """#!/bin/sh
case "$*" in
  *--target=device*) echo /dev/sda1 ;;
  *--target=fs_uuid*) echo 0a1b ;;
  *--target=partuuid*) echo 01 ;;
  *--target=fs*) echo ext2 ;;
  *--target=drive*) echo hd0 ;;
esac
"""
ENTER = """\
cp "$1/proc/cmdline" "$1/tmp/cmdline" && mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc" &&
  mount --bind "$1/tmp/cmdline" "$1/proc/cmdline" &&
  mount -t overlay overlay -o "lowerdir=$1/layer:$2:/usr" "$1/usr" && shift 2 && TMPDIR=/tmp exec chroot "$@"
"""


class BootedRoot(Rooted):
    """A machine with one kernel, whose programs are this machine's, with GRUB's over them, and its own files."""

    genuine = ("update-grub", "kernel-install")

    def __init__(self, root: Path, *, systemd_boot: bool = False) -> None:
        super().__init__(root, "ID=debian\nPRETTY_NAME=Debian\n", KERNEL, "0x2330")
        self.genuine = self.genuine[1:] if systemd_boot else self.genuine[:1]
        for name in ("usr", "dev", "proc", "tmp", "var/tmp", "boot/grub", "boot/loader/entries"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        for name, text in (("sbin/grub-probe", PROBE), ("bin/grub-mkrelpath", "echo /boot\n")):
            self.put(f"layer/{name}", text if text.startswith("#!") else f"#!/bin/sh\n{text}")
            (root / "layer" / name).chmod(0o755)
        subprocess.run(["cp", "-r", PACKAGES / "etc/grub.d", root / "etc"], check=True)
        defaults = PACKAGES / "usr/share/grub/default/grub"
        self.put("etc/default/grub", defaults.read_text())
        self.put("etc/machine-id", f"{MACHINE_ID}\n")
        self.put("etc/kernel/install.conf", "layout=bls\n")
        self.put(f"boot/vmlinuz-{KERNEL}", "a kernel")
        self.put(f"boot/initrd.img-{KERNEL}", "its files")
        self.put(f"boot/{MACHINE_ID}/.keep", "")
        self.put(f"usr/lib/modules/{KERNEL}/modules.order", "")
        self.put(f"layer/lib/modules/{KERNEL}/modules.order", "")
        self.put("proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
        self.put("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/sda1 ro quiet\n")
        self.put("proc/sys/kernel/random/boot_id", "boot-0\n")
        if systemd_boot:
            self.put(LOADER_INFO.lstrip("/"), "\0".join("....systemd-boot 252"))
            words = "kernel-install", "add", KERNEL, f"/boot/vmlinuz-{KERNEL}"
        else:
            words = ("update-grub",)
        self.run(words)

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        return self.inside(*words)

    def inside(self, *words: str) -> Completed:
        """Run a program that has the folder for its root."""
        inside = ["unshare", "--mount", "/bin/sh", "-c", ENTER, "enter", str(self.root)]
        usr = str(PACKAGES / "usr")
        done = subprocess.run(
            [*inside, usr, str(self.root), *words], capture_output=True, text=True, check=False
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def next(self) -> list[list[str]]:
        """Return the words of each entry that is no recovery mode."""
        if "kernel-install" in self.genuine:
            texts = [one.read_text() for one in (self.root / "boot/loader/entries").glob("*.conf")]
            lines = [line for text in texts for line in text.splitlines()]
            return [line.split()[1:] for line in lines if line[:7] == "options"]
        lines = (self.root / "boot/grub/grub.cfg").read_text().splitlines()
        linux = [line.split()[2:] for line in lines if line.split()[:1] == ["linux"]]
        return [one for one in linux if "single" not in one]

    def boot(self) -> None:
        self.put("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {' '.join(self.next()[0])}\n")
        self.put("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.remove("/run/gpu-node")
