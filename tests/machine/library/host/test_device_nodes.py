# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Device nodes that no udev rule makes: now, at each boot, and gone with the driver."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.services.mig import UNIT as MIG_UNIT
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.device_nodes import (
    FILES,
    LINK,
    PROGRAM,
    UNIT,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.debian import DRIVER, LOADED, Debian, capability, converge

UVM = ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]


class Bare(Debian):
    """A node whose packages have no udev rules: what the program makes is there."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.commands["/bin/sh", "-c"] = self.program
        self.fails = fails

    def program(self, words: tuple[str, ...]) -> Completed:
        assert words[3] == PROGRAM
        if words[4] == "check":
            return Completed(0, "".join(f"{one}\n" for one in UVM if one not in self.files), "")
        if not self.fails:
            self.files.update(dict.fromkeys(UVM, ""))
        return Completed(int(bool(self.fails)), "", self.fails)


def made(host: Bare) -> bool:
    """Return whether the nodes are there, and will be after a boot."""
    return all(one in host.files for one in UVM) and set(FILES) < set(host.files)


def test_nodes_are_there_after_bring_up_and_at_each_boot() -> None:
    host = Bare()
    assert converge(host).steps == ()
    assert made(host)
    assert host.links[LINK].endswith(UNIT)
    assert ("systemctl", "daemon-reload") in host.ran


def test_nodes_that_vanish_come_again() -> None:
    host = Bare()
    converge(host)
    for one in UVM:
        del host.files[one]
    checked = capability(host, check_mode=True)
    (step,) = checked.plan(checked.observe()).steps
    assert step.describe()["summary"] == "make /dev/nvidia-uvm, /dev/nvidia-uvm-tools"
    assert not made(host)
    assert converge(host).steps == ()
    assert made(host)


def test_node_that_an_earlier_release_has_brought_up_gets_the_unit() -> None:
    host = Bare()
    converge(host)
    host.files[PROGRAM] = "older\n"
    one = capability(host)
    (step,) = one.plan(one.observe()).steps
    assert step.summary == f"have {UNIT} make NVIDIA's device nodes at each boot"
    assert converge(host).steps == ()
    assert host.files[PROGRAM] == FILES[PROGRAM]


def test_what_modprobe_says_is_told() -> None:
    host = Bare("modprobe: FATAL: Module nvidia-uvm not found in directory /lib/modules/6.12.1")
    with pytest.raises(NodeError, match=r"device nodes could not be made: modprobe: FATAL") as told:
        converge(host)
    assert "awk" not in str(told.value)


def test_absent_leaves_nothing_of_it() -> None:
    host = Bare()
    before = dict(host.files)
    converge(host)
    converge(host, state="absent")
    for path in ("/proc/driver", "/sys/module/nvidia", *UVM):  # gone with the boot
        host.remove(path)
    assert host.files == before
    assert LINK not in host.links
    assert ("systemctl", "stop", UNIT) in host.ran  # it would stay active until the next boot


def test_driver_of_another_gets_what_is_missing_and_nothing_else() -> None:
    host = Bare()
    host.files[DRIVER] = LOADED.format("580.95.05")
    host.files["/usr/lib64/libnvidia-ml.so.580.95.05"] = ""
    assert converge(host, source="preinstalled").steps == ()
    assert made(host)
    whole = Bare()
    whole.files.update({**host.files, **dict.fromkeys(UVM, "")})
    for path in FILES:
        del whole.files[path]
    assert converge(whole, source="preinstalled").steps == ()
    assert not made(whole)


def test_nothing_is_done_where_the_driver_is_not_to_be_loaded() -> None:
    host = Bare()
    assert converge(host, load=False).steps == ()
    assert not made(host)


def test_specification_is_written_after_the_nodes_and_follows_them() -> None:
    text = FILES[f"/etc/systemd/system/{UNIT}"]
    before = [line for line in text.splitlines() if line.startswith("Before=")]
    for unit in (
        cdi_boot.UNIT,
        MIG_UNIT,
        "gpu-settings.service",
        "kubelet.service",
        "containerd.service",
    ):
        assert any(unit in line.split("=")[1].split() for line in before), unit
    assert f"PathChanged={cdi_boot.NODES}\n" in cdi_boot.PATH_TEXT
