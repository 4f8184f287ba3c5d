# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices a claim's results are, whether there is room, what is left to do, and what containers get."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import (
    PREPARED,
    PREPARING,
    UNPREPARING,
    Device,
    Instance,
    PreparedClaim,
    dump,
    entry,
    load,
)
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._cdi.rules import problems
from gpu_plugin.config.allocation import Dra
from gpu_plugin.config.configuration import Config
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.dra.prepare import plan
from gpu_plugin.dra.prepare.cdi import specification
from gpu_plugin.dra.prepare.claims import quantity
from gpu_plugin.dra.values import Claim, Edits, Mount, Result
from gpu_plugin.model.inventory import GpuView, Inventory, Kind, Problem
from gpu_plugin.slices import build
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import gpu, inventory

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
GIB = 1 << 30
LIMITS = {"GPU-0": plan.Limits(32 * GIB, 10)}
SHARE = {"memory": 10 * GIB, "cores": 30, "shares": 1}


def resolved(result: Result, *views: GpuView, **more: Any) -> Device:
    found = Inventory("550", views or (GpuView(gpu(0)),), **more)
    return plan.resolve(Claim(UID, "ns", "c", (result,)), found, LIMITS)[0]


def held(*devices: Device, uid: str = UID, state: str = PREPARED) -> PreparedClaim:
    return PreparedClaim(uid, "ns", f"c-{uid[:1]}", state, devices, ("pod",), "cgroup")


def share(memory: int = 10 * GIB, cores: int = 0, **more: Any) -> Device:
    consumed = {"memory": memory, "cores": cores, "shares": 1}
    return Device("r", "n", "gpu-0-share", "GPU-0", 0, "s", consumed, **more)


@given(st.integers(1024, 300_000), st.integers(10, 10_000), st.booleans())
@example(49140, 115, False)  # an RTX A6000
@example(15360, 205, False)  # a T4
def test_the_share_that_fills_a_card_is_always_prepared(
    mib: int, hundredths: int, odd: bool
) -> None:
    card = replace(gpu(0), memory_total=(mib << 20) + odd)
    dra = Dra("dra", enforcement="none", memory_scaling=hundredths / 100, best_effort=True)
    (_counters, part) = build(inventory(GpuView(card)), Config(dra=dra), {}, {}, node="n")
    published = part["devices"][1]["capacity"]["memory"]["value"]
    one = replace(share(quantity(published, "memory")), gpu=card.uuid)
    limits = plan.limits([card], dra)
    assert [*limits] == [card.uuid]
    plan.check_room(held(one), (), limits)


def test_what_claims_have_stays_published() -> None:
    """A share that is no longer published takes nothing of its GPU, so that all of that would be given away too."""
    whole, part = Device("r", "n", "gpu-0", "GPU-0", 0), share()
    mig = replace(whole, device="gpu-1-mig-1g10gb-19-0", instance=Instance(19, 0, made=True))
    for publish, kept, gone in (("gpu", whole, part), ("share", part, whole)):
        dra = Dra("dra", publish=publish)
        plan.check_published(dra, [held(kept, mig)])
        with pytest.raises(
            ConfigError,
            match=rf"publish can't be {publish} now: in use by claim ns/c-0 with {gone.device}\.",
        ):
            plan.check_published(dra, [held(kept, mig), held(gone)])
    plan.check_published(Dra("dra"), [held(whole, part)])


def test_devices_are_found_by_their_names() -> None:
    assert resolved(Result("r", "n", "gpu-0")).gpu == gpu(0).uuid
    on = GpuView(replace(gpu(0), mig_current=True))
    assert resolved(Result("r", "n", "gpu-0-mig-1g10gb-me-20-6"), on).instance == Instance(
        20, 6, made=True
    )


