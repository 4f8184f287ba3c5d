# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's modules on a node: what DKMS has built, modprobe's file, the initramfs, and how they are exchanged."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import NO_SOURCES
from ansible_collections.gpu.node.plugins.module_utils._driver.machine import initramfs, kernel
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import (
    building,
    dkms,
    modules,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    MODPROBE_FILE,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.driver_runs import capability

DKMS = "/var/lib/dkms/nvidia-current-open"
LOG = f"{DKMS}/550.163.01/build/make.log"
HEAD = "DKMS (dkms-3.2.1) make.log for nvidia-current-open/550.163.01 for kernel 6.12.1 (x86_64)\n"
IMAGE, INITRAMFS = "/boot/initrd.img-6.12.1", "/boot/initramfs-6.12.1.img"
TEXT = "# Written by gpu.node.nvidia_driver.\noptions nvidia NVreg_A=1\n"
NOW = 5000.0


@pytest.fixture
def host() -> FakeHost:
    """Return a machine whose kernel has an initramfs of NOW."""
    files = dict.fromkeys(("/boot/vmlinuz-6.12.1", IMAGE, "/lib/modules/6.12.1/build"), "")
    found = FakeHost({**files, "/proc/sys/kernel/osrelease": "6.12.1\n"})
    found.commands["update-initramfs",] = ""
    found.times[IMAGE] = NOW
    return found


def failed(host: FakeHost, made: float = NOW) -> FakeHost:
    """Leave the log that DKMS leaves of a build that has failed."""
    host.files[LOG] = f"{HEAD}cc -c nv.c\nnv.c:7: error: too few arguments\n"
    host.times[LOG] = made
    return host


def apply(host: FakeHost, action: str, **params: object) -> None:
    """Have the capability carry out one step."""
    capability(host).apply(Step(action, "", params))


# --- DKMS ---


@pytest.mark.parametrize("started", [NOW, NOW + 3600])
def test_build_that_failed_meanwhile_is_the_reason_and_an_older_one_is_not(
    host: FakeHost, started: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "time", Clock(started))
    with pytest.raises(NodeError) as caught, building(failed(host)):
        raise NodeError("apt-get failed")
    if started > NOW:
        assert caught.value.message == "apt-get failed"
        return
    assert "build nvidia-current-open 550.163.01 for the kernel 6.12.1" in caught.value.message
    assert caught.value.cause.endswith("nv.c:7: error: too few arguments")
    (details,) = caught.value.details["dkms"]
    assert (details["state"], details["log"]) == ("failed", LOG)


def test_module_that_was_not_built_is_the_reason_why_it_does_not_load(host: FakeHost) -> None:
    host.commands["modprobe",] = Completed(1, "", "FATAL: Module nvidia not found")
    with pytest.raises(NodeError, match="DKMS could not build"):
        apply(failed(host), "load")
    del host.files[LOG]
    host.commands["dkms",] = ""
    with pytest.raises(NodeError, match=r"Module nvidia not found.*dkms status.*set load to false"):
        apply(host, "load")


def test_state_of_dkms_is_read_for_each_kernel(host: FakeHost) -> None:
    base = f"{DKMS}/550.163.01"
    for one in ("6.11.0", "6.10.0"):
        host.files[f"{base}/{one}/x86_64/module/nvidia-current.ko.xz"] = ""
    host.links[f"{DKMS}/kernel-6.11.0-x86_64"] = "550.163.01/6.11.0/x86_64"
    host.links[f"{base}/source"] = "/usr/src/nvidia-current-open-550.163.01"
    host.files["/usr/src/nvidia-current-open-550.163.01/dkms.conf"] = ""
    host.files["/var/lib/dkms/zfs/2.1/6.11.0/x86_64/module/zfs.ko"] = ""
    found = dkms(failed(host))
    states = {one.kernel: one.state for one in found}
    assert states == {"6.11.0": "installed", "6.10.0": "built", "6.12.1": "failed"}
    assert {one.module for one in found} == {"nvidia-current-open"}
    host.files[f"{base}/6.12.1/x86_64/module/nvidia-current.ko.xz"] = ""
    assert "failed" not in {one.state for one in dkms(host)}


def test_sources_that_are_gone_are_known_by_where_dkms_looks_for_them(host: FakeHost) -> None:
    sources = "/usr/src/nvidia-current-open-550.163.01"
    host.links[f"{DKMS}/550.163.01/source"] = sources
    host.files[f"{sources}/dkms.conf"] = ""
    assert NO_SOURCES not in {one.state for one in dkms(host)}
    host.remove(f"{sources}/dkms.conf")
    assert NO_SOURCES in {one.state for one in dkms(host)}


def test_what_keeps_the_driver_away_is_read_where_it_is_in_force(host: FakeHost) -> None:
    line = "install nvidia /bin/false"
    host.files["/usr/lib/modprobe.d/local.conf"] = f"{line}\n"
    host.files["/proc/cmdline"] = "module_blacklist=nvidia\n"
    assert modules(host, (), added=False).kept_away == {
        "/usr/lib/modprobe.d/local.conf": line,
        "/proc/cmdline": "module_blacklist=nvidia",
    }
    host.files |= {"/etc/modprobe.d/local.conf": "", "/proc/cmdline": ""}
    assert modules(host, (), added=False).kept_away == {}


# --- the list of modules, options, and the initramfs ---


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
    host: FakeHost, line: str, bare: tuple[str, ...]
) -> None:
    host.files["/lib/modules/6.12.1/modules.dep"] = line
    assert modules(host, (), added=False).bare == bare
    host.remove("/boot/vmlinuz-6.12.1")
    assert modules(host, (), added=False).bare == ()


