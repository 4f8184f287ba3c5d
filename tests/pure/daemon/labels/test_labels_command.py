# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPU Feature Discovery's own command line and variables, and those of the plugin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_plugin import cli
from gpu_plugin.cluster.rate import Rate
from gpu_plugin.config.configuration import Config
from gpu_plugin.config.sources import Source
from gpu_plugin.labels import service
from gpu_plugin.labels.settings import Settings

# All of cmd/gpu-feature-discovery/main.go and internal/flags of 0.20, with what its chart sets.
GFD = [
    "--mig-strategy=mixed",
    "--fail-on-init-error=true",
    "--oneshot=false",
    "--no-timestamp=false",
    "--sleep-interval=30s",
    "--output-file=/tmp/gfd",
    "--machine-type-file=/sys/class/dmi/id/product_name",
    "--use-node-feature-api=true",
    "--device-discovery-strategy=auto",
    "--driver-root-ctr-path=/driver-root",
    "--kubeconfig=/tmp/k",
    "--kube-api-qps=7.5",
    "--kube-api-burst=20",
    "--namespace=gpus",
    "--node-name=node-1",
    "--pod-name=gfd-x",
]
ALIASES = ["--output", "/tmp/gfd", "--container-driver-root", "/driver-root"]
CHART = {
    "NODE_NAME": "node-1",
    "NAMESPACE": "gpus",
    "POD_NAME": "gfd-x",
    "MIG_STRATEGY": "mixed",
    "FAIL_ON_INIT_ERROR": "true",
    "GFD_NO_TIMESTAMP": "true",
    "GFD_SLEEP_INTERVAL": "30s",
    "DEVICE_DISCOVERY_STRATEGY": "nvml",
    "NVIDIA_MIG_MONITOR_DEVICES": "all",
    "GFD_USE_NODE_FEATURE_API": "true",
    "KUBE_API_QPS": "7.5",
    "KUBE_API_BURST": "20",
    "DRIVER_ROOT_CTR_PATH": "/driver-root",
}
PLUGIN = [
    "--mig-strategy=mixed",
    "--pass-device-specs",
    "--device-list-strategy=cdi-cri",
    "--device-id-strategy=index",
    "--kubelet-socket=/x",
    "--mps-root=/run/x",
    "--imex-required",
]
Taken = tuple[Settings, Config]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Taken]:
    """What a command line came to, instead of a process that labels."""
    found: list[Taken] = []

    class Noted:
        def __init__(self, settings: Settings, source: Source) -> None:
            found.append((settings, source.load().config))

        def run(self) -> int:
            return 0

    monkeypatch.setattr(service, "Service", Noted)
    return found


def test_gfds_own_command_line_is_taken(taken: list[Taken], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("version: v1")
    assert cli.main(["labels", *GFD, f"--config-file={file}"]) == 0
    assert cli.main(["labels", *ALIASES]) == 0
    settings, config = taken[0]
    assert (settings.api.node, settings.api.namespace, settings.api.pod) == (
        "node-1",
        "gpus",
        "gfd-x",
    )
    assert (config.mig_strategy, config.driver.fail_on_init_error) == ("mixed", True)
    assert (config.gfd.sleep, config.gfd.output_file) == (30, "/tmp/gfd")
    assert config.driver.container_root == "/driver-root"
    assert settings.output(config.gfd) == "node-feature"
    assert (settings.api.rate.qps, settings.api.rate.burst) == (7.5, 20)


def test_gfds_variables_are_taken(
    taken: list[Taken], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in CHART.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("GFD_CONFIG_FILE", str(tmp_path / "config.yaml"))
    (tmp_path / "config.yaml").write_text("flags: {migStrategy: single, gfd: {oneshot: true}}")
    assert cli.main(["labels"]) == 0
    settings, config = taken[0]
    assert (settings.api.namespace, settings.api.pod, settings.api.rate.burst) == (
        "gpus",
        "gfd-x",
        20,
    )
    assert (config.mig_strategy, config.gfd.oneshot) == ("mixed", True)
    assert config.gfd.no_timestamp


def test_the_plugins_flags_are_taken_and_those_without_meaning_are_named(
    taken: list[Taken], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["labels", *PLUGIN]) == 0
    told = capsys.readouterr().err
    assert "flags of the plugin that change no label" in told
    for flag in ("--pass-device-specs", "--device-id-strategy", "--kubelet-socket"):
        assert flag in told
    assert "--mig-strategy" not in told
    assert taken[0][1].sharing.mps_root == "/run/x"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--device-discovery-strategy=tegra", "'tegra' is not supported.*NVML"),
        ("--device-discovery-strategy=x", "'x' is not valid"),
        ("--kube-api-qps=fast", "kube-api-qps: 'fast' is not valid: expected a number"),
        ("--kube-api-qps=nan", "kube-api-qps: 'nan' is not valid"),
        ("--kube-api-burst=-1", "kube-api-burst: '-1' is not valid: expected a number"),
        ("--sleep-interval=never", "'never' is not valid"),
    ],
)
def test_a_value_that_is_not_supported_is_named(
    taken: list[Taken], capsys: pytest.CaptureFixture[str], words: str, expected: str
) -> None:
    assert cli.main(["labels", words]) == 1
    assert not taken
    assert re.search(expected, capsys.readouterr().err.replace('\\"', ""))


def test_requests_are_spread_as_client_go_does() -> None:
    now = [0.0]
    rate = Rate(5, 10, lambda: now[0])
    assert [rate.take() for _each in range(12)] == pytest.approx([0] * 10 + [0.2, 0.4])
    now[0] = 100
    assert [rate.take() for _each in range(11)] == pytest.approx([0] * 10 + [0.2])
    assert {Rate(-1, 1, lambda: 0.0).take() for _each in range(50)} == {0}
