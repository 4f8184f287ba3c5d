# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What capabilities that name pods and devices say of what the genuine kube-scheduler has allocated, in each mode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods import (
    capability as validate_pods,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.capability import (
    DrainCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine import asking
from ansible_collections.gpu.node.plugins.module_utils._generated.drain import (
    SPEC as DRAIN_SPEC,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.validate_pods import (
    SPEC as VALIDATE_SPEC,
)
from gpu_plugin._shared._base.dra.checkpoint import PreparedClaim
from gpu_plugin._shared._base.dra.names import (
    ALL,
    DEVICE_PLUGIN,
    DRA,
    DRIVER,
    GPU,
    GPU_CLASS,
    MIG_CLASS,
    PUBLISHED,
    SHARE,
    SHARE_CLASS,
)
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._node.users.allocated import Allocation, Devices, places
from gpu_plugin.dra import report
from gpu_plugin.dra.prepare import plan
from gpu_plugin.model.inventory import Kind, Problem

from tests.fakes.cluster.allocation_modes import (
    GPUS,
    MONITORING,
    PROFILE,
    REQUESTS,
    TABLE,
    Mode,
    ModesCluster,
    each_dra_mode,
    each_mode,
    each_working_request,
)
from tests.support.waiting import eventually

RESOURCES = {"gpu resource": "nvidia.com/gpu", "mig resource": f"nvidia.com/mig-{PROFILE}"}
CLASSES = {"gpu claim": GPU_CLASS, "mig claim": MIG_CLASS, "share claim": SHARE_CLASS}


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


def monitor_request(mode: Mode) -> dict[str, Any]:
    """Return the request of a claim for monitoring: all GPUs outside of MIG mode, as they are published."""
    publishes_shares = mode.publish == SHARE
    little = {"capacity": {"requests": {"memory": "1Mi"}}} if publishes_shares else {}
    name = SHARE_CLASS if publishes_shares else GPU_CLASS
    return {"deviceClassName": name, "adminAccess": True, "allocationMode": "All", **little}


def tenant_request(mode: Mode, *, full: bool) -> dict[str, Any]:
    """Return the request of a tenant for a share, or for all of a GPU."""
    if mode.publish == GPU or (full and mode.publish == ALL):
        return REQUESTS["gpu claim"]
    return {"deviceClassName": SHARE_CLASS} if full else REQUESTS["share claim"]


def check_monitor(cluster: ModesCluster, mode: Mode, tenant: PreparedClaim) -> None:
    """See that the node prepares the monitor's claim next to the tenant's, and that it takes nothing."""
    monitor = cluster.prepared("monitor", mode, MONITORING)
    limits = plan.limits((gpu.gpu for gpu in GPUS.gpus), mode.config.dra)
    plan.check_room(monitor, [tenant], limits)
    plan.check_room(tenant, [monitor], limits)
    assert all(device.admin for device in monitor.devices)
    indices = {gpu.gpu.uuid: gpu.gpu.index for gpu in GPUS.gpus}
    alone, together = (
        report.usage_by_gpu(indices, [tenant]),
        report.usage_by_gpu(indices, [tenant, monitor]),
    )
    for uuid, amounts in together.items():
        sees = any(device.gpu == uuid for device in monitor.devices)
        assert {**amounts, "claims": amounts["claims"] - sees} == alone[uuid]


@each_dra_mode
def test_a_monitor_that_comes_first_leaves_a_gpu_to_tenants(
    modes_cluster: ModesCluster, mode: Mode
) -> None:
    modes_cluster.create_pod("monitor", mode, monitor_request(mode), MONITORING)
    assert modes_cluster.is_placed("monitor", MONITORING) == TABLE.works("first monitor", mode)
    modes_cluster.create_pod("job", mode, tenant_request(mode, full=True))
    assert modes_cluster.is_placed("job")
    check_monitor(modes_cluster, mode, modes_cluster.prepared("job", mode))


@each_dra_mode
@pytest.mark.parametrize("full", [False, True], ids=["share", "full"])
def test_a_monitor_that_comes_later_is_placed_where_the_table_has_it(
    modes_cluster: ModesCluster, mode: Mode, full: bool
) -> None:
    modes_cluster.create_pod("job", mode, tenant_request(mode, full=full))
    assert modes_cluster.is_placed("job")
    modes_cluster.create_pod("monitor", mode, monitor_request(mode), MONITORING)
    key = "monitor of a full GPU" if full else "monitor of a shared GPU"
    works = TABLE.works(key, mode) if full or mode.publish != GPU else True
    tenant = modes_cluster.prepared("job", mode)
    placed = modes_cluster.is_placed("monitor", MONITORING)
    assert placed or not works
    if placed:  # of GPUs that are full the scheduler leaves out the shares
        monitor = modes_cluster.prepared("monitor", mode, MONITORING)
        assert works == (
            {device.gpu for device in tenant.devices} <= {device.gpu for device in monitor.devices}
        )
        check_monitor(modes_cluster, mode, tenant)


@each_dra_mode
def test_a_monitor_has_the_mig_devices_of_tenants(modes_cluster: ModesCluster, mode: Mode) -> None:
    modes_cluster.create_pod("job", mode, REQUESTS["mig claim"])
    assert modes_cluster.is_placed("job")
    request = {"deviceClassName": MIG_CLASS, "adminAccess": True, "allocationMode": "All"}
    modes_cluster.create_pod("monitor", mode, request, MONITORING)
    assert modes_cluster.is_placed("monitor", MONITORING) == TABLE.works("MIG monitor", mode)
    check_monitor(modes_cluster, mode, modes_cluster.prepared("job", mode))


@pytest.mark.parametrize("publish", PUBLISHED)
def test_a_monitor_has_no_gpu_of_a_node_with_an_unhealthy_gpu(
    modes_cluster: ModesCluster, publish: str
) -> None:
    """Without tolerations the scheduler gives none of all GPUs, and with some the driver refuses the claim."""
    mode = Mode(DRA, publish, "-unhealthy")
    faulty = replace(GPUS.gpus[0], problem=Problem(Kind.FAULT, "XID 79"))
    gpus = replace(GPUS, gpus=(faulty, *GPUS.gpus[1:]))
    modes_cluster.add_node(mode, gpus)
    request = monitor_request(mode)
    modes_cluster.create_pod("monitor", mode, request, MONITORING)
    works = TABLE.works("unhealthy monitor", mode)
    assert modes_cluster.is_placed("monitor", MONITORING) == works
    tolerating = {**request, "tolerations": [{"operator": "Exists"}]}
    modes_cluster.create_pod("tolerating", mode, tolerating, MONITORING)
    assert modes_cluster.is_placed("tolerating", MONITORING)
    with pytest.raises(NodeError, match="can't be used: XID 79"):
        modes_cluster.prepared("tolerating", mode, MONITORING, gpus)


@each_dra_mode
@pytest.mark.parametrize("request_name", CLASSES)
def test_a_device_of_a_claim_is_named_by_its_gpu(
    modes_cluster: ModesCluster, mode: Mode, request_name: str
) -> None:
    """The report, the checks of GPUs in use and the metrics find the GPU of what the scheduler has allocated."""
    modes_cluster.create_pod("job", mode, REQUESTS[request_name])
    if not modes_cluster.is_placed("job"):
        assert not TABLE.works(request_name, mode)
        return
    prepared = modes_cluster.prepared("job", mode)
    (device,) = prepared.devices
    known = [Devices(gpu.gpu, gpu.layout.instances, gpu.mig) for gpu in GPUS.gpus]
    allocation = Allocation("default", "job", "main", DRIVER, device.device)
    assert {place.gpu for place in places(allocation, known)} == {device.gpu}
    amounts = report.usage_by_gpu({device.gpu: 0}, [prepared])[device.gpu]
    share = {"shares": 1, "memory": 10000 << 20, "cores": 30}
    expected = share if request_name == "share claim" else dict.fromkeys(share, 0)
    assert amounts == {"index": 0, "claims": 1, **expected}
