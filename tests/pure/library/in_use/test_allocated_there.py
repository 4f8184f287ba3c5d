# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has GPUs, from the kubelet, from what it keeps on disk, or not known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.dra.checkpoint import (
    PREPARED,
    Device,
    Instance,
    PreparedClaim,
    dump,
    entry,
)
from ansible_collections.gpu.node.plugins.module_utils._base.dra.names import CHECKPOINT
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import names
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine import allocated

from tests.fakes.library.fakes import FakeHost

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
OTHER = "11111111-aaaa-bbbb-cccc-0123456789ab"
STATIC = "5f0d2b6c9a3e4f1d8b7a6c5d4e3f2a1b"
GPU = "GPU-00000000-aaaa-bbbb-cccc-0123456789ab"
WORDS = f"pod team/train (container main) with nvidia.com/gpu {GPU}"
SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
FOLDER = f"/var/log/pods/team_train_{UID}"
SILENT = Completed(1, "", "ERROR the kubelet does not report which pods have which devices")


def asking(socket: str = SOCKET) -> tuple[str, ...]:
    return (PROGRAM, "pods", "--json", "--pod-resources", socket)


def answer(**changes: str) -> str:
    one = {"namespace": "team", "pod": "train", "container": "main", "device": GPU}
    one |= {"resource": "nvidia.com/gpu", **changes}
    return json.dumps({"version": 1, "allocations": [one]})


def kept(resource: str = "nvidia.com/gpu") -> str:
    entry = {"PodUID": UID, "ContainerName": "main", "ResourceName": resource}
    entry |= {"DeviceIDs": {"-1": [GPU]}, "AllocResp": "CkIK"}
    return json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}})


def claim(device: str = "gpu-0-mig-1g10gb-19-3", namespace: str = "team") -> str:
    """Return a checkpoint of the DRA driver with a claim."""
    instance = Instance(19, 3, made=True, gi=7, uuid="MIG-x")
    one = Device("r0", "node-1", device, "GPU-x", 0, instance=instance)
    held = PreparedClaim(UID, namespace, "part", PREPARED, (one,))
    return dump({UID: entry(held)})


def told(files: dict[str, str], *commands: Any) -> tuple[str, ...]:
    """Return who has GPUs on a machine with these files, whose commands answer so."""
    return names(allocated.observe(FakeHost(files, dict(commands))))


def cgroup(uid: str) -> str:
    return f"0::/kubepods/besteffort/pod{uid}/1234\n"


def test_the_kubelet_is_asked_through_the_daemons_program() -> None:
    assert told({SOCKET: ""}, (asking(), answer())) == (WORDS,)


def test_a_node_without_a_kubelet_has_given_nothing_away() -> None:
    host = FakeHost({}, {})
    assert allocated.observe(host) == ()
    assert host.ran == []


def test_k0s_has_its_socket_elsewhere() -> None:
    socket = "/var/lib/k0s/kubelet/pod-resources/kubelet.sock"
    assert told({socket: ""}, (asking(socket), answer())) == (WORDS,)


def test_other_resources_are_nobodys_business() -> None:
    fpga = answer(resource="example.com/fpga", device="0")
    assert told({SOCKET: ""}, (asking(), fpga)) == ()


@pytest.mark.parametrize(
    "commands",
    [
        [],  # the daemon is not deployed
        [(asking(), SILENT)],
        [(asking(), Completed(2, "", "invalid choice: 'pods'"))],  # a release before this one
        [(asking(), '{"version": 2}')],
    ],
)
def test_a_kubelet_that_can_not_be_asked_has_a_checkpoint(commands: list[Any]) -> None:
    files = {
        SOCKET: "",
        allocated.CHECKPOINT: kept(),
        f"/var/lib/kubelet/pods/{UID}/etc-hosts": "",
        f"{FOLDER}/main/0.log": "",
    }
    assert told(files, *commands) == (WORDS,)
    del files[f"{FOLDER}/main/0.log"]
    assert told(files, *commands)[0].startswith(f"pod {UID} (container main)")
    # The kubelet removes the folders of pods that are gone, and leaves the checkpoint as it was.
    del files[f"/var/lib/kubelet/pods/{UID}/etc-hosts"]
    assert told(files, *commands) == ()