def test_a_device_that_must_not_be_given_is_refused() -> None:
    for result, views, words in (
        (Result("r", "n", "gpu-7"), (), "gpu-7 is not on this node"),
        (Result("r", "n", "gpu-0-mig-1g10gb-19-0"), (), "MIG mode of GPU 0 is off by now"),
        (
            Result("r", "n", "gpu-0"),
            (GpuView(replace(gpu(0), mig_current=True)),),
            "MIG mode of GPU 0 is on by now",
        ),
        (
            Result("r", "n", "gpu-0"),
            (GpuView(gpu(0), problem=Problem(Kind.FAULT, "XID 79")),),
            "gpu-0 can't be used: XID 79",
        ),
        (Result("r", "n", "gpu-0-share"), (), "is allocated without memory"),
        (
            Result("r", "n", "gpu-0", parameters={"priority": 1}),
            (),
            "gpu-0 has parameters of a share, and is none: priority",
        ),
    ):
        with pytest.raises(NodeError, match=re.escape(words)):
            resolved(result, *views)


def test_nothing_is_given_while_the_driver_is_away() -> None:
    with pytest.raises(NodeError, match="the driver does not answer: not loaded"):
        resolved(Result("r", "n", "gpu-0"), absent="not loaded")


def test_a_gpu_of_the_device_plugin_is_not_given() -> None:
    claim = Claim(UID, "ns", "c", (Result("r", "n", "gpu-0"),))
    with pytest.raises(NodeError, match="leaves its GPU to the device plugin"):
        plan.resolve(claim, inventory(GpuView(gpu(0))), {})


def test_what_other_claims_have_is_not_given_again() -> None:
    for new, words in (
        (share(memory=13 * GIB), "not enough memory"),
        (share(memory=1, cores=41), "not enough cores"),
        (Device("r", "n", "gpu-0", "GPU-0", 0), "gpu-0 is not free: claim ns/c-1 has gpu-0-share"),
    ):
        others = [held(share(cores=30), uid=f"{n}{UID[1:]}") for n in (1, 2)]
        plan.check_room(held(share(memory=12 * GIB, cores=40)), others, LIMITS)
        with pytest.raises(NodeError, match=words):
            plan.check_room(held(new), others, LIMITS)
        with pytest.raises(NodeError, match="not enough shares"):
            plan.check_room(held(share(memory=1)), others, {"GPU-0": plan.Limits(99 * GIB, 2)})


def test_an_administrators_claim_takes_nothing_from_others() -> None:
    whole = Device("r", "n", "gpu-0", "GPU-0", 0)
    for_admin = replace(whole, admin=True)
    other = f"1{UID[1:]}"
    assert resolved(Result("r", "n", "gpu-0", admin=True)).admin
    all_of_it = {"memory": 32 * GIB, "cores": 0, "shares": 1}
    monitor = resolved(Result("r", "n", "gpu-0-share", "s", consumed=all_of_it, admin=True))
    assert plan.shares(held(monitor)) == ()
    plan.check_published(Dra("dra", publish="share"), [held(monitor)])
    for new, there in (
        (for_admin, share()),
        (for_admin, whole),
        (share(), for_admin),
        (whole, for_admin),
        (monitor, share()),
        (monitor, whole),
        (share(), monitor),
        (whole, monitor),
    ):
        plan.check_room(held(new), [held(there, uid=other)], LIMITS)


def test_what_is_left_to_do_follows_from_what_is_written_down() -> None:
    everything = (plan.NOTE, plan.INSTANCES, plan.GIVE, plan.DONE)
    assert plan.steps(None, intact=False) == everything
    assert plan.steps(held(state=UNPREPARING), intact=True) == (plan.UNDO, *everything)
    assert plan.steps(held(state=PREPARING), intact=True) == everything[1:]
    assert plan.steps(held(state=PREPARED), intact=False) == everything[1:]
    assert plan.steps(held(state=PREPARED), intact=True) == ()
    for state in (PREPARING, PREPARED):  # allocated anew under its UID
        assert plan.steps(held(state=state), intact=True, moved=True) == (plan.UNDO, *everything)


