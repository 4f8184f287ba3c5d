# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From what a node shows to the checks that it passes."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.validation import (
    Check,
    Daemon,
    Node,
    checks,
    message,
)
from gpu_values import gpu, mig
from hypothesis import given
from hypothesis import strategies as st

PLAIN, PARTED = gpu(0), gpu(1, mig=True)
MIGS = (mig(PARTED, 0).uuid, mig(PARTED, 1).uuid)
CDI = {
    "path": "/etc/cdi/nvidia.yaml",
    "failed": False,
    "devices": ["0", PLAIN.uuid, "1:0", MIGS[0], "1:1", MIGS[1], "all"],
    "missing": [],
}
GOOD: dict[str, t.Any] = {
    "state": "serving",
    "problem": None,
    "resources": {
        "nvidia.com/gpu": {"devices": {PLAIN.uuid: "Healthy"}, "problems": {}, "registered": True}
    },
    "mig_uuids": list(MIGS),
    "mig_boot": {"state": "done", "problems": []},
    "cdi": CDI,
    "labels": {"state": "labelled", "problem": None},
}
NAMES = [
    "driver",
    "GPUs",
    "device plugin",
    "registration",
    "MIG at boot",
    "devices",
    "CDI",
    "CDI devices",
    "CDI files",
    "labels",
    "health",
]


def node(told: t.Optional[t.Mapping[str, t.Any]] = None, **changes: t.Any) -> Node:
    """Return a node with a whole GPU and a partitioned one, on which the daemon tells this more than good."""
    daemon = Daemon.of(json.dumps({**GOOD, **(told or {})}))
    whole = Node(pci_gpus=2, gpus=(PLAIN, PARTED), mig_uuids=MIGS, daemon=daemon)
    return dataclasses.replace(whole, **changes)


def failures(one: Node, gpu_count: int = -1) -> t.Dict[str, str]:
    return {
        check.name: f"{check.cause} -> {check.next_step}"
        for check in checks(one, gpu_count)
        if not check.holds
    }


def test_a_node_as_it_should_be_passes_every_check() -> None:
    found = checks(node())
    assert [one.name for one in found] == NAMES
    assert failures(node()) == {}
    assert message(found) == ""


@pytest.mark.parametrize(
    ("told", "name", "text"),
    [
        (
            {"state": "waiting_for_driver", "problem": "the driver is not loaded"},
            "device plugin",
            "the device plugin is not serving (the driver is not loaded) -> see the log of gpu-device-plugin.service",
        ),
        (
            {"state": "not_running"},
            "device plugin",
            "the device plugin is not serving (it does not run) -> see the log of gpu-device-plugin.service",
        ),
        (
            {
                "resources": {"nvidia.com/gpu": {"registered": False}},
                "registration_problem": "can't listen on /var/lib/kubelet: Read-only file system",
            },
            "registration",
            "the kubelet does not know of nvidia.com/gpu (can't listen on /var/lib/kubelet: Read-only file system)"
            " -> see the log of gpu-device-plugin.service",
        ),
        (
            {"mig_boot": {"state": "failed", "problems": ["no room", "GPU 1: busy"]}},
            "MIG at boot",
            "gpu-mig.service failed at boot (no room; GPU 1: busy) -> "
            "fix the cause, then run the playbook gpu.node.mig",
        ),
        (
            {"mig_uuids": [MIGS[0]]},
            "devices",
            "the device plugin does not know the MIG devices that the GPUs have -> restart gpu-device-plugin",
        ),
        (
            {"cdi": {**CDI, "failed": True}},
            "CDI",
            "gpu-cdi.service failed: the specification is not kept up to date -> "
            "see the log of gpu-cdi.service, fix the cause, then run the role gpu.node.cdi",
        ),
        (
            {"cdi": {**CDI, "devices": [*CDI["devices"], PARTED.uuid]}},
            "CDI devices",
            "/etc/cdi/nvidia.yaml does not describe the devices that the GPUs have -> run the role gpu.node.cdi",
        ),
        (
            {"cdi": {**CDI, "missing": ["/lib/libcuda.so.1", "/bin/hook"]}},
            "CDI files",
            "/etc/cdi/nvidia.yaml mounts files that are gone (/lib/libcuda.so.1, /bin/hook) -> "
            "run the role gpu.node.cdi",
        ),
        (
            {"labels": {"state": "failing", "problem": "403"}},
            "labels",
            "the node's labels are not kept up to date (403) -> see the log of gpu-node-labels.service",
        ),
        (
            {
                "resources": {
                    "nvidia.com/gpu": {
                        "devices": {"GPU-1": "Unhealthy", "GPU-2": "Healthy", "GPU-3": "Unhealthy"},
                        "problems": {"GPU-1": "XID 79"},
                    }
                }
            },
            "health",
            "the device plugin reports unhealthy devices (nvidia.com/gpu GPU-1: XID 79; nvidia.com/gpu GPU-3) -> "
            "see 'gpu-plugin status' on the node",
        ),
    ],
)
def test_each_fault_fails_its_check_and_no_other(
    told: t.Dict[str, t.Any], name: str, text: str
) -> None:
    assert failures(node(told)) == {name: text}