def test_a_kubelet_that_gave_nothing_away_has_no_checkpoint() -> None:
    assert told({SOCKET: ""}, (asking(), SILENT)) == ()


@pytest.mark.parametrize(
    "files",
    [
        {allocated.CHECKPOINT: "{}"},
        {"/var/lib/kubelet/dra_manager_state": '{"Data":"{\\"gpu.nvidia.com\\":{}}"}'},
    ],
)
def test_what_is_not_known_is_an_error_with_a_next_step(files: dict[str, str]) -> None:
    with pytest.raises(NodeError, match="which pods have GPUs") as refused:
        told({SOCKET: "", **files}, (asking(), SILENT))
    assert "the kubelet does not report" in refused.value.cause
    assert "gpu.node.gpu_nodes" in refused.value.hint


def test_claims_of_which_an_older_kubelet_does_not_tell_are_not_known() -> None:
    files = {SOCKET: "", "/var/lib/kubelet/dra_manager_state": '{"Data":"gpu.nvidia.com"}'}
    with pytest.raises(NodeError, match="which pods have GPUs") as refused:
        told(files, (asking(), answer()))
    assert "KubeletPodResourcesDynamicResources" in refused.value.cause
    claimed = answer(resource="gpu.nvidia.com", device="gpu-0")
    (words,) = told(files, (asking(), claimed))
    assert words.endswith("with gpu.nvidia.com gpu-0")


# --- pods that have ended ---

NODE = {
    SOCKET: "",
    "/proc/stat": "cpu 1\nbtime 1000\n",
    "/proc/77/cgroup": cgroup(OTHER),  # of a pod without a GPU
    f"{FOLDER}/main/0.log": "",
}


def with_logs(files: dict[str, str], written: float = 2000.0) -> tuple[str, ...]:
    host = FakeHost(files, {asking(): answer()})
    host.times = dict.fromkeys(files, written)
    return names(allocated.observe(host))


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert with_logs(NODE) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"/proc/78/cgroup": cgroup(UID)},
        {"/proc/77/cgroup": "0::/elsewhere"},  # no pod is seen to run: the layout is not known
        {"/proc/stat": ""},
    ],
    ids=["it runs", "cgroups are unknown", "the boot is unknown"],
)
def test_a_pod_that_may_run_holds_what_it_has(change: dict[str, str]) -> None:
    assert with_logs({**NODE, **change}) == (WORDS,)


def test_a_pod_that_begins_or_comes_back_after_a_boot_holds_what_it_has() -> None:
    assert with_logs(NODE, written=999.0) == (WORDS,)
    begun = {path: text for path, text in NODE.items() if not path.endswith(".log")}
    assert with_logs({**begun, f"{FOLDER}/main": ""}) == (WORDS,)


def test_a_static_pod_holds_what_it_has() -> None:
    """Its UID is of another form, by which no process is found."""
    files = {path: text for path, text in NODE.items() if not path.endswith(".log")}
    files[f"/var/log/pods/team_train_{STATIC}/main/0.log"] = ""
    assert with_logs(files) == (WORDS,)


def test_a_claim_holds_what_it_has_whatever_the_kubelet_says() -> None:
    words = "claim team/part with gpu.node gpu-0-mig-1g10gb-19-3"
    assert told({CHECKPOINT: claim()}) == (words,)
    nothing = '{"version": 1, "allocations": []}'
    assert told({SOCKET: "", CHECKPOINT: claim()}, (asking(), nothing)) == (words,)
    files = {SOCKET: "", CHECKPOINT: claim("gpu-0")}
    pod = answer(resource="gpu.node", device="gpu-0")
    assert told(files, (asking(), pod)) == ("pod team/train (container main) with gpu.node gpu-0",)


def test_claims_of_a_damaged_checkpoint_are_not_known() -> None:
    with pytest.raises(NodeError, match="is damaged"):
        told({CHECKPOINT: claim().replace("team", "tea")})
