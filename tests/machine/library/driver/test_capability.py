# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on a small Debian: locks, old lists, refusals, interruptions and the way back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from ansible_collections.gpu.node.plugins.module_utils._host.packages.apt import (
    FOLDER,
    OWN_PREFERENCES,
    OWN_SOURCES,
)

from tests.fakes.packages.debian import VERSION, Debian, capability, converge, converged
from tests.fakes.packages.driver_nodes import recording

OLD = "535.261.03-1"


@pytest.fixture
def done() -> Debian:
    """Return a node with the driver."""
    return converged()


def test_fresh_node_gets_everything() -> None:
    host = Debian()
    left = converge(host)
    assert (left.steps, left.reboot_required) == ((), ())
    assert host.packages["nvidia-smi"] == (VERSION, "hi ")
    assert host.packages["dkms"] == ("3.2-1", "ii ")
    assert "Components: contrib non-free non-free-firmware" in host.files[OWN_SOURCES]
    assert OWN_PREFERENCES not in host.files
    one = capability(host)
    result = one.result(one.observe(), left)
    assert result["installed_version"] == result["loaded_version"] == "550.163.01"
    assert result["loaded_module_type"] == "open"
    assert "dkms" not in result["packages"]


def test_dependencies_are_kept_at_the_version_for_one_call() -> None:
    host = Debian()
    pins: list[str] = []
    apt_get = host.commands["apt-get",]

    def spy(words: tuple[str, ...]) -> Completed:
        pins.append(host.files.get(OWN_PREFERENCES, ""))
        return apt_get(words)  # type: ignore[operator]

    host.commands["apt-get",] = spy
    host.files["/etc/apt/preferences"] = "Package: vim\nPin: version 9\nPin-Priority: 1001\n"
    converge(host)
    update, preview, simulation, change = pins
    assert update == ""
    assert preview == simulation == change
    assert simulation.startswith("Package: vim\n")
    assert f"Package: src:nvidia-graphics-drivers\nPin: version {VERSION}\n" in simulation


def test_converged_node_is_only_looked_at(done: Debian) -> None:
    one = capability(done)
    assert one.plan(one.observe()).steps == ()
    assert sorted(words[0] for words in done.ran) == [
        "/bin/sh",  # which device nodes are missing
        "apt-cache",
        "dpkg-query",
        "systemctl",
    ]


def test_check_mode_changes_nothing() -> None:
    host = Debian()
    files = dict(host.files)
    one = capability(host, check_mode=True)
    actions = [step.action for step in one.plan(one.observe()).steps]
    assert actions[-2:] == ["persistence", "device_nodes"]
    assert host.files == files
    assert host.changes() == []


def test_absent_is_the_node_that_was() -> None:
    host = Debian()
    host.put_package("dkms", "3.2-1", "hi ")
    files, packages = dict(host.files), host.packages
    converge(host)
    assert host.packages != packages
    left = converge(host, state="absent")
    assert left.reboot_required == ("the driver is still loaded, though its packages are gone",)
    host.remove("/proc/driver")
    host.remove("/sys/module/nvidia")
    assert (host.files, host.packages) == (files, packages)
    host.ran.clear()
    assert converge(host, state="absent").steps == ()
    assert host.changes() == []


def test_what_others_came_to_need_stays(done: Debian) -> None:
    done.put_package("zfs-dkms", "2-1", "ii ", "Depends: dkms")
    converge(done, state="absent")
    assert set(done.packages) == {"dpkg", "dkms", "zfs-dkms"}


def test_driver_that_others_came_to_need_is_not_removed(done: Debian) -> None:
    done.put_package("pytorch", "2-1", "ii ", "Depends: libcuda1")
    with pytest.raises(NodeError, match=r"^libcuda1 cannot be removed: pytorch, which"):
        converge(done, state="absent")
    assert done.changes() == []


def test_removal_that_would_take_others_along_is_refused(done: Debian) -> None:
    one = capability(done, state="absent")
    plan = one.plan(one.observe())
    done.put_package("pytorch", "2-1", "ii ", "Depends: libcuda1")
    with pytest.raises(NodeError, match=r"would take pytorch along; nothing was removed"):
        one.apply(plan.steps[-1])
    assert {"libcuda1", "pytorch"} <= set(done.packages)


def test_removal_that_apt_cannot_resolve_says_why(done: Debian) -> None:
    done.commands["apt-get",] = Completed(100, recording("simulate-purge-trixie"), "")
    with pytest.raises(NodeError, match=r"(?s)unmet dependencies.*firmware-nvidia-gsp"):
        converge(done, state="absent")


# --- refusals before any change ---


def refused(host: Debian, words: str, **params: Any) -> None:
    """The node is refused with these words, and its packages, holds and record stay as they are."""
    packages, record = host.packages, host.files.get(RECORD)
    with pytest.raises(NodeError, match=words):
        converge(host, **params)
    assert (host.packages, host.files.get(RECORD)) == (packages, record)
    assert OWN_PREFERENCES not in host.files
    assert not [words for words in host.ran if words[:2] == ("apt-get", "-y")]


