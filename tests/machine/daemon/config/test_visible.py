# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the variable of an image wins over what the kubelet gave, somebody has to be told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin import cli
from gpu_plugin._shared._base.visible_devices import TOOLKIT_CONFIG, strategies, warning
from gpu_plugin.config import configuration as config
from gpu_plugin.config.sources import warnings

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode


KEY = "accept-nvidia-visible-devices-envvar-when-unprivileged"
VOLUMES = "accept-nvidia-visible-devices-as-volume-mounts"
BY_MOUNTS = "flags: {plugin: {deviceListStrategy: volume-mounts}}"
CDI = "flags: {plugin: {deviceListStrategy: [cdi-cri]}}"


@pytest.mark.attack("envvar-takes-gpus")
@pytest.mark.parametrize(
    ("text", "warned"),
    {
        "version: v1": True,  # NVIDIA's default is envvar
        "flags: {plugin: {deviceListStrategy: envvar}}": True,
        "flags: {plugin: {deviceListStrategy: [cdi-cri, envvar]}}": True,
        "flags: {plugin: {deviceListStrategy: volume-mounts}}": True,
        CDI: False,
        "flags: {plugin: {deviceListStrategy: [cdi-annotations, cdi-cri]}}": False,
    }.items(),
)
def test_a_strategy_that_needs_a_handler_is_warned_of(
    text: str, warned: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert cli.main(["check-config", str(file)]) == 0
    shown = capfd.readouterr()
    assert shown.out == f"{file}: valid\n"
    words = ("NVIDIA_VISIBLE_DEVICES", KEY, VOLUMES, "cdi-cri", TOOLKIT_CONFIG)
    assert [word in shown.err for word in words] == [warned] * len(words)


@pytest.mark.attack("envvar-takes-gpus")
@pytest.mark.parametrize(
    ("toolkit", "warned"),
    {
        None: True,
        "": True,
        f"{KEY} = true\n": True,
        f"#{KEY} = false\n": True,
        f"{VOLUMES} = true\n{KEY} = false\n": False,
    }.items(),
)
def test_a_toolkit_that_refuses_the_variable_needs_no_warning(
    toolkit: str | None, warned: bool, tmp_path: Path
) -> None:
    path = tmp_path / TOOLKIT_CONFIG.lstrip("/")
    path.parent.mkdir(parents=True)
    if toolkit is not None:
        path.write_text(toolkit)
    assert bool(warnings(config.parse(BY_MOUNTS), tmp_path)) == warned
    assert not warnings(config.parse(CDI), tmp_path)


@pytest.mark.attack("envvar-takes-gpus")
@pytest.mark.parametrize(
    "found", [None, {}, [], "x", {"flags": None}, {"flags": {"plugin": {"deviceListStrategy": 7}}}]
)
def test_what_says_nothing_means_envvar(found: object) -> None:
    assert strategies(found) == config.parse("version: v1").containers.device_list_strategies
    assert warning(strategies(found), None)


@pytest.mark.attack("envvar-takes-gpus")
def test_the_daemon_says_it_once_for_each_configuration(make_node: MakeNode) -> None:
    if os.path.exists(TOOLKIT_CONFIG):
        pytest.skip("this machine has NVIDIA's container toolkit")
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon("version: v1")
    node.wait("nvidia.com/gpu", 1)
    assert node.logged().count("NVIDIA_VISIBLE_DEVICES") == 1
    node.config.write_text(CDI)
    eventually(lambda: "configuration loaded" in node.logged())
    assert node.logged().count("NVIDIA_VISIBLE_DEVICES") == 1


@pytest.mark.parametrize(
    ("strategies", "printed", "status"),
    [
        ("cdi-cri", "Kubernetes v1.26.11", 1),
        ("cdi-cri", "Kubernetes v1.29.0", 0),
        ("cdi-cri", "nothing", 0),
        ("cdi-annotations, cdi-cri", "Kubernetes v1.26.11", 0),
    ],
)
def test_a_strategy_that_the_kubelet_drops_is_refused_on_the_node(
    strategies: str,
    printed: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kubelet, file = tmp_path / "bin/kubelet", tmp_path / "config.yaml"
    kubelet.parent.mkdir()
    kubelet.write_text(f"#!/bin/sh\necho {printed}\n")
    kubelet.chmod(0o755)
    monkeypatch.setenv("PATH", str(kubelet.parent), prepend=os.pathsep)
    file.write_text(f"flags: {{plugin: {{deviceListStrategy: [{strategies}]}}}}")
    assert cli.main(["check-config", str(file)]) == 0
    assert cli.main(["check-config", "--node", str(file)]) == status
    if status:
        assert "kubelet 1.26.11 drops the answer of cdi-cri" in capfd.readouterr().err
