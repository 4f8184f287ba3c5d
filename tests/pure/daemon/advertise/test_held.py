# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a pod holds is advertised to nobody in another form, whatever is declared meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_plugin._shared._node.users.allocated import Allocation
from gpu_plugin.advertise.decide import WAITS, Advertised, Form, Holders, decide
from gpu_plugin.config.configuration import parse
from gpu_plugin.kubelet.holders import dump, in_force, load
from gpu_plugin.model.inventory import GpuView, Kind
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.fakes.daemon.gpu_builders import inventory, view

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"


def named(one: GpuView, number: int) -> GpuView:
    """Give a GPU and its MIG devices UUIDs of the form that drivers give them."""
    gpu = f"GPU-00000000-0000-0000-0000-00000000000{number}"
    migs = [
        replace(each, uuid=f"MIG-0000000{at}-0000-0000-0000-00000000000{number}", gpu_uuid=gpu)
        for at, each in enumerate(one.mig)
    ]
    return replace(one, gpu=replace(one.gpu, uuid=gpu), mig=tuple(migs))


NODE = inventory(named(view(0), 0), named(view(1, "1g.10gb", "1g.10gb"), 1))
FIRST, SECOND = (one.gpu.uuid for one in NODE.gpus)
PART, OTHER_PART = (one.uuid for one in NODE.gpus[1].mig)
MIXED = "flags: {migStrategy: mixed}"
BY_FOUR = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
BY_TWO = BY_FOUR.replace("4", "2")
RENAMED = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
BY_MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
NAMED = "resources: {gpus: [{pattern: '*', name: h100}]}"
CONFIGURATIONS = ("", MIXED, BY_FOUR, BY_TWO, RENAMED, BY_MPS, NAMED)
CONFIGURATIONS += tuple(f"{MIXED}\n{one}" for one in (BY_FOUR, BY_MPS, NAMED))


def given(pod: str, resource: str, device: str) -> Allocation:
    return Allocation("team", pod, "main", resource, device)


def told(advertised: Advertised, uuid: str) -> set[str]:
    """What is told of all that is advertised of a device."""
    devices = [one for those in advertised.resources.values() for one in those]
    return {str(one.problem or "") for one in devices if one.uuid == uuid}


def form(text: str, uuid: str = FIRST) -> Form:
    return decide(NODE, {}, parse(text)).forms[uuid]


@pytest.mark.parametrize(
    ("before", "now", "resource", "device"),
    [
        ("", BY_FOUR, GPU, FIRST),
        ("", BY_MPS, GPU, FIRST),
        ("", NAMED, GPU, FIRST),
        (BY_FOUR, "", GPU, f"{FIRST}::2"),
        (BY_FOUR, RENAMED, GPU, f"{FIRST}::2"),
        (BY_FOUR, BY_TWO, GPU, f"{FIRST}::2"),
        (BY_FOUR, BY_MPS, GPU, f"{FIRST}::2"),
        (BY_MPS, BY_FOUR, GPU, f"{FIRST}::2"),
        (BY_MPS, "", GPU, f"{FIRST}::2"),
    ],
)
def test_what_a_pod_holds_waits_for_it_in_any_other_form(
    before: str, now: str, resource: str, device: str
) -> None:
    trainer = given("trainer", resource, device)
    holders = Holders((trainer,), {FIRST: form(before)}, {FIRST: form(now)})
    advertised = decide(NODE, {}, parse(now), holders=holders)
    assert told(advertised, FIRST) == {f"{WAITS}{trainer}"}
    assert told(advertised, SECOND) == {""}
    assert FIRST not in advertised.mps
    assert {uuid: one.kind for uuid, one in advertised.held.items()} == {FIRST: Kind.HELD}

    gone = replace(holders, allocations=())
    assert told(decide(NODE, {}, parse(now), holders=gone), FIRST) == {""}


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_what_is_held_as_it_is_offered_waits_for_nobody(text: str) -> None:
    config = parse(text)
    advertised = decide(NODE, {}, config)
    for forms in ({}, advertised.forms):
        every = tuple(
            given(f"pod-{at}", name, one.id)
            for name, devices in advertised.resources.items()
            for at, one in enumerate(devices)
        )
        assert decide(NODE, {}, config, holders=Holders(every, forms)).held == {}


def test_shares_that_are_added_are_free_at_once_and_those_taken_away_when_nobody_has_one() -> None:
    pair = (given("a", GPU, f"{FIRST}::0"), given("b", GPU, f"{FIRST}::1"))
    two, four = {FIRST: form(BY_TWO)}, {FIRST: form(BY_FOUR)}
    assert decide(NODE, {}, parse(BY_FOUR), holders=Holders(pair, two, four)).held == {}
    assert decide(NODE, {}, parse(BY_TWO), holders=Holders(pair, four, two)).held == {}
    pair = (pair[0], given("b", GPU, f"{FIRST}::3"))
    waits = decide(NODE, {}, parse(BY_TWO), holders=Holders(pair, four, two)).held[FIRST]
    assert str(waits) == f"{WAITS}{pair[1]}"


def test_the_first_is_named_and_the_others_are_counted() -> None:
    shares = [given(f"p{number}", GPU, f"{FIRST}::{number}") for number in range(3)]
    holders = Holders((*shares, replace(shares[0], container="side")), {FIRST: form(BY_FOUR)}, {})
    waits = decide(NODE, {}, parse(""), holders=holders).held[FIRST]
    assert str(waits) == f"{WAITS}{shares[0]} and 2 more pods"


