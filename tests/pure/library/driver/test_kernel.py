# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The modules' options, nouveau, the headers, and the logs of DKMS."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import DriverState
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import (
    HEADER,
    NO_SOURCES,
    NOUVEAU,
    Dkms,
    Modules,
    blacklists,
    blacklists_on_command_line,
    failed_kernel,
    keeps_away,
    keeps_away_on_command_line,
    render,
    tail,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.declared import parse
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record

from tests.fakes.packages.driver_nodes import (
    DEBIAN,
    DESIRED,
    KERNEL,
    OFFERED,
    converged,
    node,
    plan_of,
    with_options,
    with_removal,
)

FOUND = Modules(nouveau=True, images=("6.12.1", "6.12.9"))
OPTION = (("nvidia.NVreg_EnableGpuFirmware", "0"),)


def planned(observed: DriverState, **desired: Any) -> Plan:
    return plan_of(observed, with_options(DESIRED, **desired))


def test_file_has_both_names_that_debian_gives_the_modules() -> None:
    options = parse({"NVreg_A": 1, "nvidia_drm.modeset": 1})
    assert render(options, nouveau=False, current=True).split("\n")[1:] == [
        "options nvidia NVreg_A=1",
        "options nvidia-current NVreg_A=1",
        "options nvidia_drm modeset=1",
        "options nvidia-current-drm modeset=1",
        "",
    ]
    assert "current" not in render(options, nouveau=True, current=False)
    assert render((), nouveau=True, current=True) == HEADER + NOUVEAU
    assert render((), nouveau=False, current=True) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("blacklist  nouveau\n", True),
        ("install nouveau /bin/false", True),
        ("#blacklist nouveau\nblacklist nouveaux\noptions nouveau modeset=0", False),
    ],
)
def test_blacklist_is_read(text: str, found: bool) -> None:
    assert blacklists(text) is found
    assert blacklists(NOUVEAU)


def test_blacklist_on_the_kernels_command_line() -> None:
    assert blacklists_on_command_line("quiet modprobe.blacklist=i2c,nouveau ro\n")
    assert blacklists_on_command_line('quiet "modprobe.blacklist=nouveau" ro')
    assert not blacklists_on_command_line("quiet modprobe.blacklist=i2c nouveau.modeset=1")


@pytest.mark.parametrize(
    "head",
    [
        "DKMS make.log for nvidia-current-550.163.01 for kernel 6.1.0-13-amd64 (x86_64)\n",
        "DKMS (dkms-3.2.1) make.log for nvidia/580.95.05 for kernel 6.1.0-13-amd64 (x86_64)\n",
    ],
)
def test_log_of_dkms_tells_its_kernel(head: str) -> None:
    assert failed_kernel(f"{head}Wed 12 Feb\n") == "6.1.0-13-amd64"
    assert failed_kernel(f"\n{head}") == ""


def test_end_of_a_log_is_short_and_has_no_empty_lines() -> None:
    found = tail("".join(f"line {number}\n\n" for number in range(100))).split("\n")
    assert (len(found), found[-1]) == (20, "line 99")


def test_end_of_a_log_begins_with_the_first_error_and_has_no_long_lines() -> None:
    lines = [
        "a.c:3:1: error: no such thing",
        *["gcc " + "-Wall " * 90] * 30,
        "b.c:1:1: error: next",
    ]
    found = tail("\n".join(lines)).split("\n")
    assert found[:2] == ["a.c:3:1: error: no such thing", "..."]
    assert found[-1] == "b.c:1:1: error: next"
    assert max(map(len, found)) < 310
    assert tail("x.c:1: error: one").split("\n") == ["x.c:1: error: one"]


# --- in the plan ---


def test_nouveau_is_kept_away_before_the_driver_is_loaded() -> None:
    found = planned(node(modules=FOUND))
    actions = [step.action for step in found.steps]
    assert actions == ["install", "hold", "modprobe", "load", "persistence"]
    step = found.steps[2]
    assert step.params == {"text": HEADER + NOUVEAU, "kernels": FOUND.images}
    assert step.summary == (
        "blacklist nouveau in /etc/modprobe.d/gpu-node.conf; "
        "rebuild the initramfs of 6.12.1, 6.12.9"
    )
    assert found.after["modprobe"] == HEADER + NOUVEAU


@pytest.mark.parametrize(
    "changes",
    [
        {"modules": dataclasses.replace(FOUND, blacklisted=True)},
        {"modules": dataclasses.replace(FOUND, nouveau=False)},
        {"modules": FOUND, "gpus": ()},
    ],
)
def test_nouveau_that_nothing_loads_is_left_alone(changes: dict[str, Any]) -> None:
    assert planned(converged(**changes)).steps == ()


