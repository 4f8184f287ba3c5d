# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The version of Kubernetes that is simulated: the one that is given, the cluster's, or the recommended one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli
from gpu_cluster.simulate import command
from gpu_plugin.cluster.access import FORBIDDEN
from gpu_plugin.cluster.errors import ApiError

from tests.fakes.cluster.simulating import TWO_OF_32, claiming, simulate, template, whole


class Cluster:
    """An API server of a version, with nothing in it."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def connect(self) -> Cluster:
        return self

    def ask(self, _doing: str, _method: str, path: str, **more: Any) -> Any:
        if path != "/version":
            return {"items": []}
        if isinstance(self.said, ApiError):
            raise self.said
        return more["look"]({"gitVersion": self.said})


def _of(monkeypatch: pytest.MonkeyPatch, capsys: Any, said: Any, *options: str) -> Any:
    monkeypatch.setattr(command, "Access", lambda _kubeconfig: Cluster(said))
    assert cli.main(["simulate", "--cluster", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("said", "options", "version"),
    [
        ("v1.36.2", (), "1.36.2"),
        ("v1.36.3-eks-1", (), "1.36.3"),
        ("v1.36.2", ("--kubernetes", "v1.36.3"), "1.36.3"),
        ("v1.35.1", ("--kubernetes", "1.36.3"), "1.36.3"),
    ],
)
def test_a_cluster_is_asked_for_its_version_unless_one_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, said: str, options: tuple[str, ...], version: str
) -> None:
    found = _of(monkeypatch, capsys, said, *options)
    assert (found["kubernetes"], found["warnings"]) == (version, [])


@pytest.mark.parametrize("said", ["dev", ApiError("asking", "403 forbidden", status=FORBIDDEN)])
def test_a_cluster_that_does_not_say_its_version_is_simulated_as_the_recommended_one(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, said: Any
) -> None:
    found = _of(monkeypatch, capsys, said)
    assert found["kubernetes"] == "1.36.3"
    assert found["warnings"] == ["which version the cluster is of: it does not say"]


def test_a_newer_version_is_simulated_as_the_newest_that_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    found = _of(monkeypatch, capsys, "v1.37.0")
    assert found["kubernetes"] == "1.37.0"
    assert found["warnings"] == ["what Kubernetes 1.37.0 does otherwise than 1.36.3"]


def test_without_a_cluster_the_recommended_version_is_simulated(
    tmp_path: Path, capsys: Any
) -> None:
    found = simulate(tmp_path, capsys, [TWO_OF_32], [template("w", whole()), claiming("p", "w")])
    assert found.json["kubernetes"] == "1.36.3"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("1.36", "--kubernetes: '1.36' is not valid: expected a version such as 1.36.3"),
        ("newest", "--kubernetes: 'newest' is not valid"),
        ("1.36.1", "Kubernetes 1.36.1, with which kube-scheduler forgets the counters of shares"),
    ],
)
def test_a_version_that_is_not_simulated_is_named(
    tmp_path: Path, capsys: Any, given: str, words: str
) -> None:
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": [TWO_OF_32]}))
    (tmp_path / "pods.yaml").write_text(json.dumps(claiming("p", "w")))
    files = ["--inventory", str(tmp_path / "nodes.yaml"), str(tmp_path / "pods.yaml")]
    assert cli.main(["simulate", *files, "--kubernetes", given]) == 1
    assert words in capsys.readouterr().err


def test_a_cluster_below_the_oldest_version_is_named_with_the_way_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(command, "Access", lambda _kubeconfig: Cluster("v1.35.4"))
    assert cli.main(["simulate", "--cluster"]) == 1
    said = capsys.readouterr().err
    assert "Kubernetes 1.35.4, with which the feature gates" in said
    assert "Next step: upgrade it to 1.36.3, whose answer --kubernetes 1.36.3 shows" in said