def test_shares_have_their_limits_and_their_priority() -> None:
    given = {"priority": 1, "coreLimit": False}
    (first,) = plan.shares(held(share(cores=30)))
    (second,) = plan.shares(held(share(cores=30, parameters=given)))
    assert (first.memory, first.cores, first.priority) == (10 * GIB, 30, 0)
    assert (second.cores, second.priority, second.pods) == (0, 1, ("pod",))


def test_the_checkpoint_is_read_as_it_was_written_and_no_other_way() -> None:
    instance = Instance(19, 3, made=True, gi=7, uuid="MIG-x", era="e")
    one = held(share(parameters={"priority": 1}), Device("q", "n", "d", "G", 1, instance=instance))
    text = dump({UID: entry(one)})
    assert load(text) == {UID: one}
    assert "admin" not in text  # which a version before this one could not read
    of_admin = held(replace(share(), admin=True))
    assert load(dump({UID: entry(of_admin)})) == {UID: of_admin}
    assert load(None) == {}
    for damaged in (text[:-3], text.replace('"made":true', '"made":false'), "[]", ""):
        with pytest.raises(NodeError, match=r"checkpoint\.json is damaged"):
            load(damaged)
    with pytest.raises(NodeError, match="of another version"):
        load(text.replace('"version":1', '"version":2'))


def node_spec(*names: str) -> dict[str, Any]:
    devices = [
        {"name": one, "containerEdits": {"deviceNodes": [{"path": f"/dev/{one}"}]}} for one in names
    ]
    mount = {"hostPath": "/l", "containerPath": "/l"}
    common = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [mount]}
    kind = "k8s.device-plugin.nvidia.com/gpu"
    return {"cdiVersion": "0.6.0", "kind": kind, "devices": devices, "containerEdits": common}


def test_a_claims_specification_is_the_nodes_with_the_enforcements_edits() -> None:
    edits = Edits({"CUDA_MPS_PIPE_DIRECTORY": "/p"}, (Mount("/a", "/b"),))
    devices = (share(), Device("q", "n", "gpu-1", "GPU-1", 1))
    spec = specification(UID, devices, [node_spec("GPU-0", "GPU-1")], {}, edits)
    assert problems(spec) == []
    assert spec["containerEdits"] == node_spec()["containerEdits"]
    first, second = spec["devices"]
    assert first["name"] == f"{UID}-gpu-0-share-s"
    assert first["containerEdits"] == {
        "deviceNodes": [{"path": "/dev/GPU-0"}],
        "env": ["CUDA_MPS_PIPE_DIRECTORY=/p"],
        "mounts": [
            {"hostPath": "/a", "containerPath": "/b", "options": ["ro", "nosuid", "nodev", "bind"]}
        ],
    }
    assert second["containerEdits"] == {"deviceNodes": [{"path": "/dev/GPU-1"}]}


def test_a_mig_device_that_was_just_made_is_in_it_at_once() -> None:
    part = Device("r", "n", "m", "GPU-0", 0, instance=Instance(19, 0, made=True, uuid="MIG-x"))
    nodes = {"MIG-x": (("/dev/nvidia0", 0, 0), ("/dev/nvidia-caps/nvidia-cap7", 236, 7))}
    spec = specification(UID, (part,), [node_spec("GPU-9")], nodes, Edits())
    assert problems(spec) == []
    assert spec["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/nvidia0", "permissions": "rw"},
        {
            "path": "/dev/nvidia-caps/nvidia-cap7",
            "type": "c",
            "major": 236,
            "minor": 7,
            "permissions": "rw",
        },
    ]


def test_a_gpu_that_the_node_does_not_describe_is_not_given() -> None:
    with pytest.raises(NodeError, match=r"no CDI specification .* gpu-cdi\.service"):
        specification(UID, (share(),), [node_spec("GPU-9")], {}, Edits())