def test_a_driver_that_does_not_answer() -> None:
    silent = node(driver_problem="it is not loaded.", gpus=(), mig_uuids=())
    found = failures(silent)
    assert found["driver"] == "it is not loaded. -> run gpu.node.gpu_nodes"
    assert found["GPUs"] == "0 of 2 GPUs answer -> see the kernel's log for the missing ones"
    assert "driver: it is not loaded. Next step: run gpu.node.gpu_nodes\n" in message(
        checks(silent)
    )


@pytest.mark.parametrize("gpu_count", [0, 1, 3])
def test_as_many_gpus_as_were_asked_for(gpu_count: int) -> None:
    assert failures(node(), gpu_count)["GPUs"].startswith(f"2 of {gpu_count} GPUs answer -> ")
    assert failures(node(pci_gpus=gpu_count), 2) == {}


def test_lost_gpus_are_named() -> None:
    lost = node(pci_gpus=3, lost_gpus=("GPU 2 has fallen off the bus",))
    assert failures(lost)["GPUs"].startswith(
        "2 of 3 GPUs answer (GPU 2 has fallen off the bus) -> "
    )


UNREGISTERED = {"resources": {"nvidia.com/gpu": {"registered": False}}}  # there is no kubelet yet


@pytest.mark.parametrize(
    "told", [{"cdi": None}, {"labels": None}, {"mig_boot": None}, UNREGISTERED]
)
def test_what_the_node_does_not_use_is_no_fault(told: t.Dict[str, t.Any]) -> None:
    assert failures(node(told)) == {}


def test_the_order_of_devices_does_not_matter() -> None:
    cdi = {**CDI, "devices": CDI["devices"][::-1]}
    assert failures(node({"cdi": cdi, "mig_uuids": list(MIGS[::-1])})) == {}


def test_only_the_first_of_many_unhealthy_devices_are_named() -> None:
    devices = {f"GPU-{number}": "Unhealthy" for number in range(9)}
    (text,) = failures(node({"resources": {"gpu": {"devices": devices}}})).values()
    assert "gpu GPU-3; and 5 more)" in text
    assert "GPU-4" not in text


def test_a_message_names_every_failed_check() -> None:
    one = Check("driver", False, "it is not there", "install it")
    assert message([one, Check("GPUs", True)]) == "driver: it is not there. Next step: install it"
    two = Check("GPUs", False, "none answers", "look")
    assert message([one, two, Check("CDI", True)]).splitlines() == [
        "2 of 3 checks fail",
        "driver: it is not there. Next step: install it",
        "GPUs: none answers. Next step: look",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.sampled_from(sorted(GOOD))
INNER = st.sampled_from(sorted({"state", "problems", "problem", "missing", "devices", *CDI}))
TOLD = st.dictionaries(PARTS, JSON | st.dictionaries(INNER, JSON, max_size=4))


@given(
    told=TOLD,
    problem=st.text(),
    gpus=st.sets(st.sampled_from((PLAIN, PARTED))),
    migs=st.sets(st.sampled_from(MIGS)),
    on_bus=st.integers(0, 3),
    gpu_count=st.integers(-2, 3),
)
def test_whatever_is_found_a_check_has_a_cause_and_a_next_step_or_holds(
    told: t.Dict[str, t.Any],
    problem: str,
    gpus: t.Set[t.Any],
    migs: t.Set[str],
    on_bus: int,
    gpu_count: int,
) -> None:
    one = node(
        told, driver_problem=problem, gpus=tuple(gpus), mig_uuids=tuple(migs), pci_gpus=on_bus
    )
    found = checks(one, gpu_count)
    assert [check.name for check in found] == NAMES
    for check in found:
        assert check.holds == (check.cause == "") == (check.next_step == "")
        assert check.holds or str(check) in message(found)
    assert (message(found) == "") == all(check.holds for check in found)
    if gpu_count >= 0:
        assert dict(zip(NAMES, found, strict=True))["GPUs"].holds == (len(gpus) == gpu_count)


@given(st.text() | JSON.filter(lambda one: not isinstance(one, dict)).map(json.dumps))
def test_an_answer_that_is_no_status_is_that_of_no_daemon(text: str) -> None:
    assert Daemon.of(text) == Daemon()


def test_an_answer_that_is_cut_short_or_too_deep_is_that_of_no_daemon() -> None:
    text = json.dumps(GOOD)
    assert Daemon.of(text[: len(text) // 2]) == Daemon()
    assert Daemon.of("[" * 100_000) == Daemon()
    assert "it does not run" in failures(node(daemon=Daemon.of("")))["device plugin"]
