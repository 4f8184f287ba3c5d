# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver on a node: it comes, it goes, and what it leaves goes with it."""

from __future__ import annotations

import hashlib
import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra import names
from ansible_collections.gpu.node.plugins.module_utils._base.dra.checkpoint import (
    PREPARED,
    Device,
    PreparedClaim,
    dump,
    entry,
)
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet.pods import LOGS
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.registration import KUBELET
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.agent_host import (
    DRA,
    DRA_UNIT,
    UNIT_FILE,
    AgentHost,
    deploy,
    parameters,
    run,
)

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
DRA_FILE = f"/etc/systemd/system/{DRA_UNIT}"
LEFT = (
    names.CHECKPOINT,
    names.STATUS,
    names.REGISTRATION,
    names.SOCKET,
    "/run/cdi/gpu.node-claim_1.json",
)


class DraHost(AgentHost):
    """A machine whose kubelet says which pods have which devices."""

    def __init__(self, *bad: str) -> None:
        super().__init__(*bad)
        self.given: list[dict[str, str]] = []
        self.asked = 0
        self.driver = 0  # the process of the DRA driver
        self.says: dict[str, t.Any] = {"state": "serving", "registered": False}

    def run(self, argv: t.Sequence[str], **more: t.Any) -> Completed:
        if argv[1:2] == ["pods"]:
            self.asked += 1
            return Completed(0, json.dumps({"version": 1, "allocations": self.given}), "")
        return super().run(argv, **more)

    def systemctl(self, words: t.Tuple[str, ...]) -> Completed:
        if DRA_UNIT not in words:
            return super().systemctl(words)
        self.driver = {"restart": 815, "stop": 0, "disable": 0}.get(words[1], self.driver)
        if self.driver:
            self.files["/proc/815/environ"] = f"GPU_NODE_RELEASE={self.current}\0"
            self.files[names.STATUS] = json.dumps({"pid": 815, **self.says})
        state = "active" if self.driver else "inactive"
        shown = f"ActiveState={state}\nUnitFileState=enabled\nMainPID={self.driver}\n"
        return Completed(0, shown if words[1] == "show" else "", "")

    def give(self, resource: str, device: str) -> None:
        who = {"namespace": "team", "pod": "train", "container": "main"}
        self.files[SOCKET] = ""
        self.given = [{**who, "resource": resource, "device": device}]


CLAIM = PreparedClaim(
    "1", "team", "train", PREPARED, (Device("r", "n", "gpu-0-share", "GPU-0", 0),)
)


def asked(allocation: str, state: str = "started") -> dict[str, t.Any]:
    dra = {**DRA, "devices": ["0"] if allocation == "both" else []}
    return {**parameters("r1", 0), "allocation": allocation, "dra": dra, "state": state}


def allocate(machine: AgentHost, allocation: str, state: str = "started") -> t.Any:
    return run(machine, asked(allocation, state))


def test_a_node_without_dra_is_asked_nothing_more() -> None:
    node = DraHost()
    node.give("nvidia.com/gpu", "GPU-0")
    deploy(node, "r1")
    assert DRA_FILE not in node.files
    assert node.asked == 0
    assert not [words for words in node.ran if DRA_UNIT in words and words[1] != "show"]


def test_the_driver_comes_and_goes_without_a_trace() -> None:
    node = DraHost()
    deploy(node, "r1")
    before = dict(node.files)
    allocate(node, "dra")
    assert node.files[DRA_FILE] == "driver of r1"
    assert node.driver
    for path in LEFT:
        node.files[path] = dump({}) if path == names.CHECKPOINT else "made by the driver"
    allocate(node, "device_plugin")
    assert not node.driver
    assert not [one for one in set(node.files) - set(before) if not one.startswith("/proc/")]
    assert UNIT_FILE in node.files


@pytest.mark.parametrize("content", [None, "another"])
def test_a_library_without_its_digest_changes_nothing(content: str | None) -> None:
    node = DraHost()
    path, digest = "/usr/local/vgpu/libvgpu.so", hashlib.sha256(b"libvgpu").hexdigest()
    library = {"hami_core_library": path, "hami_core_sha256": digest}
    params = asked("dra")
    params["dra"] = {**params["dra"], **library, "enforcement": "hami-core"}
    if content:
        node.files[path] = content
    before = dict(node.files)
    with pytest.raises(NodeError, match=r"dra\.hami_core_(sha256|library): .* is not valid"):
        run(node, params)
    assert node.files == before
    node.files[path] = "libvgpu"
    run(node, params)
    assert node.driver


