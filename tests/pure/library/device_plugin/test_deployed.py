# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A daemon that is deployed, does not become ready, and is put back, on a machine of dictionaries."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin import (
    capability as deployment,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.rollback import (
    Proven,
    parse,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.status import STATUS
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import UNIT
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import CONFIG

from tests.fakes.clock import Clock
from tests.fakes.library.agent_host import (
    KEPT,
    LABELS,
    PREFIX,
    UNIT_FILE,
    AgentHost,
    deploy,
    parameters,
)


def in_force(machine: AgentHost) -> t.Tuple[str, ...]:
    manager = UNIT_FILE.replace("gpu-device-plugin", "gpu-mps")
    return machine.current, *(machine.files[one] for one in (UNIT_FILE, manager, CONFIG))


def test_a_release_that_serves_stays_and_leaves_one_old_one() -> None:
    machine = AgentHost()
    for digest in ("r1", "r2", "r3"):
        machine.times[f"{PREFIX}/releases/{digest}/.complete"] = float(digest[1])
        deploy(machine, digest)
        assert machine.current == digest
    assert machine.listdir(f"{PREFIX}/releases") == ["r2", "r3"]
    assert KEPT not in machine.files


def test_a_release_that_does_not_become_ready_is_taken_back() -> None:
    machine = AgentHost("r2")
    deploy(machine, "r1")
    before = in_force(machine)
    with pytest.raises(NodeError, match="release r1 with its configuration was restored") as caught:
        deploy(machine, "r2")
    assert caught.value.details == {"rolled_back": True, "release": "r1"}
    assert caught.value.cause == "it said this"
    assert in_force(machine) == before
    assert "GPU_NODE_RELEASE=r1" in machine.files[f"/proc/{machine.pid}/environ"]
    assert KEPT not in machine.files
    machine.bad = ()
    deploy(machine, "r2")
    assert machine.current == "r2"


def test_a_release_that_ends_again_and_again_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deployment, "time", Clock())
    machine = AgentHost("r2")
    deploy(machine, "r1")
    machine.crashes = True
    with pytest.raises(NodeError, match="the device plugin ends again and again; release r1"):
        deploy(machine, "r2", 600)
    assert machine.current == "r1"


def test_a_configuration_that_does_not_become_ready_is_taken_back() -> None:
    machine = AgentHost("strategy")
    deploy(machine, "r1")
    before = in_force(machine)
    with pytest.raises(NodeError, match="was restored and serves"):
        deploy(machine, "r1", strategy="single")
    assert in_force(machine) == before


def test_the_first_of_all_has_nothing_to_go_back_to() -> None:
    machine = AgentHost("r1")
    with pytest.raises(NodeError, match="after 0 s the device plugin's state is refused") as caught:
        deploy(machine, "r1")
    assert "rolled_back" not in caught.value.details
    assert machine.current == "r1"


def test_where_the_old_one_does_not_serve_either_both_stories_are_told() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    machine.bad = ("r1", "r2")
    with pytest.raises(NodeError, match="was restored, but after 0 s") as caught:
        deploy(machine, "r2")
    assert caught.value.details == {"rolled_back": False}
    assert machine.current == "r1"
    kept = parse(machine.files[KEPT])
    assert kept is not None
    assert kept.release == "r1"


def test_the_new_parser_refuses_before_anything_changes() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    before, pid = in_force(machine), machine.pid
    with pytest.raises(NodeError, match="config: the device plugin refuses it: r2 refuses"):
        deploy(machine, "r2", unknown=1)
    assert in_force(machine) == before
    assert machine.pid == pid
    deploy(machine, "r1", unknown=1)  # which the old one's takes


@pytest.mark.parametrize(
    "at", ["tar -xzf", "-m venv", "pip install", "check-config", "daemon-reload", "restart"]
)
def test_a_run_that_is_killed_is_finished_or_taken_back_by_the_next(at: str) -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    before = in_force(machine)
    machine.killed_at = at
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r2", more=1)
    machine.killed_at = ""
    machine.bad = ("r2",)
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        deploy(machine, "r2", more=1)
    assert in_force(machine) == before
    machine.bad = ()
    deploy(machine, "r2", more=1)
    assert machine.current == "r2"
    assert KEPT not in machine.files


def test_a_run_that_is_killed_while_it_waits_is_known_to_the_next() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    machine.bad = ("r2",)
    machine.killed_at = "journalctl"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r2")
    assert machine.current == "r2"
    kept = Proven("r1", machine.files[CONFIG], "unit of r1", "unit of MPS of r1")
    assert parse(machine.files[KEPT]) == kept
    machine.killed_at = ""
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        deploy(machine, "r2")
    assert machine.current == "r1"
    assert machine.listdir(f"{PREFIX}/releases") == ["r1", "r2"]


def test_the_release_that_served_last_outlives_several_that_do_not() -> None:
    machine = AgentHost("r2", "r3")
    deploy(machine, "r1")
    machine.killed_at = "journalctl"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r2")
    machine.killed_at = ""
    assert "GPU_NODE_RELEASE=r2" in machine.files[f"/proc/{machine.pid}/environ"]
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        deploy(machine, "r3")
    assert machine.current == "r1"