def test_loaded_options_are_read_where_the_modules_show_them(host: FakeHost) -> None:
    host.files["/proc/driver/nvidia/params"] = "DeviceFileMode: 438\n"
    host.files["/sys/module/nvidia_drm/parameters/modeset"] = "Y\n"
    found = modules(host, (("nvidia_drm.modeset", "1"), ("nvidia_drm.fbdev", "1")), added=False)
    assert found.options == {"nvidia.NVreg_DeviceFileMode": "438", "nvidia_drm.modeset": "Y"}


def test_blacklist_of_another_is_read_from_a_file_and_from_the_command_line(host: FakeHost) -> None:
    assert not modules(host, (), added=False).blacklisted
    host.files["/proc/cmdline"] = "modprobe.blacklist=nouveau\n"
    assert modules(host, (), added=False).blacklisted
    del host.files["/proc/cmdline"]
    host.files["/etc/modprobe.d/other.conf"] = "blacklist nouveau\n"
    assert modules(host, (), added=False).blacklisted
    text = host.files.pop("/etc/modprobe.d/other.conf")
    host.files[MODPROBE_FILE] = f"# Written by gpu.node.nvidia_driver.\n{text}"
    assert not modules(host, (), added=False).blacklisted  # it is ours


def test_a_file_of_our_name_is_somebody_elses_without_our_header_or_a_record(
    host: FakeHost,
) -> None:
    host.files[MODPROBE_FILE] = "blacklist nouveau\noptions nvidia NVreg_A=1\n"
    found = modules(host, (), added=False)
    assert (found.own, found.foreign, found.blacklisted) == (None, True, True)
    assert found.stale == ()
    ours = modules(host, (), added=True)
    assert (ours.own, ours.foreign, ours.blacklisted) == (host.files[MODPROBE_FILE], False, False)


def test_initramfs_is_stale_where_it_is_older_than_our_file(host: FakeHost) -> None:
    found = modules(host, (), added=False)
    assert (found.images, found.stale) == (("6.12.1",), ())
    assert modules(host, (), added=True).stale == ("6.12.1",)  # our file is gone
    host.files[MODPROBE_FILE] = TEXT
    for made, stale in ((NOW + 10, ("6.12.1",)), (NOW + 0.5, ()), (NOW - 10, ())):
        host.times[MODPROBE_FILE] = made
        assert modules(host, (), added=False).stale == stale
    del host.commands["update-initramfs",]
    assert modules(host, (), added=True).images == ()


def test_initramfs_is_stale_where_our_file_was_put_back_with_its_times(host: FakeHost) -> None:
    host.files[MODPROBE_FILE], host.times[MODPROBE_FILE] = TEXT, NOW - 10
    host.ctimes[MODPROBE_FILE] = NOW + 10
    assert modules(host, (), added=False).stale == ("6.12.1",)


def test_initramfs_is_rebuilt_by_the_tool_that_is_there(host: FakeHost) -> None:
    initramfs.write(host, TEXT, ["6.12.1"])
    assert host.files[MODPROBE_FILE] == TEXT
    assert host.ran == [("update-initramfs", "-u", "-k", "6.12.1")]
    del host.commands["update-initramfs",], host.files[IMAGE]
    host.commands["dracut",], host.files[INITRAMFS] = "", ""
    initramfs.write(host, "", ["6.12.1"])
    assert MODPROBE_FILE not in host.files
    assert host.ran[1:] == [("dracut", "--force", f"{INITRAMFS}.gpu-node", "6.12.1")]


# As lsinitramfs and lsinitrd print them.
WITHOUT = "usr\nusr/lib/modules/6.12.1/kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.xz\netc/modprobe.d\n"
DRACUT = "-rw-r--r--   1 root     root      4242 Jan  1  1970 "


