# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVSwitches and the fabric manager; drivers that are only checked."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._capability.nodeinfo import bridges
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.debian import DRIVER, GPU, LOADED, Debian, capability, converge

SWITCH = "/sys/bus/pci/devices/0000:05:00.0"
UNIT = "nvidia-fabricmanager.service"
BRIDGE = "/sys/bus/pci/devices/0000:e1:00.0"
MARK = "\x82\x0bConnectX-7\x90SMDL=SW_MNG"
FABRIC = "nvidia-fabricmanager-580"
SET = ("libnvidia-cfg1", "libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
SET += ("nvidia-kernel-common", "nvidia-dkms")


class Switched(Debian):
    """An Ubuntu node whose GPUs are joined by NVSwitches, with services that remember."""

    codename, components = "jammy", ("main", "restricted", "multiverse")
    component = "restricted"

    def __init__(self) -> None:
        super().__init__()
        release = 'ID=ubuntu\nVERSION_CODENAME=jammy\nPRETTY_NAME="Ubuntu 22.04"\n'
        self.files["/etc/os-release"] = release
        self.files["/etc/apt/sources.list"] = "deb http://mirror/ubuntu jammy main\n"
        self.files |= {
            f"{SWITCH}/vendor": "0x10de\n",
            f"{SWITCH}/device": "0x22a3\n",
            f"{SWITCH}/class": "0x068000\n",
        }
        versions = ["580.95.05-0ubuntu1", "580.82.07-0ubuntu1"]
        self.offers = {f"{name}-580-server": versions for name in SET}
        self.offers["nvidia-dkms-580-server-open"] = versions
        self.offers[FABRIC] = ["580.105.08-1", "580.82.07-1"]
        self.depends = {}
        self.units: set[str] = set()
        self.commands["modprobe",] = self.modprobe

    def modprobe(self, _words: tuple[str, ...]) -> Completed:
        self.files[DRIVER] = LOADED.format("580.82.07")
        self.files["/lib/firmware/nvidia/580.82.07/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")

    def _show(self, words: tuple[str, ...]) -> Completed:
        on = words[2] in self.units
        text = "ActiveState=active\nUnitFileState=enabled\n" if on else "ActiveState=inactive\n"
        return Completed(0, text, "")

    def _enable(self, words: tuple[str, ...]) -> Completed:
        (self.units.add if words[1] == "enable" else self.units.discard)(words[-1])
        return Completed(0, "", "")


def test_fabric_manager_and_driver_get_one_version_and_both_run() -> None:
    host = Switched()
    left = converge(host)
    assert (left.steps, left.warnings) == ((), ())
    assert host.packages[FABRIC] == ("580.82.07-1", "hi ")
    assert host.packages["nvidia-utils-580-server"] == ("580.82.07-0ubuntu1", "hi ")
    assert UNIT in host.units
    assert json.loads(host.files[RECORD])["fabric"] is True
    converge(host, state="absent")
    assert set(host.packages) == {"dpkg"}


def test_pin_of_the_driver_is_not_the_fabric_managers_version() -> None:
    host = Switched()
    pins: list[str] = []
    genuine = host.commands["apt-get",]

    def spy(words: tuple[str, ...]) -> Completed:
        pins.append(host.files.get("/var/lib/gpu-node/apt-preferences", ""))
        return genuine(words)  # type: ignore[operator]

    host.commands["apt-get",] = spy
    converge(host)
    assert "src:nvidia-graphics-drivers-580-server\nPin: version 580.82.07-0ubuntu1\n" in pins[-1]
    assert "580.82.07-1" not in pins[-1]


def test_service_that_was_only_enabled_is_only_disabled() -> None:
    host = Switched()
    converge(host)
    host.units.discard(UNIT)
    host.files.pop(RECORD)
    converge(host, hold=False)
    packages = host.packages
    converge(host, state="absent")
    assert (UNIT in host.units, host.packages) == (False, packages)


def test_fabric_manager_that_does_not_start_says_where_to_look() -> None:
    host = Switched()
    host.commands["systemctl", "enable", "--now", UNIT] = Completed(1, "", "failed")
    with pytest.raises(NodeError, match=rf"journalctl -u {UNIT}', it must be of exactly"):
        converge(host)


def test_node_without_switches_gets_no_fabric_manager() -> None:
    host = Switched()
    host.remove(SWITCH)
    converge(host)
    assert FABRIC not in host.packages
    assert host.packages["nvidia-utils-580-server"][0] == "580.95.05-0ubuntu1"
    assert not [words for words in host.ran if UNIT in words]


def test_no_fabric_manager_for_debian_is_a_warning() -> None:
    host = Debian()
    host.files |= {f"{SWITCH}/vendor": "0x10de\n", f"{SWITCH}/class": "0x068000\n"}
    left = converge(host)
    assert left.steps == ()
    assert "no fabric manager for Debian is known" in left.warnings[0]


def test_fabric_manager_of_a_repository_that_has_one_is_taken() -> None:
    host = Debian()
    host.files |= {f"{SWITCH}/vendor": "0x10de\n", f"{SWITCH}/class": "0x068000\n"}
    host.offers["nvidia-fabricmanager"] = [host.offers["libcuda1"][0]]
    left = converge(host)
    assert (left.steps, left.warnings) == ((), ())
    assert "nvidia-fabricmanager" in host.packages


def test_preinstalled_driver_is_only_looked_at() -> None:
    host = Debian()
    host.files["/etc/os-release"] = "ID=nixos\n"
    host.files[DRIVER] = LOADED.format("580.95.05")
    host.files["/usr/lib64/libnvidia-ml.so.580.95.05"] = ""
    host.links["/usr/lib64/libnvidia-ml.so.1"] = "libnvidia-ml.so.580.95.05"
    left = converge(host, source="preinstalled", version="580")
    assert (left.steps, left.reboot_required) == ((), ())
    one = capability(host, source="preinstalled")
    assert one.result(one.observe(), left)["loaded_version"] == "580.95.05"
    assert {words[-1] for words in host.ran} == {"check"}  # which device nodes are missing


class Bridged(Switched):
    """A node with a B200, whose switches only a ConnectX-7 tells of."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("vendor", "device", "class"):
            del self.files[f"{SWITCH}/{name}"]
        self.files[f"{GPU}/device"] = "0x2901\n"
        self.files |= {
            f"{BRIDGE}/vendor": "0x15b3\n",
            f"{BRIDGE}/device": "0x1021\n",
            f"{BRIDGE}/vpd": MARK,
        }
        self.offers["nvlsm"] = ["2025.10.11-1"]


def test_fabric_manager_comes_with_its_subnet_manager_in_a_version_of_its_own() -> None:
    host = Bridged()
    left = converge(host)
    assert (left.steps, left.warnings) == ((), ())
    assert host.packages["nvlsm"] == ("2025.10.11-1", "hi ")
    assert host.packages[FABRIC][0] == "580.82.07-1"
    assert UNIT in host.units
    one = capability(host)
    state = one.observe()
    assert one.result(state, one.plan(state))["node"]["nvswitch"] is True
    converge(host, state="absent")
    assert not {"nvlsm", FABRIC} & set(host.packages)


def test_missing_subnet_manager_is_told() -> None:
    host = Bridged()
    del host.offers["nvlsm"]
    (warning,) = converge(host).warnings
    assert "offer no nvlsm" in warning


def test_ordinary_connectx_is_no_bridge() -> None:
    host = Bridged()
    assert bridges(host) == ["0000:e1:00.0"]
    host.files[f"{BRIDGE}/vpd"] = "\x82\x0bConnectX-7\x90"
    assert bridges(host) == []
    converge(host)
    assert not {"nvlsm", FABRIC} & set(host.packages)


def test_product_data_that_cannot_be_read_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_host: FakeHost, path: str) -> bytes:
        raise NodeError(f"cannot read {path}", cause="Input/output error")

    monkeypatch.setattr(FakeHost, "read_bytes", fails)
    assert bridges(Bridged()) == []
