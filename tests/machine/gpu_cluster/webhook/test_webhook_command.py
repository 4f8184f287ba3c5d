# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line of the webhook."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_cluster.cli import main

from tests.support.paths import SOURCES

ROWS = '{"nodeconfig": [{"name": "node-1", "devicesplitcount": 4, "devicememoryscaling": 2}]}'


@pytest.fixture
def configured(tmp_path: Path) -> list[str]:
    devices, nodes = tmp_path / "device-config.yaml", tmp_path / "config.json"
    devices.write_text("nvidia: {deviceSplitCount: 8, deviceMemoryScaling: 1.5}")
    nodes.write_text(ROWS)
    return ["webhook", "--device-config", str(devices), "--node-config", str(nodes)]


def test_a_nodes_settings_are_shown(
    configured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*configured, "--show-node", "node-1"]) == 0
    assert capsys.readouterr().out == (
        "# node-1, from HAMi's configuration\n"
        "gpuNode:\n"
        "  allocation: dra\n"
        "  dra:\n"
        "    splitCount: 4\n"
        "    memoryScaling: 2\n"
        "    oversubscribe: best-effort # as nothing pages memory out: see docs/fractions/hami.md\n"
    )
    assert main([*configured, "--show-node", "node-2"]) == 0
    assert "splitCount: 8\n    memoryScaling: 1.5\n" in capsys.readouterr().out


def test_a_configuration_is_warned_of_beside_a_nodes_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the command that the page of the migration begins with."""
    path = tmp_path / "device-config.yaml"
    path.write_text("nvidia: {deviceSplitCount: 8, defaultMem: 5000}")
    command = ["webhook", "--device-config", str(path), "--show-node", "node-1"]
    assert main(command) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "defaultMemory is 5000" in line
    assert main([*command, "--count-alone", "share"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--listen", "here"], "--listen: 'here' is not valid: expected ADDRESS:PORT"),
        (["--listen", "off"], "--listen: 'off' is not valid: expected an address"),
        (["--metrics-address", ":1"], "--metrics-address: ':1' is not valid"),
        (["--template-ttl", "1m"], "--template-ttl: '1m' is not valid: expected seconds from 600"),
        (["--template-ttl", "599"], "--template-ttl: '599' is not valid"),
        (["--template-ttl", "nan"], "--template-ttl: 'nan' is not valid"),
        (["--tls-cert-file", "/x"], "--tls-private-key-file: '' is not valid"),
        (["--tls-private-key-file", "/x"], "--tls-cert-file: '' is not valid"),
        (["--device-config", "/nowhere"], "/nowhere can't be read"),
        (["--node-config", "/nowhere"], "/nowhere can't be read"),
        (["--kubeconfig", "/nowhere"], "/nowhere is not there"),
        (["--count-alone", "shared"], "--count-alone: 'shared' is not valid: expected whole or"),
    ],
)
def test_what_cant_be_is_refused_by_its_flag(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["webhook", *words]) == 1
    assert told in capsys.readouterr().err


def test_an_address_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c",'
        ' "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],'
        ' "users": [{"name": "u", "user": {}}],'
        ' "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}'
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--listen", address, "--metrics-address", "off", "--kubeconfig", str(config)]
        assert main(["webhook", *words]) == 1
    assert "the webhook can't listen" in capsys.readouterr().err


def test_without_its_libraries_it_says_where_they_are(tmp_path: Path) -> None:
    """As at a desk, where the simulation runs."""
    (tmp_path / "cryptography.py").write_text("raise ImportError('No module named cryptography')")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    code = f"{path}; from gpu_cluster.cli import main; sys.exit(main(['webhook']))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
    )
    assert found.returncode == 1
    assert "gpu-cluster webhook can't start here: No module named cryptography" in found.stderr
    assert "install gpu_cluster's requirements.txt in addition to gpu_plugin's" in found.stderr