def test_nouveau_that_came_in_spite_of_a_blacklist_is_kept_away_by_ours_too() -> None:
    """It came from the initramfs, which is older than the blacklist of another."""
    blacklisted = dataclasses.replace(FOUND, blacklisted=True)
    found = planned(converged(modules=blacklisted, driver=None, nouveau=True))
    (step,) = found.steps
    assert step.params == {"text": HEADER + NOUVEAU, "kernels": FOUND.images}
    assert found.reboot_required == ("the nouveau driver holds the GPUs",)


def test_blacklist_of_ours_stays_when_the_packages_bring_theirs() -> None:
    ours = dataclasses.replace(FOUND, own=HEADER + NOUVEAU, blacklisted=True)
    assert planned(converged(modules=ours)).steps == ()


def test_interrupted_rebuild_is_done_again() -> None:
    (step,) = planned(
        converged(modules=dataclasses.replace(FOUND, own=HEADER + NOUVEAU, stale=("6.12.9",)))
    ).steps
    assert step.summary == "rebuild the initramfs of 6.12.9"
    assert step.params["kernels"] == ("6.12.9",)


def test_options_are_written_and_taken_back() -> None:
    (step,) = planned(converged(), module_options=OPTION).steps
    assert "options nvidia NVreg_EnableGpuFirmware=0\n" in step.params["text"]
    record = dataclasses.replace(converged().history.record, modprobe=True)
    there = converged(modules=Modules(own=step.params["text"]), record=record)
    assert planned(there, module_options=OPTION).steps == ()
    (back,) = planned(there).steps
    assert back.params["text"] == ""
    assert back.summary.startswith("remove the modules' options in")
    (forget,) = planned(converged(record=record)).steps
    assert forget.summary == "forget the modprobe file"


def test_loaded_modules_with_other_options_are_exchanged_or_told() -> None:
    text = render(OPTION, nouveau=False, current=True)
    loaded = {"nvidia.NVreg_EnableGpuFirmware": "18"}
    observed = converged(modules=Modules(own=text, options=loaded))
    words = "loaded with other options: NVreg_EnableGpuFirmware is 18, not 0"
    assert words in planned(observed, module_options=OPTION).reboot_required[0]
    (step,) = planned(observed, module_options=OPTION, reload="when_idle").steps
    assert step.action == "reload"
    assert words in step.summary


UNSEEN = (("nvidia.NVreg_EnableNonblockingOpen", "0"),)


def since_load(
    options: tuple[tuple[str, str], ...], written: Record, **shown: str
) -> tuple[str, ...]:
    """Return why a node is to be rebooted whose driver was loaded before our file is written."""
    have = Modules(
        own=render(options, nouveau=False, current=True), present=("nvidia",), options=shown
    )
    observed = converged(modules=have, load="boot/7", record=written)
    return planned(observed, module_options=options).reboot_required


def test_options_that_the_loaded_modules_do_not_show_are_remembered_until_the_next_load() -> None:
    record = converged().history.record
    fresh = converged(modules=Modules(present=("nvidia",)), load="boot/7")
    found = planned(fresh, module_options=UNSEEN)
    words = "the modules were loaded with other options: NVreg_EnableNonblockingOpen must be 0"
    assert found.reboot_required == (words,)
    assert found.steps[0].params["pending"] == ("boot/7 nvidia.NVreg_EnableNonblockingOpen=",)
    pending = frozenset(found.steps[0].params["pending"])
    options = frozenset(["nvidia.NVreg_EnableNonblockingOpen=0"])
    there = dataclasses.replace(record, modprobe=True, options=options, pending=pending)
    assert since_load(UNSEEN, there) == (words,)
    loaded = dataclasses.replace(
        there, pending=frozenset(["boot/6 nvidia.NVreg_EnableNonblockingOpen="])
    )
    assert since_load(UNSEEN, loaded) == ()
    assert planned(converged(), module_options=UNSEEN).reboot_required == ()  # nothing is loaded


def test_an_option_that_nothing_sets_any_more_is_in_force_until_the_next_load() -> None:
    name = "nvidia.NVreg_RestrictProfilingToAdminUsers"
    there = dataclasses.replace(
        converged().history.record, modprobe=True, options=frozenset([f"{name}=0"])
    )
    (words,) = since_load((), there, **{name: "0"})
    assert words.endswith(
        "NVreg_RestrictProfilingToAdminUsers is still 0, which nothing sets any more"
    )
    assert since_load((), there, **{name: "1"}) == ()


