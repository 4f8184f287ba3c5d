# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hostile files that others write: CDI specifications beside ours, and kubeconfigs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cdi.files import CdiFile
from gpu_plugin.cluster import kubeconfig
from gpu_plugin.cluster.access import Access

from tests.fakes.daemon.hostile_configurations import ATTACKS, bomb, merges
from tests.support.waiting import alarm

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}],
}
FOREIGN = {
    "brackets.json": b"[" * 100_000,
    "brackets.yaml": b"a: " + b"[" * 100_000,
    "bomb.yaml": f"kind: x/y\ndevices: []\na: {bomb()}".encode(),
    "merges.yaml": f"kind: x/y\ndevices: []\na: {merges()}".encode(),
    "date.yaml": b"kind: nvidia.com/gpu\ndevices: [{name: x}]\nannotations: {since: 2001-01-01}\n",
    "latin.yaml": "kind: x/y # \xe9".encode("latin-1"),
    "digits.json": b'{"a": ' + b"9" * 5000 + b"}",
    "large.json": b'"' + b"x" * (2 << 20) + b'"',
}
KUBECONFIG = """\
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: %s}]
"""
PROGRAM = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: %s, args: [s3cr3t]}}"


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize("name", FOREIGN)
def test_cdi_file_of_others_is_left_aside(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "etc/cdi"
    folder.mkdir(parents=True)
    (folder / "nvidia.yaml").write_text(json.dumps(SPEC))
    (folder / name).write_bytes(FOREIGN[name])
    kept = CdiFile(tmp_path)
    with alarm():
        kept.refresh()
    assert kept.names == {"0"}
    told = capsys.readouterr().err
    assert "a CDI specification is ignored" in told
    assert name in told
    assert len(told) < 500
    kept.refresh()
    assert capsys.readouterr().err == ""  # it was told once


@pytest.mark.attack("hostile-configuration")
def test_pipe_among_cdi_files_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "etc/cdi"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a.json")
    (folder / "nvidia.yaml").write_text(json.dumps(SPEC))
    kept = CdiFile(tmp_path)
    kept.refresh()
    assert kept.names == {"0"}


@pytest.mark.attack("hostile-configuration")
def test_daemon_goes_on_beside_cdi_files_of_others(make_node: MakeNode) -> None:
    node = make_node(1)
    folder = Path(node.sim.root) / "etc/cdi"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in FOREIGN.items():
        (folder / name).write_bytes(data)
    uuid = node.sim.ctl("status")["gpus"][0]["uuid"]
    (folder / "nvidia.yaml").write_text(json.dumps({**SPEC, "devices": [{"name": uuid}]}))
    node.start_kubelet()
    node.start_daemon("flags: {plugin: {deviceListStrategy: cdi-cri}}")
    node.wait("nvidia.com/gpu", 1)
    assert node.daemon is not None
    assert node.daemon.poll() is None
    assert node.logged().count("is ignored") == len(FOREIGN)


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ATTACKS["3000 brackets"][0], "nested more than 50 deep"),
        (f"users: {bomb()}", "aliases"),
        (f"users: [{{user: {merges()}}}]", "aliases"),
        ("a: [", "no kubeconfig"),
        ("[]", "it is not a mapping"),
        ("users: [a]", "users is not a list of mappings"),
        ("# " + "x" * (1 << 20), "longer than 256 KiB"),
        ("contexts: 3", "contexts is not a list of mappings"),
    ],
    ids=lambda text: text[:12],
)
def test_kubeconfig_is_refused_in_a_few_words(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with alarm(), pytest.raises(ApiError, match=words) as caught:
        Access(str(path)).connect()
    assert len(str(caught.value)) < 600


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(("mode", "owner"), [(0o666, 0), (0o620, 0), (0o600, 65534)])
def test_kubeconfig_that_others_write_runs_nothing(tmp_path: Path, mode: int, owner: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("files of others can be made by root only")
    ran = tmp_path / "ran"
    program = tmp_path / "token"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % PROGRAM % program)
    path.chmod(mode)
    os.chown(path, owner, 0)
    with pytest.raises(ApiError, match="can be written by others") as caught:
        Access(str(path)).connect()
    assert not ran.exists()
    assert str(program) in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    os.chown(path, 0, 0)
    path.chmod(0o600)
    Access(str(path)).connect().close()
    assert ran.exists()  # its owner's word counts


def test_a_program_of_a_kubeconfig_is_ended_where_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kubeconfig, "PROGRAM_SECONDS", 0.2)
    program = tmp_path / "token"
    program.write_text("#!/bin/sh\nexec sleep infinity\n")
    program.chmod(0o755)
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % PROGRAM % program)
    path.chmod(0o600)
    Access(str(path)).connect().close()  # the library goes on without a token, and logs why
    assert f"{program}' has not answered in 0 seconds" in caplog.text
