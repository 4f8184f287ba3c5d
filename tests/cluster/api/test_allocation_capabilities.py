# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What capabilities that name pods and devices say of what the genuine kube-scheduler has allocated, in each mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods import (
    capability as validate_pods,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods.options import (
    SPEC as VALIDATE_SPEC,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.capability import (
    DrainCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.options import (
    SPEC as DRAIN_SPEC,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine import asking
from gpu_plugin._shared._base.dra.names import DEVICE_PLUGIN, GPU_CLASS, MIG_CLASS, SHARE_CLASS

from tests.fakes.cluster.allocation_modes import (
    MODES,
    PROFILE,
    REQUESTS,
    Mode,
    ModesCluster,
    Table,
)
from tests.support.waiting import eventually

TABLE = Table()
RESOURCES = {"gpu resource": "nvidia.com/gpu", "mig resource": f"nvidia.com/mig-{PROFILE}"}
CLASSES = {"gpu claim": GPU_CLASS, "mig claim": MIG_CLASS, "share claim": SHARE_CLASS}
each_mode = pytest.mark.parametrize("mode", MODES, ids=[mode.node for mode in MODES])
each_working_request = pytest.mark.parametrize(
    ("mode", "request_name"),
    [
        pytest.param(mode, request, id=f"{mode.node}-{request}")
        for mode in MODES
        for request in REQUESTS
        if TABLE.works(request, mode)
    ],
)


def params(spec: Any, cluster: ModesCluster, mode: Mode, **options: Any) -> dict[str, Any]:
    """Return the parameters of a module with the defaults of the others."""
    defaults = {name: option.get("default") for name, option in spec["argument_spec"].items()}
    kubeconfig = str(cluster.folder / "admin.conf")
    return {**defaults, "kubeconfig": kubeconfig, "node": mode.node, **options}


@dataclass
class DecisionClock:
    """A clock that goes on once the scheduler has refused a pod, and else waits until each pod runs."""

    cluster: ModesCluster
    seconds: float = 0.0

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Wait for the scheduler."""
        states = eventually(self.cluster.decisions)
        if False in states:
            self.seconds += seconds


class PatientClock(DecisionClock):
    """A clock that stands still until each pod runs: what a pod had a moment ago is soon free."""

    def sleep(self, seconds: float) -> None:
        """Wait for the kubelets."""
        eventually(lambda: all(self.cluster.decisions() or [False]))


def checks(
    cluster: ModesCluster, mode: Mode, monkeypatch: pytest.MonkeyPatch, clock: DecisionClock
) -> dict[str, str]:
    """Return the state of each check of validation by pods, by resource or class."""
    options = params(VALIDATE_SPEC, cluster, mode, image="pause", timeout=20)
    for module in (validate_pods, asking):
        monkeypatch.setattr(module, "time", clock)
    with cluster.kubelets():
        state = validate_pods.ValidatePodsCapability(options, check_mode=False).observe()
    return {check.name.removeprefix("pod with "): check.state for check in state.checks}


def names_of_checks(mode: Mode) -> set[str]:
    """Return what the table has of a mode: resources of the device plugin, and classes of what is published."""
    own = RESOURCES if DEVICE_PLUGIN in mode.columns else {}
    tried = {**own, **CLASSES}
    return {name for key, name in tried.items() if TABLE.works(key, mode)}


@each_mode
def test_validation_runs_a_pod_with_each_device_that_a_free_node_gives(
    modes_cluster: ModesCluster, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks(modes_cluster, mode, monkeypatch, PatientClock(modes_cluster)) == dict.fromkeys(
        names_of_checks(mode), "passed"
    )


@each_working_request
def test_validation_skips_a_device_of_which_pods_have_all(
    modes_cluster: ModesCluster, mode: Mode, request_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    request = REQUESTS[request_name]
    if "capacity" in request:
        request = {"deviceClassName": SHARE_CLASS}  # all of the GPU's memory
    while True:
        modes_cluster.create_pod(f"job-{taken}", mode, request)
        if not modes_cluster.is_placed(f"job-{taken}"):
            break
        taken += 1
    modes_cluster.remove_pod(f"job-{taken}")
    name = {**RESOURCES, **CLASSES}[request_name]
    states = checks(modes_cluster, mode, monkeypatch, DecisionClock(modes_cluster))
    if name not in states:  # the scheduler makes claims of the class for it
        name = GPU_CLASS
    assert states[name] == "skipped"


@each_working_request
def test_drain_finds_a_pod_by_its_device_and_by_its_claim(
    modes_cluster: ModesCluster, mode: Mode, request_name: str
) -> None:
    modes_cluster.create_pod("job", mode, REQUESTS[request_name])
    assert modes_cluster.is_placed("job")
    claims = [f"default/{claim['metadata']['name']}" for claim in modes_cluster.claims("job")]
    for options in (
        {"state": "drained"},
        *({"state": "evicted", "names": [name]} for name in ("default/job", *claims)),
    ):
        drain = DrainCapability(
            params(DRAIN_SPEC, modes_cluster, mode, bare_pods="delete", **options), check_mode=True
        )
        state = drain.observe()
        answer = drain.result(state, drain.plan(state))
        assert answer["evicted"] == ["default/job"], options
