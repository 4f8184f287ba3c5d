# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's exporter as a service, from a program with its checksum or from a package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm import capability as dcgm
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.exporter import (
    COUNTERS,
    PROGRAM,
    UNIT,
    UNIT_FILE,
)

from tests.fakes.library.dcgm_nodes import EXPORTER, DcgmNode, capability, converge

Make = Callable[..., DcgmNode]
VENDOR = "nvidia-dcgm-exporter.service"
PACKAGE = {"package": EXPORTER, "version": "4.8.1"}


def test_exporter_serves_maps_pods_and_goes(make: Make, program: dict[str, str]) -> None:
    node = make()
    before = set(node.files)
    exporter = {**program, "resources": ["nvidia.com/gpu.shared"]}
    assert converge(node, exporter=exporter).steps == ()
    unit = node.units[UNIT]
    assert f"ExecStart={PROGRAM}\n" in unit
    for line in (
        "DCGM_EXPORTER_LISTEN=127.0.0.1:9400",
        "DCGM_REMOTE_HOSTENGINE_INFO=127.0.0.1:5555",
        "DCGM_EXPORTER_KUBERNETES=true",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE=uid",
        "DCGM_POD_RESOURCES_KUBELET_SOCKET=/var/lib/kubelet/pod-resources/kubelet.sock",
        "KUBERNETES_VIRTUAL_GPUS=true",
        "NVIDIA_RESOURCE_NAMES=nvidia.com/gpu.shared",
        f"DCGM_EXPORTER_COLLECTORS={COUNTERS}",
        "DCGM_EXPORTER_INTERVAL=30000",
    ):
        assert f"Environment={line}\n" in unit
    assert UNIT in node.boot
    assert converge(node, exporter=exporter).steps == ()
    assert converge(node).steps == ()
    assert UNIT not in node.units
    assert not set(node.files) & {UNIT_FILE, COUNTERS, PROGRAM}
    converge(node, exporter=exporter)
    assert converge(node, state="absent").steps == ()
    assert {one for one in node.files if not one.startswith("/proc")} == {
        one for one in before if not one.startswith("/proc")
    }


def test_another_address_restarts_the_exporter_alone(make: Make, program: dict[str, str]) -> None:
    node = make()
    converge(node, exporter=program)
    one = capability(node, exporter={**program, "address": "10.0.0.5:9400"})
    steps = one.plan(one.observe()).steps
    assert [step.action for step in steps] == ["file", "start"]
    assert steps[-1].needs == (f"restart:{UNIT}",)


def test_run_that_was_killed_before_the_restart_is_finished(
    make: Make, program: dict[str, str]
) -> None:
    node = make()
    converge(node, exporter=program)
    one = capability(node, exporter={**program, "interval": 10})
    for step in one.plan(one.observe()).steps[:-1]:
        one.apply(step)
    assert "INTERVAL=30000" in node.units[UNIT]
    assert converge(node, exporter={**program, "interval": 10}).steps == ()
    assert "INTERVAL=10000" in node.units[UNIT]


def test_program_with_another_checksum_is_not_installed(
    make: Make, program: dict[str, str]
) -> None:
    node = make()
    with pytest.raises(NodeError, match="is not the file that is meant"):
        converge(node, exporter={**program, "sha256": "0" * 64})
    assert PROGRAM not in node.files
    assert UNIT not in node.units


def test_newer_program_takes_the_place_of_the_one_before(
    make: Make, program: dict[str, str], tmp_path: Path
) -> None:
    node = make()
    converge(node, exporter=program)
    node.files[PROGRAM] = "somebody has changed it"
    one = capability(node, exporter=program)
    assert [step.action for step in one.plan(one.observe()).steps] == ["program", "start"]
    assert converge(node, exporter=program).steps == ()
    assert node.files[PROGRAM] == (tmp_path / "dcgm-exporter").read_text()


def test_exporter_from_a_package_runs_in_our_unit(make: Make) -> None:
    node = make()
    assert converge(node, exporter=PACKAGE).steps == ()
    assert node.installed()[EXPORTER] == "4.8.1-1"
    assert "ExecStart=/usr/bin/dcgm-exporter\n" in node.units[UNIT]
    assert VENDOR not in node.units
    assert converge(node).steps == ()
    assert EXPORTER not in node.installed()


def test_exporter_of_somebody_else_is_left_alone(make: Make, program: dict[str, str]) -> None:
    node = make()
    node.person("apt-get", "-y", "install", EXPORTER)
    node._systemctl(("systemctl", "start", VENDOR))
    one = capability(node, exporter=program)
    with pytest.raises(NodeError, match=rf"{VENDOR} runs on the node"):
        one.plan(one.observe())
    assert VENDOR in node.units


def test_unknown_version_of_the_package_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match=r"exporter.version: '9.9'.*4\.8\.1-1"):
        converge(make(), exporter={**PACKAGE, "version": "9.9"})


def test_exporter_that_ends_at_once_is_told(
    make: Make, program: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make()
    monkeypatch.setattr(dcgm, "START_SECONDS", 0.3)
    monkeypatch.setattr(node, "_process", lambda *_words: None)
    with pytest.raises(NodeError, match=rf"{UNIT} does not stay up.*journalctl -u {UNIT}"):
        converge(node, exporter=program)