def test_a_file_of_ours_that_somebody_has_removed_or_edited_asks_for_no_load() -> None:
    """The modules were loaded with what the file had before."""
    options = frozenset(["nvidia.NVreg_EnableNonblockingOpen=0"])
    record = dataclasses.replace(converged().history.record, modprobe=True, options=options)
    for own in (None, "options nvidia NVreg_EnableNonblockingOpen=1\n"):
        have = Modules(own=own, present=("nvidia",))
        found = planned(converged(modules=have, load="b/1", record=record), module_options=UNSEEN)
        assert [step.action for step in found.steps] == ["modprobe"]
        assert found.reboot_required == ()


def test_kernel_that_would_boot_without_the_driver_is_told_with_the_headers_that_help() -> None:
    bare = Modules(kernels=("6.12.1", "6.12.9"), bare=("6.12.9",))
    (words,) = planned(converged(modules=bare)).warnings
    assert words.startswith("the kernel 6.12.9 has no modules of the driver")
    assert "Next step: install linux-headers-6.12.9, or remove that kernel" in words


def test_failed_build_is_a_warning_of_every_later_run() -> None:
    failed = Dkms("nvidia-current", "550.163.01", "6.12.9", "failed", "/log")
    built = Dkms("nvidia-current", "550.163.01", "6.12.1", "installed")
    (words,) = planned(converged(dkms=(failed, built))).warnings
    assert words == (
        "DKMS could not build nvidia-current 550.163.01 for the kernel 6.12.9: see /log"
    )
    assert "log" not in built.describe()


def test_what_the_next_boot_and_the_next_kernel_would_lack_is_told() -> None:
    gone = Dkms("nvidia-current", "550.163.01", "", NO_SOURCES)
    away = Modules(kept_away={"/etc/modprobe.d/local.conf": "install nvidia /bin/false"})
    assert planned(converged(dkms=(gone,), modules=away)).warnings == (
        "DKMS has no sources of nvidia-current 550.163.01 any more: no kernel that comes gets the driver. Next step: "
        "reinstall the package that they are of",
        "/etc/modprobe.d/local.conf keeps the driver from being loaded (install nvidia /bin/false): after a boot no "
        "GPU works. Next step: take that out",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("install nvidia /bin/false\n", "install nvidia /bin/false"),
        (
            "# no GPUs\n install nvidia-uvm  /usr/bin/true # here\n",
            "install nvidia-uvm  /usr/bin/true",
        ),
        ("install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n", ""),
        ("install nouveau /bin/false\nblacklist nvidia\n", ""),  # by its name it is loaded
        ("# install nvidia /bin/false\n", ""),
    ],
)
def test_a_modprobe_file_keeps_the_driver_from_being_loaded(text: str, line: str) -> None:
    assert keeps_away(text) == line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quiet module_blacklist=nouveau,nvidia splash\n", "module_blacklist=nouveau,nvidia"),
        ("module_blacklist=nouveau module_blacklist=nvidia_uvm", "module_blacklist=nvidia_uvm"),
        ("modprobe.blacklist=nvidia module_blacklist=nouveau", ""),
        ('ro "module_blacklist=nvidia" quiet', '"module_blacklist=nvidia"'),
        ("module-blacklist=nvidia", "module-blacklist=nvidia"),
    ],
)
def test_the_command_line_keeps_the_driver_from_being_loaded(text: str, words: str) -> None:
    assert keeps_away_on_command_line(text) == words


def test_absent_takes_the_modprobe_file_back() -> None:
    observed = converged(modules=FOUND, record=Record(modprobe=True))
    found = planned(with_removal(observed), state="absent")
    (step,) = found.steps
    assert step.params["kernels"] == FOUND.images
    assert step.summary.endswith("and the modprobe file")
    assert found.after["modprobe"] == ""


# --- headers ---


@pytest.mark.parametrize("first", [False, True])
def test_kernel_modules_and_headers_are_named_before_the_rest(first: bool) -> None:
    name = DEBIAN.headers.package_for("6.12.1")
    names = dataclasses.replace(DEBIAN, headers=dataclasses.replace(DEBIAN.headers, first=first))
    offered = {**OFFERED, name: Policy("6.12.1-1", ("6.12.1-1",))}
    found = planned(node(headers=False, policies=offered, names=names))
    summaries = [step.summary for step in found.steps if step.action == "install"]
    named = [re.findall(r"([\w.-]+) \(", one)[:2] for one in summaries]
    modules = KERNEL["open"]
    assert named == ([[name], [modules, "firmware-nvidia-gsp"]] if first else [[modules, name]])


@pytest.mark.parametrize("state", ["masked", "masked-runtime"])
def test_a_masked_persistence_daemon_is_refused_unless_it_is_not_wanted(state: str) -> None:
    masked = converged(service={"UnitFileState": state, "ActiveState": "inactive"})
    words = r"systemctl unmask nvidia-persistenced\.service, then run again; or set persistence to false"
    with pytest.raises(NodeError, match=words):
        planned(masked)
    assert planned(masked, persistence=False).steps == ()