@pytest.mark.parametrize("name", ["nvidia-container-toolkit", "xserver-xorg-video-nvidia", "vim"])
def test_installation_that_would_remove_other_packages(done: Debian, name: str) -> None:
    done.put_package(name, "1-1", "ii ")
    done.conflicts = {"libcuda1": [name]}
    done.update()
    refused(done, f"would remove {name}; nothing was changed", version="535")


def test_what_belongs_to_the_other_module_type_may_go(done: Debian) -> None:
    done.put_package("nvidia-open-kernel-support", VERSION, "ii ")
    done.conflicts = {"nvidia-kernel-dkms": ["nvidia-open-kernel-support"]}
    done.update()
    assert converge(done, kernel_modules="proprietary").steps == ()
    assert "nvidia-open-kernel-support" not in done.packages
    assert "nvidia-open-kernel-dkms" not in done.packages
    assert done.packages["nvidia-kernel-dkms"] == (VERSION, "hi ")


def test_installation_that_would_change_what_the_user_holds(done: Debian) -> None:
    done.put_package("dkms", "3.0-1", "hi ")
    done.depends["nvidia-kernel-dkms"] = ["dkms (>= 3.2)"]
    done.update()
    refused(done, "while dkms is on hold; nothing was changed", kernel_modules="proprietary")


def test_installation_that_would_install_what_the_user_holds_back(done: Debian) -> None:
    done.offers["nvidia-helper"] = ["1-1"]
    done.put_package("nvidia-helper", "", "hn ")
    done.depends["libcuda1"] = ["nvidia-helper"]
    done.update()
    refused(done, "while nvidia-helper is on hold; nothing was changed", version="535")


def test_package_on_hold_by_the_user_is_named(done: Debian) -> None:
    record = json.loads(done.files[RECORD])
    record["holds"].remove("nvidia-smi")
    done.files[RECORD] = json.dumps(record)
    refused(done, "^nvidia-smi must change", version="535")


def test_damaged_record_is_refused(done: Debian) -> None:
    done.files[RECORD] = "{"
    refused(done, f"{RECORD} is damaged", version="535")


def test_secure_boot_is_read_from_the_firmware() -> None:
    host = Debian()
    host.files[SECURE_BOOT] = "\x06\0\0\0\x01"
    refused(host, "Secure Boot is on")
    host.files[SECURE_BOOT] = "\x06\0\0\0\0"
    assert converge(host).steps == ()


# --- interruptions ---


def test_killed_installation_is_finished_and_can_be_taken_back() -> None:
    host = Debian()
    host.torn = "libnvidia-cfg1"
    with pytest.raises(NodeError, match=r"(?s)dpkg exited unexpectedly.*run again, which finishes"):
        converge(host)
    assert host.packages["libnvidia-cfg1"][1] == "iHR"
    one = capability(host)
    assert [step.action for step in one.plan(one.observe()).steps] == ["repair"]
    assert converge(host).steps == ()
    converge(host, state="absent")
    assert set(host.packages) == {"dpkg"}


def test_killed_installation_can_be_taken_back_at_once() -> None:
    host = Debian()
    host.torn = "libnvidia-cfg1"
    with pytest.raises(NodeError):
        converge(host)
    converge(host, state="absent")
    assert set(host.packages) == {"dpkg"}
    assert OWN_SOURCES not in host.files


def test_journal_of_a_killed_dpkg_is_finished(done: Debian) -> None:
    done.files["/var/lib/dpkg/updates/0001"] = ""
    one = capability(done)
    assert one.plan(one.observe()).steps == ()
    other = capability(done, version="535")
    assert [step.action for step in other.plan(other.observe()).steps] == ["repair"]


def test_repair_keeps_the_users_hold(done: Debian) -> None:
    done.put_package("libcuda1", VERSION, "hHR")
    done.put_package("dkms", "3.2-1", "iU ")
    record = json.loads(done.files[RECORD])
    record["holds"].remove("libcuda1")
    done.files[RECORD] = json.dumps(record)
    assert converge(done).steps == ()
    assert done.packages["libcuda1"] == (VERSION, "hi ")
    assert done.packages["dkms"] == ("3.2-1", "ii ")
    assert "libcuda1" not in json.loads(done.files[RECORD])["holds"]


def test_package_that_cannot_be_finished_is_named(done: Debian) -> None:
    done.put_package("libcuda1", VERSION, "hF ")
    done.bad, done.only = VERSION, "libcuda1"
    with pytest.raises(
        NodeError, match=r"(?s)installed libcuda1 package post-installation script.*run again"
    ):
        converge(done)


# --- what comes after the packages ---


def test_module_that_does_not_load_says_where_to_look() -> None:
    host = Debian()
    host.commands["modprobe",] = Completed(1, "", "FATAL: Module nvidia not found")
    host.commands["dkms",] = ""
    with pytest.raises(NodeError, match=r"Module nvidia not found.*dkms status"):
        converge(host)