def test_a_gpu_waits_for_its_mig_devices_and_they_for_it() -> None:
    part, whole = given("part", MIG, PART), given("whole", GPU, SECOND)
    advertised = decide(NODE, {}, parse(""), holders=Holders((part,)))
    assert told(advertised, SECOND) == {f"{WAITS}{part}"}
    advertised = decide(NODE, {}, parse(MIXED), holders=Holders((whole,)))
    assert [told(advertised, one) for one in (PART, OTHER_PART)] == [{f"{WAITS}{whole}"}] * 2
    advertised = decide(NODE, {}, parse(f"{MIXED}\n{NAMED}"), holders=Holders((part,)))
    assert [told(advertised, one) for one in (PART, OTHER_PART, FIRST)] == [{""}] * 3


def test_what_another_plugin_or_driver_gave_away_is_held_as_well() -> None:
    for other in (
        given("x", "nvidia.com/gpu", "0"),
        given("x", "gpu.nvidia.com", "gpu-0"),
        given("x", "nvidia.com/gpu.shared", f"{FIRST}::1"),
    ):
        advertised = decide(NODE, {}, parse(""), holders=Holders((other,)))
        assert told(advertised, FIRST) == {f"{WAITS}{other}"}
        assert told(advertised, SECOND) == {""}


def test_a_kubelet_that_has_not_answered_leaves_devices_as_they_were_and_no_others() -> None:
    before = {FIRST: form(""), SECOND: form(BY_FOUR, SECOND)}
    config = parse(BY_FOUR)
    silent = decide(NODE, {}, config, holders=Holders(None, before))
    assert {uuid: one.kind for uuid, one in silent.held.items()} == {FIRST: Kind.ASKS}
    assert told(silent, SECOND) == {""}
    asked_before = decide(NODE, {}, config, holders=Holders((), before, before))
    assert {uuid: one.kind for uuid, one in asked_before.held.items()} == {FIRST: Kind.ASKS}
    new = decide(NODE, {}, config, holders=Holders(None, {}))
    assert {one.kind for one in new.held.values()} == {Kind.ASKS}
    assert decide(NODE, {}, config, holders=Holders((), {})).held == {}


def test_what_is_broken_says_that_and_not_who_has_it() -> None:
    broken = inventory(replace(NODE.gpus[0], problem=view(problem="fell off the bus").problem))
    holders = Holders((given("trainer", GPU, FIRST),), {FIRST: form("")}, {})
    assert told(decide(broken, {}, parse(BY_FOUR), holders=holders), FIRST) == {"fell off the bus"}


def test_forms_are_read_as_they_were_kept() -> None:
    forms = decide(NODE, {}, parse(f"{MIXED}\n{BY_MPS}")).forms
    assert load(dump(forms)) == forms
    for wrong in (None, [], {FIRST: []}, {FIRST: [FIRST, "gpu", "whole", "many"]}, {FIRST: 3}):
        with pytest.raises((TypeError, ValueError)):
            load(wrong)


class Kubelet(RuleBasedStateMachine):
    """A kubelet that gives away what is advertised as healthy, by resource and id, and a daemon beside it."""

    @initialize()
    def begin(self) -> None:
        self.pods: dict[str, tuple[Allocation, Form]] = {}
        self.number = 0
        self.holders = Holders((), {})
        self.text = ""
        self.publish()

    def publish(self) -> None:
        self.advertised = decide(NODE, {}, parse(self.text), holders=self.holders)
        forms = in_force(self.holders.forms, self.advertised.forms, self.advertised.held)
        self.holders = replace(self.holders, forms=forms)

    @rule(text=st.sampled_from(CONFIGURATIONS))
    def reconfigure(self, text: str) -> None:
        self.text = text
        self.publish()

    @rule()
    def answer(self) -> None:
        now = tuple(one for one, _form in self.pods.values())
        self.holders = Holders(now, self.holders.forms, self.advertised.forms)
        self.publish()

    @rule()
    def restart(self) -> None:
        self.holders = Holders(None, self.holders.forms)
        self.publish()

    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        taken = {(one.resource, one.device) for one, _form in self.pods.values()}
        free = [
            (name, one)
            for name, devices in self.advertised.resources.items()
            for one in devices
            if not one.problem and (name, one.id) not in taken
        ]
        if free:
            name, device = data.draw(st.sampled_from(free))
            self.number += 1
            pod = f"pod-{self.number}"
            self.pods[pod] = given(pod, name, device.id), self.advertised.forms[device.uuid]

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        del self.pods[data.draw(st.sampled_from(sorted(self.pods)))]

    @invariant()
    def nobody_has_what_another_has_in_another_form(self) -> None:
        by_gpu: dict[str, set[tuple[str, str]]] = {}
        for one, its in self.pods.values():
            uuid = one.device.partition("::")[0]
            gpu = SECOND if uuid in (PART, OTHER_PART) else uuid
            by_gpu.setdefault(gpu, set()).add((its.resource, its.kind))
        assert all(len(forms) == 1 for forms in by_gpu.values())

    @invariant()
    def what_nobody_holds_is_free_once_the_kubelet_was_asked(self) -> None:
        if not self.pods:
            forms = self.holders.forms
            last = Holders((), forms, self.advertised.forms)
            assert decide(NODE, {}, parse(self.text), holders=last).held == {}


TestKubelet = Kubelet.TestCase
