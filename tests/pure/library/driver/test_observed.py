# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the module reads of a machine and refuses at once, before a package manager is asked."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._node.machine.facts import (
    bridges,
    library_versions,
)

from tests.fakes.library.fakes import DRIVER, GPU, LOADED, FakeHost
from tests.fakes.packages.driver_runs import capability, converge, reported

BRIDGE = "/sys/bus/pci/devices/0000:e1:00.0"
MARK = "\x82\x0bConnectX-7\x90SMDL=SW_MNG"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"lock_timeout": -1}, "lock_timeout: -1"),
        ({"wait_timeout": -1}, "wait_timeout: -1"),
        ({"releases": {"branches": {}}}, r"releases\.as_of: None is not valid"),
    ],
)
def test_parameters_are_judged_before_anything_is_looked_at(
    params: dict[str, Any], words: str
) -> None:
    host = FakeHost()
    with pytest.raises(InputError, match=words):
        capability(host, **params)
    assert host.ran == []


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ('ID="arch"\nPRETTY_NAME="Arch Linux"\n', "'Arch Linux' is not supported"),
        (
            "ID=ubuntu\nVERSION_CODENAME=oracular\n",
            r"Ubuntu 22\.04 \(jammy\), Ubuntu 24\.04 \(noble\)",
        ),
        ('ID="rocky"\nVERSION_ID="7.9"\n', "RHEL family 8, RHEL family 9"),
        ('ID="opensuse-leap"\nVERSION_ID="12.5"\n', "RHEL family 8, RHEL family 9"),
    ],
)
def test_system_that_is_not_supported_is_refused_with_nothing_run_but_what_reads(
    release: str, words: str
) -> None:
    host = FakeHost({"/etc/os-release": release})
    with pytest.raises(NodeError, match=words):
        converge(host)
    assert host.ran == [("ldconfig", "-p")]


def test_damaged_record_is_refused() -> None:
    host = FakeHost({"/etc/os-release": "ID=debian\nVERSION_CODENAME=trixie\n", RECORD: "{"})
    for state in ("present", "absent"):
        with pytest.raises(NodeError, match=f"{RECORD} is damaged"):
            converge(host, state=state)
    assert host.ran == []


def with_driver() -> FakeHost:
    """Return a machine of an unknown system with an H100 and the driver."""
    host = FakeHost({"/etc/os-release": "ID=nixos\n", DRIVER: LOADED.format("580.95.05")})
    for name, value in (("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n")):
        host.files[f"{GPU}/{name}"] = value
    host.files["/usr/lib64/libnvidia-ml.so.580.95.05"] = ""
    host.links["/usr/lib64/libnvidia-ml.so.1"] = "libnvidia-ml.so.580.95.05"
    return host


def test_preinstalled_driver_is_only_looked_at() -> None:
    host = with_driver()
    left = converge(host, source="preinstalled", version="580")
    assert (left.steps, left.reboot_required) == ((), ())
    # Which device nodes are missing, and which libraries the linker finds.
    assert {words[-1] for words in host.ran} == {"check", "-p"}
    assert reported(host, source="preinstalled")["loaded_version"] == "580.95.05"


def test_library_is_found_in_a_folder_that_only_the_linkers_cache_names() -> None:
    """As images of clouds have it: the driver in /usr/local/nvidia, which is in /etc/ld.so.conf.d."""
    host = with_driver()
    for known in (host.files, host.links):
        for path in [one for one in known if one.startswith("/usr/lib64/")]:
            known[path.replace("/usr/lib64", "/usr/local/nvidia/lib64")] = known.pop(path)
    with pytest.raises(NodeError, match=r"libnvidia-ml\.so is not on the node"):
        converge(host, source="preinstalled")
    host.commands["ldconfig", "-p"] = (
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/local/nvidia/lib64/libnvidia-ml.so.1\n"
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/libnvidia-ml.so.1\n"
        "\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6\n"
    )
    assert converge(host, source="preinstalled").steps == ()
    assert library_versions(host) == ("580.95.05",)


def test_library_that_the_cache_still_names_and_nobody_has_is_none() -> None:
    host = with_driver()
    del host.files["/usr/lib64/libnvidia-ml.so.580.95.05"]
    host.commands["ldconfig", "-p"] = (
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib64/libnvidia-ml.so.1\n"
    )
    assert library_versions(host) == ()


def test_node_is_described_with_those_who_use_its_gpus_but_for_the_drivers_own_services() -> None:
    host = with_driver()
    host.files["/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin"] = ""
    for process, name, file in (
        ("99", "python3", "nvidia0"),
        ("98", "nv-fabric", "nvidia-nvswitchctl"),
    ):
        host.files[f"/proc/{process}/comm"] = f"{name}\n"
        host.links[f"/proc/{process}/fd/3"] = f"/dev/{file}"
    host.files["/proc/98/cgroup"] = "0::/system.slice/nvidia-fabricmanager.service\n"
    found = reported(host, source="preinstalled")["node"]
    assert found["gpu_users"] == ["99 (python3)"]
    assert found["gpus"] == {"0000:18:00.0": "hopper"}
    assert (found["firmware"], found["nouveau"]) == (["580.95.05"], "absent")
    assert (found["secure_boot"], found["kernels_without_driver"]) == (False, [])


def test_bridge_to_the_switches_of_blackwell_is_a_connectx_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = FakeHost({f"{BRIDGE}/vendor": "0x15b3\n", f"{BRIDGE}/device": "0x1021\n"})
    host.files[f"{BRIDGE}/vpd"] = MARK
    assert bridges(host) == ["0000:e1:00.0"]
    host.files[f"{BRIDGE}/vpd"] = MARK.partition("SMDL")[0]
    assert bridges(host) == []

    def fails(_host: FakeHost, path: str) -> bytes:
        raise NodeError(f"cannot read {path}", cause="Input/output error")

    monkeypatch.setattr(FakeHost, "read_bytes", fails)
    assert bridges(host) == []


def test_release_that_an_image_brings_is_judged_as_well() -> None:
    host = with_driver()
    known = {
        "as_of": "2999-01-01",
        "branches": {"580": {"end_of_support": "2020-01"}, "590": {"end_of_support": "2999-01"}},
        "bulletins": [{"id": "1", "date": "2026-01-01", "floors": {"580": "580.178.04"}}],
    }
    below, past = converge(host, source="preinstalled", releases=known).warnings
    assert below.endswith("Next step: install 580.178.04 or later")
    assert "does not support any more since 2020-01-31" in past
    there = reported(host, source="preinstalled", releases=known)
    assert (there["security"]["below"], there["support"]["past"]) == (True, True)
    assert converge(host, source="preinstalled").warnings == ()
