# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Builds that fail, nouveau, options and the initramfs on a small Debian."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import (
    dkms,
    modules,
)
from ansible_collections.gpu.node.plugins.module_utils._core.driver.kernel import MODPROBE_FILE
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.packages.debian import Debian, capability, converge

DKMS = "/var/lib/dkms/nvidia-current-open"
LOG = f"{DKMS}/550.163.01/build/make.log"
HEAD = "DKMS (dkms-3.2.1) make.log for nvidia-current-open/550.163.01 for kernel 6.12.1 (x86_64)\n"
IMAGE = "/boot/initrd.img-6.12.1"


class Machine(Debian):
    """A node whose kernel has nouveau and an initramfs, and keeps the times of its files."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 100.0
        self.files["/lib/modules/6.12.1/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz"] = ""
        for path in ("/boot/vmlinuz-6.12.1", IMAGE):
            self.files[path] = ""
            self.times[path] = self.clock
        self.commands["update-initramfs",] = self.rebuild

    def write(
        self, path: str, text: str, *, mode: int | None = None, backup: bool = False
    ) -> str | None:
        self.clock += 10
        self.times[path] = self.clock
        return super().write(path, text, mode=mode, backup=backup)

    def rebuild(self, _words: tuple[str, ...]) -> Completed:
        self.clock += 10
        self.times[IMAGE] = self.clock
        return Completed(0, "", "")

    def rebuilds(self) -> list[tuple[str, ...]]:
        return [words for words in self.ran if words[0] in ("update-initramfs", "dracut")]

    def fail_to_build(self, made: float) -> Completed:
        """Leave the log that DKMS leaves."""
        self.files[LOG] = f"{HEAD}cc -c nv.c\nnv.c:7: error: too few arguments\n"
        self.times[LOG] = made
        return Completed(100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)")


def test_failed_build_is_reported_with_its_kernel_and_the_end_of_its_log() -> None:
    host = Machine()
    host.answers = [None, host.fail_to_build(time.time())]
    with pytest.raises(NodeError) as caught:
        converge(host)
    assert "build nvidia-current-open 550.163.01 for the kernel 6.12.1" in caught.value.message
    assert caught.value.cause.endswith("nv.c:7: error: too few arguments")
    (details,) = caught.value.details["dkms"]
    assert (details["state"], details["log"]) == ("failed", LOG)


def test_log_of_an_older_failure_is_not_taken_for_this_one() -> None:
    host = Machine()
    host.answers = [None, host.fail_to_build(time.time() - 3600)]
    with pytest.raises(NodeError, match="apt-get failed with status 100"):
        converge(host)


def test_module_that_was_not_built_is_the_reason_why_it_does_not_load() -> None:
    host = Machine()
    host.fail_to_build(0)
    host.commands["modprobe",] = Completed(1, "", "FATAL: Module nvidia not found")
    with pytest.raises(NodeError, match="DKMS could not build"):
        converge(host)


def test_state_of_dkms_is_read_for_each_kernel() -> None:
    host = Machine()
    host.fail_to_build(0)
    base = f"{DKMS}/550.163.01"
    for kernel in ("6.11.0", "6.10.0"):
        host.files[f"{base}/{kernel}/x86_64/module/nvidia-current.ko.xz"] = ""
    host.links[f"{DKMS}/kernel-6.11.0-x86_64"] = "550.163.01/6.11.0/x86_64"
    host.links[f"{base}/source"] = "/usr/src/nvidia-current-open-550.163.01"
    host.files["/var/lib/dkms/zfs/2.1/6.11.0/x86_64/module/zfs.ko"] = ""
    found = {one.kernel: one.state for one in dkms(host)}
    assert found == {"6.11.0": "installed", "6.10.0": "built", "6.12.1": "failed"}
    one = capability(host)
    state = one.observe()
    reported = one.result(state, one.plan(state))["dkms"]
    assert {each["module"] for each in reported} == {"nvidia-current-open"}
    host.files[f"{base}/6.12.1/x86_64/module/nvidia-current.ko.xz"] = ""
    assert "failed" not in {each.state for each in dkms(host)}


def test_nouveau_is_kept_away_in_the_initramfs_too_and_all_of_it_taken_back() -> None:
    host = Machine()
    files = dict(host.files)
    assert converge(host).steps == ()
    assert "blacklist nouveau\n" in host.files[MODPROBE_FILE]
    assert host.rebuilds() == [("update-initramfs", "-u", "-k", "6.12.1")]
    converge(host)
    assert len(host.rebuilds()) == 1
    converge(host, state="absent")
    host.remove("/proc/driver")
    host.remove("/sys/module/nvidia")
    assert host.files == files
    assert len(host.rebuilds()) == 2


def test_rebuild_that_failed_is_done_again() -> None:
    host = Machine()
    host.commands["update-initramfs",] = Completed(1, "", "No space left on device")
    with pytest.raises(NodeError, match=r"No space left on device.*free space in /boot"):
        converge(host)
    assert json.loads(host.files[RECORD])["modprobe"] is True
    host.commands["update-initramfs",] = host.rebuild
    assert converge(host).steps == ()
    assert host.times[IMAGE] > host.times[MODPROBE_FILE]


def test_options_that_are_no_longer_wanted_are_taken_back() -> None:
    host = Machine()
    host.files["/etc/modprobe.d/nvidia.conf"] = "blacklist nouveau\n"
    converge(host, module_options={"NVreg_A": 1})
    assert "options nvidia-current NVreg_A=1\n" in host.files[MODPROBE_FILE]
    converge(host)
    assert MODPROBE_FILE not in host.files
    assert json.loads(host.files[RECORD])["modprobe"] is False
    assert len(host.rebuilds()) == 2


def test_initramfs_is_stale_where_it_is_older_than_our_file() -> None:
    host = Machine()
    found = modules(host, (), added=False)
    assert (found.images, found.stale) == (("6.12.1",), ())
    host.write(MODPROBE_FILE, "options nvidia NVreg_A=1\n")
    assert modules(host, (), added=False).stale == ("6.12.1",)
    del host.commands["update-initramfs",]
    assert modules(host, (), added=True).images == ()


def test_loaded_options_are_read_where_the_modules_show_them() -> None:
    host = Machine()
    host.files["/proc/driver/nvidia/params"] = "DeviceFileMode: 438\n"
    host.files["/sys/module/nvidia_drm/parameters/modeset"] = "Y\n"
    found = modules(host, (("nvidia_drm.modeset", "1"), ("nvidia_drm.fbdev", "1")), added=False)
    assert found.options == {"nvidia.NVreg_DeviceFileMode": "438", "nvidia_drm.modeset": "Y"}
    host.files["/proc/cmdline"] = "modprobe.blacklist=nouveau\n"
    assert modules(host, (), added=False).blacklisted


def test_dracut_is_called_with_the_image_and_its_kernel() -> None:
    host = Machine()
    del host.commands["update-initramfs",], host.files[IMAGE]
    image = "/boot/initramfs-6.12.1.img"
    host.files[image] = ""

    def dracut(_words: tuple[str, ...]) -> Completed:
        host.times[image] = host.clock + 1
        return Completed(0, "", "")

    host.commands["dracut",] = dracut
    assert converge(host).steps == ()
    assert host.rebuilds() == [("dracut", "--force", image, "6.12.1")]


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("updates/dkms/nvidia-current.ko.xz:\n", ()),
        ("kernel/nvidia-580srv-open/nvidia.ko: kernel/drivers/i2c/i2c-core.ko\n", ()),
        ("/lib/modules/6.12.1/extra/nvidia.ko.zst:\n", ()),
        ("kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.xz:\n", ("6.12.1",)),
        ("updates/dkms/nvidia-drm.ko: updates/dkms/nvidia.ko\n", ("6.12.1",)),
        ("", ()),
    ],
)
def test_kernel_without_the_driver_is_known_by_its_list_of_modules(
    line: str, bare: tuple[str, ...]
) -> None:
    host = Machine()
    host.files["/lib/modules/6.12.1/modules.dep"] = line
    assert modules(host, (), added=False).bare == bare
    host.remove("/boot/vmlinuz-6.12.1")
    assert modules(host, (), added=False).bare == ()


def test_kernel_that_would_boot_without_the_driver_is_told_until_it_has_one() -> None:
    host = Machine()
    newer = "/lib/modules/6.12.9/modules.dep"
    host.files["/boot/vmlinuz-6.12.9"] = ""
    host.files[newer] = "kernel/fs/ext4/ext4.ko:\n"
    (warning,) = converge(host).warnings
    assert "6.12.9 has no modules of the driver" in warning
    assert "install linux-headers-6.12.9" in warning
    one = capability(host)
    state = one.observe()
    assert one.result(state, one.plan(state))["node"]["kernels_without_driver"] == ["6.12.9"]
    host.files[newer] += "updates/dkms/nvidia-current.ko:\n"
    assert converge(host).warnings == ()


def test_nouveau_that_came_from_the_initramfs_in_spite_of_a_blacklist_is_driven_out() -> None:
    host = Machine()
    host.files["/etc/modprobe.d/other.conf"] = "blacklist nouveau\n"
    host.files["/sys/module/nouveau/refcnt"] = "1"
    left = converge(host)
    assert (left.steps, left.reboot_required) == ((), ("the nouveau driver holds the GPUs",))
    assert "blacklist nouveau\n" in host.files[MODPROBE_FILE]
    assert len(host.rebuilds()) == 1
    host.remove("/sys/module/nouveau/refcnt")
    assert converge(host).reboot_required == ()
    assert len(host.rebuilds()) == 1


def test_blacklist_of_another_is_enough_where_nouveau_is_not_loaded() -> None:
    host = Machine()
    host.files["/etc/modprobe.d/other.conf"] = "blacklist nouveau\n"
    converge(host)
    assert (MODPROBE_FILE in host.files, host.rebuilds()) == (False, [])