def test_idle_driver_is_reloaded_with_all_its_modules(done: Debian) -> None:
    done.files["/sys/module/nvidia_uvm/version"] = ""
    done.files["/proc/77/comm"] = "nvidia-persiste\n"
    done.files["/proc/77/cgroup"] = "0::/system.slice/nvidia-persistenced.service\n"
    done.links["/proc/77/fd/3"] = "/dev/nvidia0"
    left = converge(done, version="535", reload="when_idle")
    assert (left.steps, left.reboot_required) == ((), ())
    assert "535.261.03" in done.files["/proc/driver/nvidia/version"]
    after_hold = [words for words in done.ran if words[0] in ("rmmod", "modprobe", "systemctl")]
    service = "nvidia-persistenced.service"
    assert [words for words in after_hold if words[1] != "show"] == [
        ("systemctl", "is-active", service),
        ("systemctl", "stop", service),
        ("rmmod", "nvidia_uvm", "nvidia"),
        ("modprobe", "nvidia"),
        ("modprobe", "nvidia_uvm"),
        ("systemctl", "start", service),
    ]


def test_node_is_described_whatever_is_to_be_done(done: Debian) -> None:
    done.links["/proc/99/fd/3"] = "/dev/nvidia0"
    done.files["/proc/99/comm"] = "python3\n"
    done.links["/proc/98/fd/3"] = "/dev/nvidia-nvswitchctl"
    done.files["/proc/98/comm"] = "nv-fabricmanage\n"
    done.files["/proc/98/cgroup"] = "0::/system.slice/nvidia-fabricmanager.service\n"
    one = capability(done)
    state = one.observe()
    found = one.result(state, one.plan(state))["node"]
    assert found["gpu_users"] == ["99 (python3)"]
    assert found["gpus"] == {"0000:18:00.0": "hopper"}
    assert (found["firmware"], found["nouveau"]) == ([VERSION.partition("-")[0]], "absent")
    assert (found["persistence_daemon"], found["secure_boot"]) == ("active", False)
    assert "libcuda1" in found["held"]


def test_open_modules_without_their_firmware_are_told(done: Debian) -> None:
    assert converge(done).warnings == ()
    done.remove("/lib/firmware/nvidia")
    assert "no GSP firmware of version 550.163.01" in converge(done).warnings[0]


def test_driver_in_use_is_not_reloaded(done: Debian) -> None:
    done.files["/proc/99/comm"] = "python3\n"
    done.links["/proc/99/fd/3"] = "/dev/nvidiactl"
    done.links["/proc/98/fd/3"] = "/dev/null"
    left = converge(done, version="535", reload="when_idle", on_busy="proceed")
    assert "not reloaded: processes have the GPUs open: 99 (python3))" in left.reboot_required[0]
    assert not [words for words in done.ran if words[0] == "rmmod"]


def test_driver_that_the_kernel_does_not_let_go_asks_for_a_reboot(done: Debian) -> None:
    done.rmmod_error = "rmmod: ERROR: Module nvidia is in use\n"
    left = converge(done, version="535", reload="when_idle")
    assert left.steps == ()
    assert "not reloaded: rmmod: ERROR: Module nvidia is in use" in left.reboot_required[0]
    assert done.ran.count(("systemctl", "start", "nvidia-persistenced.service")) == 1


def test_service_that_was_only_enabled_is_only_disabled(done: Debian) -> None:
    done.files.pop(RECORD)
    done.enabled = False
    converge(done, hold=False)
    assert json.loads(done.files[RECORD])["service"] is True
    packages = done.packages
    converge(done, state="absent")
    assert done.packages == packages
    assert ("systemctl", "disable", "--now", "nvidia-persistenced.service") in done.ran


def test_warning_of_the_installation_outlives_it() -> None:
    host = Debian()
    host.files.pop("/lib/modules/6.12.1/build")
    assert "headers" in converge(host).warnings[0]


def test_other_systems_are_refused_without_a_command() -> None:
    host = Debian()
    host.files["/etc/os-release"] = 'ID="arch"\nPRETTY_NAME="Arch Linux"\n'
    with pytest.raises(NodeError, match="'Arch Linux' is not supported"):
        converge(host)
    assert host.ran == []


def test_sources_of_both_formats_are_read() -> None:
    host = Debian()
    host.files["/etc/apt/sources.list"] = ""
    folder = FOLDER
    stanza = "Types: deb\nURIs: http://mirror/debian\nSuites: trixie\nComponents: main\n"
    host.files[f"{folder}/debian.sources"] = stanza
    host.files[f"{folder}/more.list"] = "deb http://mirror/debian trixie-updates main\n"
    host.files[f"{folder}/gpu-node.sources"] = stanza.replace("mirror", "ours")
    host.files[f"{folder}/old.list.save"] = "deb http://old/debian trixie main\n"
    found = capability(host).observe().sources
    assert [(one.uri, one.suite) for one in found] == [
        ("http://mirror/debian", "trixie"),
        ("http://mirror/debian", "trixie-updates"),
    ]
    assert dataclasses.replace(found[0], suite="trixie-updates") == found[1]