def test_a_driver_that_is_to_go_is_told_before_it_is_stopped() -> None:
    """So that it removes its slices; one that is restarted keeps them."""
    for state, allocation, ended in (
        ("started", "device_plugin", ("disable", "--now", DRA_UNIT)),
        ("stopped", "dra", ("disable", "--now", DRA_UNIT)),
        ("absent", "dra", ("disable", "--now", DRA_UNIT)),
        ("started", "both", ("stop", DRA_UNIT)),
    ):
        node = DraHost()
        allocate(node, "dra")
        told = ("systemctl", "kill", "--kill-who=main", "--signal=SIGUSR1", DRA_UNIT)
        assert told not in node.ran
        found = DevicePluginCapability(node, asked(allocation, state), check_mode=False)
        for step in found.plan(found.observe()).steps:
            found.apply(step)
        assert node.ran[node.ran.index(told) + 1] == ("systemctl", *ended), (state, allocation)


@pytest.mark.parametrize(
    ("to", "resource", "device"),
    [("dra", "nvidia.com/gpu", "GPU-0"), ("device_plugin", "gpu.node", "gpu-0-share")],
)
def test_a_switch_while_a_pod_has_a_device_changes_nothing(
    to: str, resource: str, device: str
) -> None:
    node = DraHost()
    allocate(node, "device_plugin" if to == "dra" else "dra")
    node.give(resource, device)
    files, ran = dict(node.files), len(node.ran)
    with pytest.raises(NodeError, match="in use by pod team/train") as refused:
        allocate(node, to)
    assert f"with {resource} {device}" in str(refused.value)
    assert node.files == files
    assert not [words for words in node.ran[ran:] if words[0] == "systemctl" and words[1] != "show"]
    node.given = []
    allocate(node, to)


def test_no_removal_while_a_claim_is_prepared() -> None:
    node = DraHost()
    allocate(node, "dra")
    node.give("gpu.node", "gpu-0-share")
    with pytest.raises(NodeError, match=r"pod team/train .* gpu-0-share"):
        allocate(node, "device_plugin", "absent")
    node.files["/var/lib/kubelet/dra_manager_state"] = '{"Data":"gpu.node"}'
    node.given = []
    with pytest.raises(NodeError, match=r"claims of gpu\.node, of which the kubelet does not tell"):
        allocate(node, "device_plugin", "absent")
    del node.files["/var/lib/kubelet/dra_manager_state"]
    allocate(node, "device_plugin", "absent")
    assert DRA_FILE not in node.files
    assert LOGS not in node.files


def test_what_the_drivers_own_checkpoint_holds_is_in_use() -> None:
    """The pod is gone, and the kubelet has not had its devices given back yet."""
    node = DraHost()
    allocate(node, "dra")
    node.files[names.CHECKPOINT] = dump({CLAIM.uid: entry(CLAIM)})
    with pytest.raises(NodeError, match=r"in use by claim team/train with gpu\.node gpu-0-share"):
        allocate(node, "device_plugin")
    assert node.driver
    allocate(node, "dra")  # it stays
    node.files[names.CHECKPOINT] = dump({})
    allocate(node, "device_plugin")


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"state": "waiting_for_driver", "problem": "no driver"}, "no driver"),
        ({"state": "serving", "registration_problem": "refused"}, "refused"),
        ({"state": "serving"}, "the kubelet does not know of it"),
        ({"pid": 1, "state": "serving", "registered": True}, "it has not reported its state"),
    ],
)
def test_a_driver_that_does_not_serve_is_a_failure(says: dict[str, t.Any], words: str) -> None:
    node = DraHost()
    node.files[KUBELET] = ""
    node.says = says
    for _run in range(2):  # the next one does not take it for done
        with pytest.raises(NodeError, match=f"the DRA driver does not serve: {words}"):
            allocate(node, "dra")
    node.says = {"state": "serving", "registered": True}
    allocate(node, "dra")


def test_a_daemon_that_refuses_the_way_back_has_its_driver_again() -> None:
    node = DraHost()
    allocate(node, "dra")
    node.bad = ('"broken"',)
    params = {**parameters("r1", 0, flags={"broken": 1}), "allocation": "device_plugin"}
    found = DevicePluginCapability(node, params, check_mode=False)
    steps = found.plan(found.observe()).steps

    def carry_out() -> None:
        for step in steps:
            found.apply(step)

    with pytest.raises(NodeError, match="was restored and serves"):
        carry_out()
    assert node.files[DRA_FILE] == "driver of r1"
    assert node.driver