def test_what_serves_now_is_better_than_what_an_earlier_run_kept() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    machine.killed_at = "restart"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r1", early=1)
    machine.killed_at = ""
    machine.start()  # as the daemon does by itself when its configuration changes
    machine.bad = ("late",)
    before = in_force(machine)
    with pytest.raises(NodeError, match="was restored and serves"):
        deploy(machine, "r1", late=1)
    assert in_force(machine) == before


def test_a_release_that_is_gone_is_not_put_back() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    machine.files[KEPT] = json.dumps({"release": "gone", "config": "c", "unit": "u"})
    machine.bad = ("r2",)
    with pytest.raises(NodeError, match="release r1"):
        deploy(machine, "r2")


def test_it_waits_until_the_kubelet_has_accepted_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    status = json.loads(machine.files[STATUS])
    status["resources"] = {"nvidia.com/gpu": {"registered": False, "devices": {}}}
    machine.files[STATUS] = json.dumps(status)
    machine.files["/var/lib/kubelet/device-plugins/kubelet.sock"] = ""

    def news(_self: DevicePluginCapability) -> None:
        status["resources"]["nvidia.com/gpu"]["registered"] = True
        machine.files[STATUS] = json.dumps(status)

    monkeypatch.setattr(DevicePluginCapability, "_await_news", news)
    found = DevicePluginCapability(machine, parameters("r1", 5), check_mode=False)
    (step,) = found.plan(found.observe()).steps
    assert step.summary == "wait: the kubelet has not accepted nvidia.com/gpu"
    found.apply(step)
    assert found.plan(found.observe()).steps == ()
    assert ("systemctl", "restart", UNIT) not in machine.ran[-4:]


def test_what_the_daemon_leaves_behind_goes_with_it() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    kept = ("health.json", "health.clear", "time_slices.json")
    ours = (
        *(f"/run/gpu-node/{name}" for name in kept),
        "/run/cdi/k8s.device-plugin.nvidia.com-gds.json",
        "/var/lib/gpu-device-plugin/configuration.json",
    )
    theirs = ("/run/cdi/nvidia.com-gpu.json", "/etc/cdi/nvidia.yaml")
    machine.files.update(dict.fromkeys((*ours, *theirs), "{}"))
    params = {**parameters("", 0), "state": "absent"}
    found = DevicePluginCapability(machine, params, check_mode=False)
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert machine.listdir(PREFIX) == []
    assert not {CONFIG, UNIT_FILE, *ours} & set(machine.files)
    assert set(theirs) <= set(machine.files)


@pytest.mark.attack("envvar-takes-gpus")
@pytest.mark.parametrize(
    ("strategy", "toolkit", "names", "risk"),
    [
        (None, "", ["config", "shared"], "NVIDIA_VISIBLE_DEVICES"),  # NVIDIA's default is envvar
        ("envvar", "", ["config", "shared"], "NVIDIA_VISIBLE_DEVICES"),
        (["cdi-cri"], "", ["shared"], "NVIDIA_VISIBLE_DEVICES"),
        (
            None,
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n",
            ["config", "shared"],
            "pods get no GPU",
        ),
    ],
)
def test_the_role_warns_where_an_image_may_take_gpus(
    strategy: t.Any, toolkit: str, names: t.List[str], risk: str
) -> None:
    machine = AgentHost()
    machine.files["/etc/nvidia-container-runtime/config.toml"] = toolkit
    chosen = {"flags": {"plugin": {"deviceListStrategy": strategy}}} if strategy else {}
    params = {
        **parameters("r1", 0, **chosen),
        "configs": {"shared": {"version": "v1"}},
        "labels": {**LABELS, "output": "off"},
    }
    found = DevicePluginCapability(machine, params, check_mode=True)
    plan = found.plan(found.observe())
    assert [one.partition(":")[0] for one in plan.warnings] == names
    assert all(risk in one for one in plan.warnings)


def test_an_end_takes_the_settings_of_mps_daemons() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    gpu, folder = "GPU-1", "/run/gpu-node/mps"
    machine.files[f"{folder}/{gpu}.settings.json"] = '{"root": "/run/x"}'
    machine.files[f"/run/x/{gpu}.json"] = '{"clients": 1}'
    params = {**parameters("r1", 0), "state": "absent"}
    found = DevicePluginCapability(machine, params, check_mode=False)
    with pytest.raises(NodeError, match=rf"clients of {gpu} \(1\)"):
        found.plan(found.observe())
    del machine.files[f"/run/x/{gpu}.json"]
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert f"{folder}/{gpu}.settings.json" not in machine.files
    assert ("systemctl", "start", "gpu-mps.service") in machine.ran  # which ends them, and itself
    assert ("systemctl", "stop", "gpu-mps.service") not in machine.ran


def test_an_end_that_takes_too_long_is_said() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    machine.files["/run/gpu-node/mps/manager.json"] = '{"devices": {"GPU-1": "/run/x"}}'
    machine.mps_active = True
    params = {**parameters("r1", 0), "state": "stopped"}
    found = DevicePluginCapability(machine, params, check_mode=False)
    (step,) = (one for one in found.plan(found.observe()).steps if one.action == "stop_mps")
    with pytest.raises(
        NodeError, match="after 0 s the MPS control daemons of GPU-1 still run: clients"
    ):
        found.apply(step)