@pytest.mark.parametrize(
    ("listing", "rebuilt"),
    [
        (WITHOUT, False),
        (f"{WITHOUT}usr/lib/modules/6.12.1/updates/dkms/nvidia-current.ko.xz\n", True),
        (f"{WITHOUT}usr/lib/modules/6.12.1/kernel/drivers/gpu/drm/nouveau/nouveau.ko\n", True),
        (f"{WITHOUT}etc/modprobe.d/gpu-node.conf\n", True),
        (f"{DRACUT}usr/lib/modules/6.12.1/extra/nvidia.ko.xz\n", True),
        (
            f"{DRACUT}usr/lib/modules/6.12.1/kernel/drivers/video/fbdev/nvidia/nvidiafb.ko.xz\n",
            False,
        ),
        ("", True),
        (Completed(1, "", "cpio: premature end of archive"), True),
    ],
)
def test_initramfs_is_rebuilt_only_where_it_has_something_of_it(
    host: FakeHost, listing: str | Completed, rebuilt: bool
) -> None:
    host.commands["lsinitramfs",] = listing
    found = initramfs.looked_into(host, modules(host, (), added=False), changes=True)
    assert (found.images, found.spared) == ((("6.12.1",), ()) if rebuilt else ((), ("6.12.1",)))
    assert host.ran == [("lsinitramfs", IMAGE)]


def test_no_initramfs_is_looked_into_where_nothing_is_to_change(host: FakeHost) -> None:
    host.files[MODPROBE_FILE], host.times[MODPROBE_FILE] = TEXT, NOW - 10
    found = modules(host, (), added=True)
    assert initramfs.looked_into(host, found, changes=False) == found
    assert host.ran == []


def test_initramfs_that_needs_no_rebuild_is_not_looked_into_again_until_it_is_made_anew(
    host: FakeHost,
) -> None:
    host.commands["lsinitramfs",] = WITHOUT
    apply(host, "modprobe", text=TEXT, kernels=(), spared=("6.12.1",))
    record = Record.load(host.files[RECORD], RECORD)
    host.times[MODPROBE_FILE] = NOW + 100
    assert modules(host, (), added=True, spared=record.initramfs).stale == ()
    host.times[IMAGE] = NOW + 50  # such as by an upgrade that was before our file
    assert modules(host, (), added=True, spared=record.initramfs).stale == ("6.12.1",)
    apply(host, "modprobe", text="", kernels=())
    assert RECORD not in host.files


def test_initramfs_that_has_got_the_driver_since_the_look_is_rebuilt(host: FakeHost) -> None:
    host.commands["lsinitramfs",] = "usr/lib/modules/6.12.1/updates/dkms/nvidia.ko\n"
    assert initramfs.write(host, TEXT, (), ("6.12.1",)) == frozenset()
    assert host.ran[-1] == ("update-initramfs", "-u", "-k", "6.12.1")


@pytest.mark.parametrize("rc", [0, 1])
def test_a_rebuild_by_dracut_that_fails_leaves_the_initramfs_of_before(
    host: FakeHost, rc: int
) -> None:
    """dracut itself removes a file that it could not write, and the kernel boots no more."""

    def dracut(words: tuple[str, ...]) -> Completed:
        host.files[words[2]] = "new"
        return Completed(rc, "", "No space left on device")

    del host.commands["update-initramfs",], host.files[IMAGE]
    host.commands["dracut",], host.files[INITRAMFS] = dracut, "old"
    if rc:
        with pytest.raises(NodeError, match=r"No space left on device.*free space in /boot"):
            initramfs.write(host, TEXT, ["6.12.1"])
    else:
        initramfs.write(host, TEXT, ["6.12.1"])
    assert host.files[INITRAMFS] == ("old" if rc else "new")
    assert f"{INITRAMFS}.gpu-node" not in host.files


def test_rebuild_that_failed_is_written_down_and_says_what_helps(host: FakeHost) -> None:
    host.commands["update-initramfs",] = Completed(1, "", "No space left on device")
    with pytest.raises(NodeError, match=r"No space left on device.*free space in /boot"):
        apply(host, "modprobe", text=TEXT, kernels=["6.12.1"])
    assert Record.load(host.files[RECORD], RECORD).modprobe
    host.commands["update-initramfs",] = ""
    apply(host, "modprobe", text="", kernels=["6.12.1"])
    assert RECORD not in host.files


# --- loading ---

SERVICE = "nvidia-persistenced.service"


def loaded(host: FakeHost, rmmod: Completed) -> FakeHost:
    """Have the machine run the driver with its modules, and answer rmmod."""
    host.files |= {f"/sys/module/{one}/version": "" for one in ("nvidia", "nvidia_uvm")}
    quiet = dict.fromkeys((("modprobe",), ("systemctl", "stop"), ("systemctl", "start")), "")
    host.commands |= {**quiet, ("rmmod",): rmmod, ("systemctl", "is-active"): "active\n"}
    return host


