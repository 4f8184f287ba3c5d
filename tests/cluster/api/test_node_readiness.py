# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The genuine node readiness controller holds a node by its gate's condition: `make test-cluster READINESS_BIN=folder`.

The folder has the controller of kubernetes-sigs/node-readiness-controller as ``node-readiness-controller``, and its
CustomResourceDefinition as ``crd.yaml``.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_plugin._shared._cluster.machine.api import MERGE, ApiError
from gpu_plugin._shared._node.gate import Gate, Held, Override
from gpu_plugin.labels.health.condition import accepted
from gpu_plugin.labels.health.reporter import Reporter

from tests.cluster.api.applying import run, summaries
from tests.fakes.kubernetes.administered import ADMINS, KINDS
from tests.fakes.kubernetes.genuine_api import GenuineApi
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

READINESS_BIN = os.environ.get("READINESS_BIN", "")
RULE = yaml.safe_load((REPOSITORY / "files/kubernetes/node-readiness-rule.yaml").read_text())
PATH = f"/apis/{RULE['apiVersion']}/nodereadinessrules"
TAINT = RULE["spec"]["taint"]
NODE, OTHER = "node-1", "node-2"
BOOT = "boot-1"
OPEN = Gate(BOOT, open_gpus=("GPU-0",))
CLOSED = Gate(BOOT, gpus={"GPU-0": Held("not accepted: it was never tested")})
UNCHECKED = OPEN._replace(boot="boot-0")
OVERRIDDEN = OPEN._replace(override=Override("burn-in of rack 7", 1.0, ("GPU-0",)))
Json = dict[str, Any]

pytestmark = pytest.mark.skipif(not READINESS_BIN, reason="READINESS_BIN names no folder")


class Readiness:
    """An API server with the controller, and a node whose gate is reported with its kubelet's access."""

    def __init__(self, cluster: GenuineApi) -> None:
        self.cluster = cluster
        cluster.create(yaml.safe_load((Path(READINESS_BIN) / "crd.yaml").read_text()))
        labels = {"nvidia.com/gpu.count": "1"}
        for name, of_node in ((NODE, labels), (OTHER, {})):
            meta = {"name": name, "labels": of_node}
            cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        self._access = cluster.access(f"system:node:{NODE}", "system:nodes")
        self._times = itertools.count(2_000_000_000.0, 100)
        self._controller: subprocess.Popen[bytes] | None = None
        eventually(lambda: self.rules() is not None)

    def rules(self) -> list[Json] | None:
        """Return the rules of the cluster, None while it does not know what a rule is."""
        try:
            answer: Json = self.cluster.admin.ask("listing rules", "GET", PATH)
        except ApiError as error:
            if error.status not in (404, 429):
                raise
            return None
        return list(answer["items"])

    def start(self) -> None:
        """Start the controller, and end the one that runs without any chance to finish its work."""
        if self._controller is not None:
            self._controller.send_signal(signal.SIGKILL)
            self._controller.wait()
        access = self.cluster.kubeconfig("controller", self.cluster.identity("admin", ADMINS))
        words = (f"--kubeconfig={access}", "--health-probe-bind-address=0")
        program = Path(READINESS_BIN) / "node-readiness-controller"
        self._controller = self.cluster.start(program, *words)

    def report(self, gate: Gate | None) -> None:
        """Write the condition of a gate, by a process of its own."""
        path = self.cluster.folder / "health.json"
        reporter = Reporter(NODE, path, lambda: self._access, lambda: next(self._times))
        gated = accepted(gate, BOOT)
        assert reporter.keep(None, events_wanted=False, condition=False, accepted=gated) == {}

    def is_tainted(self, node: str = NODE) -> bool:
        """Return whether a node has the taint of the rule."""
        taints = self.cluster.get("Node", node)["spec"].get("taints") or []
        return (TAINT["key"], TAINT["effect"]) in [(each["key"], each["effect"]) for each in taints]


@pytest.fixture(scope="module")
def readiness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readiness]:
    """The controller with our rule, as the collection applies it."""
    with GenuineApi(tmp_path_factory.mktemp("api")) as cluster:
        readiness = Readiness(cluster)
        assert summaries(run(cluster, RULE)) == ["make NodeReadinessRule gpu-node-accepted"]
        readiness.start()
        yield readiness


def test_rule_is_applied_once_and_can_only_be_replaced(readiness: Readiness) -> None:
    eventually(readiness.is_tainted)
    assert summaries(run(readiness.cluster, RULE)) == []
    patch = {"spec": {"enforcementMode": "bootstrap-only"}}
    with pytest.raises(ApiError, match="enforcementMode is immutable"):
        readiness.cluster.admin.ask(
            "changing the rule", "PATCH", f"{PATH}/{RULE['metadata']['name']}", patch, kind=MERGE
        )


def test_node_is_tainted_until_its_gate_lets_it_in_and_again_after_that(
    readiness: Readiness,
) -> None:
    eventually(readiness.is_tainted)
    for gate, tainted in (
        (CLOSED, True),
        (OPEN, False),
        (UNCHECKED, True),
        (OVERRIDDEN, False),
        (CLOSED, True),
        (OPEN, False),
        (None, True),
    ):
        readiness.report(gate)
        eventually(functools.partial(readiness.is_tainted), tainted)
    assert not readiness.is_tainted(OTHER)


@pytest.mark.parametrize("times", [1, pytest.param(100, marks=pytest.mark.endurance)])
def test_node_is_held_through_kills_of_the_controller_and_of_the_labels(
    readiness: Readiness, times: int
) -> None:
    for _time in range(times):
        readiness.report(CLOSED)
        readiness.start()
        eventually(readiness.is_tainted)
        readiness.report(OPEN)
        readiness.start()
        eventually(readiness.is_tainted, False)


def test_removed_rule_leaves_no_taint(readiness: Readiness) -> None:
    readiness.report(CLOSED)
    eventually(readiness.is_tainted)
    run(readiness.cluster, RULE, state="absent")
    eventually(readiness.is_tainted, False)
    eventually(readiness.rules, [])
    run(readiness.cluster, RULE)
    eventually(readiness.is_tainted)


def test_node_that_loses_its_label_keeps_the_taint(readiness: Readiness) -> None:
    """Known of the controller 0.5: docs/repair/gate-kubernetes.md says what to do."""
    readiness.report(CLOSED)
    eventually(readiness.is_tainted)
    patch = {"metadata": {"labels": {"nvidia.com/gpu.count": None}}}
    path = f"{KINDS['Node']}/{NODE}"
    readiness.cluster.admin.ask("changing labels", "PATCH", path, patch, kind=MERGE)
    readiness.start()
    eventually(lambda: "Completed processing" in log(readiness))
    assert readiness.is_tainted()


def log(readiness: Readiness) -> str:
    """Return what the controller has logged since it was started last."""
    text = (readiness.cluster.folder / "node-readiness-controller.log").read_text()
    return text.rpartition("version:")[2]