def test_driver_is_reloaded_with_all_its_modules(host: FakeHost) -> None:
    apply(loaded(host, Completed(0, "", "")), "reload")
    changes = [argv for argv in host.ran if argv[0] != "/bin/sh" and argv[1] != "show"]
    assert changes == [
        ("systemctl", "is-active", SERVICE),
        ("systemctl", "stop", SERVICE),
        ("rmmod", "nvidia_uvm", "nvidia"),
        ("modprobe", "nvidia"),
        ("modprobe", "nvidia_uvm"),
        ("systemctl", "start", SERVICE),
    ]


def test_driver_that_the_kernel_does_not_let_go_is_told_and_its_service_runs_again(
    host: FakeHost,
) -> None:
    one = capability(loaded(host, Completed(1, "", "rmmod: ERROR: Module nvidia is in use\n")))
    one.apply(Step("reload", "", {}))
    assert one._node.reload_note == "rmmod: ERROR: Module nvidia is in use"
    assert host.ran.count(("systemctl", "start", SERVICE)) == 1
    host.commands["modprobe",] = Completed(1, "", "no such module")
    with pytest.raises(NodeError, match="no such module"):
        one.apply(Step("reload", "", {}))
    assert host.ran.count(("systemctl", "start", SERVICE)) == 2


def test_service_that_was_enabled_is_written_down_and_disabled_again(host: FakeHost) -> None:
    host.commands["systemctl",] = ""
    apply(host, "persistence", start=True, was_enabled=True)
    assert RECORD not in host.files
    apply(host, "persistence", start=True, was_enabled=False)
    assert Record.load(host.files[RECORD], RECORD).service
    gone = {"packages": (), "back": {}, "kernels": (), "stays": False, "fabric": False}
    apply(host, "remove", service=True, **gone)
    assert [argv[1:] for argv in host.ran if argv[1] != "show"] == [
        ("start", SERVICE),
        ("enable", "--now", SERVICE),
        ("disable", "--now", SERVICE),
    ]
    assert RECORD not in host.files


def test_options_that_something_else_sets_and_that_is_read_later_are_named(host: FakeHost) -> None:
    options = (("nvidia.NVreg_A", "1"), ("nvidia.NVreg_B", "2"), ("nvidia_drm.modeset", "1"))

    def overruled() -> dict[str, str]:
        found = modules(host, options, added=False).overruled
        return {one: f"{place} sets {value}" for one, (value, place) in found.items()}

    folder = "/etc/modprobe.d"
    host.files[f"{folder}/a-first.conf"] = "options nvidia NVreg_A=7\n"  # ours is read after it
    host.files[f"{folder}/zz.conf"] = "options nvidia NVreg_A=0x1 NVreg_C=9\noptions snd x=1\n"
    assert overruled() == {}
    host.files[f"{folder}/zz.conf"] = "options nvidia \\\n  NVreg_A=7\n"
    host.files["/usr/local/lib/modprobe.d/nvidia-x.conf"] = "options nvidia-current-drm modeset=0\n"
    host.files["/proc/cmdline"] = "quiet nvidia_current.NVreg_B=3 root=UUID=1.2\n"
    assert overruled() == {
        "nvidia_drm.modeset": "/usr/local/lib/modprobe.d/nvidia-x.conf sets 0",
        "nvidia.NVreg_A": f"{folder}/zz.conf sets 7",
        "nvidia.NVreg_B": "the kernel's command line sets 3",
    }
    host.files[f"{folder}/nvidia-x.conf"] = ""  # takes the place of the other one
    assert [*overruled()] == ["nvidia.NVreg_A", "nvidia.NVreg_B"]


def test_module_on_the_disk_is_asked_for_options_that_are_not_known_here(host: FakeHost) -> None:
    known = (("nvidia.NVreg_EnableMSI", "1"),)
    assert modules(host, known, added=False).itself == {}
    assert host.ran == []
    said = "version:        595.99.01\nparm:           NVreg_New:int\nparm:           NVreg_Too:charp\n"
    host.commands["modinfo", "nvidia"] = Completed(
        1, "", "modinfo: ERROR: Module nvidia not found."
    )
    host.commands["modinfo", "nvidia-current"] = said
    new = (("nvidia.NVreg_New", "1"), ("nvidia.NVreg_Typo", "1"))
    assert modules(host, new, added=False).itself == {"nvidia.NVreg_New": "595.99.01"}
    host.files["/proc/driver/nvidia/params"] = "New: 1\nTypo: 2\n"
    host.ran.clear()
    assert modules(host, new, added=False).itself == {name: "" for name, _value in new}
    assert host.ran == []
