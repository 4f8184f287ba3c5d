# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When the kubelet is asked who holds what, and what is kept for the next process."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._node.users.allocated import SOCKET, UNREPORTED, Allocation
from gpu_plugin.advertise.decide import Advertised, decide
from gpu_plugin.config.configuration import parse
from gpu_plugin.kubelet import holders
from gpu_plugin.kubelet.client import PodResources
from gpu_plugin.kubelet.holders import (
    AGAIN,
    FILE,
    REGISTRATION,
    SELDOM,
    SETTLED,
    SILENCE,
    WITNESS_AGAIN,
    HolderWatch,
)
from gpu_plugin.model.inventory import Inventory, Kind
from gpu_plugin.report import claims
from standin_kubelet.devices import Ledger

from tests.fakes.daemon.gpu_builders import inventory, view
from tests.support.waiting import eventually

GPU = "nvidia.com/gpu"
BY_FOUR = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
ONE, TWO = inventory(view(0)), inventory(view(0), view(1))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def seen(one: HolderWatch, *, waiting: bool = False) -> list[str] | None:
    """Return what the kubelet has told after a tick, in which it is asked if that is due."""
    one.tick(waiting=waiting)
    eventually(lambda: not one._worker.busy)
    given = one.holders.allocations
    return None if given is None else [each.device for each in given]


def offer(one: HolderWatch, now: Inventory, text: str = "") -> Advertised:
    advertised = decide(now, {}, parse(text), holders=one.holders)
    one.advertised(advertised, now)
    return advertised


def test_the_kubelet_is_asked_when_devices_change_and_seldom_besides(
    tmp_path: Path, ledger: Ledger
) -> None:
    clock = Clock()
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert one.holders.allocations is None
    assert seen(one) == []
    ledger.give("a", {GPU: ["GPU-0"]})
    clock.now += SELDOM - 1
    assert seen(one) == []
    clock.now += 1
    assert seen(one) == ["GPU-0"]

    ledger.give("b", {GPU: ["GPU-1"]})
    offer(one, TWO)
    assert not one.settled
    assert seen(one) == ["GPU-0"]
    clock.now += SETTLED
    assert seen(one) == ["GPU-0", "GPU-1"]
    assert one.settled


def test_it_is_asked_again_soon_while_somebody_is_waited_for(
    tmp_path: Path, ledger: Ledger
) -> None:
    clock = Clock()
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    ledger.give("a", {GPU: ["GPU-0"]})
    assert seen(one) == ["GPU-0"]
    ledger.take_back("a")
    clock.now += AGAIN - 1
    assert seen(one, waiting=True) == ["GPU-0"]  # who asks often is in the kubelet's way
    clock.now += 1
    assert seen(one, waiting=True) == []


def test_an_answer_is_news_once(tmp_path: Path, ledger: Ledger) -> None:
    woken: list[bool] = []
    one = HolderWatch(tmp_path, tmp_path, lambda: woken.append(True), Clock())
    one.first_answer(lambda: not woken)
    eventually(lambda: not one._worker.busy)
    assert [one.tick(waiting=False) for _time in range(2)] == [True, False]
    assert woken == [True]


def test_a_silent_kubelet_is_asked_again_soon_and_a_node_without_one_has_no_error(
    tmp_path: Path,
) -> None:
    clock = Clock()
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert seen(one) == []
    assert [chore.error for chore in one.chores] == [None, None, None]

    (tmp_path / SOCKET).parent.mkdir()
    (tmp_path / SOCKET).touch()
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert seen(one) is None
    assert "does not report which pods" in (one.chores[0].error or "")
    (tmp_path / SOCKET).unlink()
    clock.now += AGAIN - 1
    assert seen(one) is None
    clock.now += 1
    assert seen(one) == []


def test_the_next_process_knows_in_which_forms_devices_were_offered(
    tmp_path: Path, ledger: Ledger
) -> None:
    first = HolderWatch(tmp_path, tmp_path, clock=Clock())
    seen(first)
    offer(first, ONE)
    ledger.give("trainer", {GPU: ["GPU-0"]})

    clock = Clock()
    second = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert list(offer(second, ONE, BY_FOUR).held) == ["GPU-0"]
    clock.now += SETTLED
    assert seen(second) == ["GPU-0"]
    assert "trainer" in str(offer(second, ONE, BY_FOUR).held["GPU-0"])
    ledger.take_back("trainer")
    clock.now += AGAIN
    assert seen(second, waiting=True) == []
    assert offer(second, ONE, BY_FOUR).held == {}
    assert HolderWatch(tmp_path, tmp_path).holders.forms["GPU-0"].shares == 4


class Witness:
    """Containers that have devices, of which no kubelet of the test's knows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: tuple[Allocation, ...] = ()
        self.looks = 0
        monkeypatch.setattr(holders, "unreported", self.look)

    def look(self, *_about: object, **_more: object) -> tuple[Allocation, ...]:
        self.looks += 1
        return self.found


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    return Witness(monkeypatch)


def start_kubelet(tmp_path: Path) -> None:
    """Let there be another kubelet than before."""
    path = tmp_path / REGISTRATION
    path.parent.mkdir(exist_ok=True)
    path.with_name("next").touch()
    path.with_name("next").replace(path)


FORGOTTEN = Allocation("team", "train", "4b1d", UNREPORTED, "nvidia0")


def test_what_a_new_kubelet_has_forgotten_is_given_to_nobody(
    tmp_path: Path, ledger: Ledger, witness: Witness
) -> None:
    clock = Clock()
    start_kubelet(tmp_path)
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert seen(one) == []
    one.tick(waiting=False)
    assert one.knows_kubelet
    assert offer(one, ONE).held == {}

    witness.found = (FORGOTTEN,)
    start_kubelet(tmp_path)
    one.tick(waiting=False)
    assert not one.knows_kubelet  # so nothing is registered with it yet
    eventually(lambda: not one._worker.busy)
    assert seen(one) == ["nvidia0"]
    assert one.knows_kubelet
    held = offer(one, ONE).held["GPU-0"]
    assert held.kind is Kind.HELD
    assert "team/train" in str(held)
    assert "of which the kubelet does not know" in str(held)

    witness.found = ()
    clock.now += WITNESS_AGAIN
    assert seen(one, waiting=True) == []
    assert offer(one, ONE).held == {}


def test_containers_are_looked_at_once_for_each_kubelet(
    tmp_path: Path, ledger: Ledger, witness: Witness
) -> None:
    clock = Clock()
    start_kubelet(tmp_path)
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    for _time in range(3):
        seen(one, waiting=True)
        clock.now += SELDOM
    assert witness.looks == 1
    start_kubelet(tmp_path)
    seen(one)
    assert witness.looks == 2


def test_a_kubelet_that_stays_silent_is_served_all_the_same(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / SOCKET).parent.mkdir()
    (tmp_path / SOCKET).touch()
    start_kubelet(tmp_path)
    one = HolderWatch(tmp_path, tmp_path, clock=clock)
    assert seen(one) is None
    assert not one.knows_kubelet
    clock.now += SILENCE
    assert one.knows_kubelet


def test_devices_of_containers_that_can_not_be_read_are_told_and_asked_for_again(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_about: object, **_more: object) -> None:
        raise NodeError("it is not known which GPUs pod team/train has")

    monkeypatch.setattr(holders, "unreported", refuse)
    ledger.give("a", {GPU: ["GPU-0"]})
    one = HolderWatch(tmp_path, tmp_path, clock=Clock())
    assert seen(one) == ["GPU-0"]
    assert "which GPUs pod team/train has" in (one.chores[2].error or "")


@pytest.mark.parametrize("text", ["{", "{}", '{"version": 1, "forms": [1]}', '{"version": 9}'])
def test_a_damaged_record_is_none(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE).write_text(text)
    assert HolderWatch(tmp_path, tmp_path).holders.forms == {}
    assert "in which forms devices were advertised is not known" in capsys.readouterr().err


def test_devices_that_are_gone_for_good_are_forgotten_and_those_not_read_are_not(
    tmp_path: Path, ledger: Ledger
) -> None:
    one = HolderWatch(tmp_path, tmp_path, clock=Clock())
    seen(one)
    offer(one, TWO)
    offer(one, Inventory("550", TWO.gpus[:1], absent="the driver is gone"))
    assert sorted(one.holders.forms) == ["GPU-0", "GPU-1"]
    offer(one, ONE)
    assert sorted(one.holders.forms) == ["GPU-0"]


def test_a_device_of_a_claim_is_shown_by_its_gpu(tmp_path: Path, ledger: Ledger) -> None:
    """The kubelet names devices of drivers, which another driver may name in the same way."""
    device = {"device": "gpu-0", "mig": "", "gpu": "GPU-0"}
    part = {"device": "gpu-1-mig-1g10gb-19-0", "mig": "MIG-1-0", "gpu": "GPU-1"}
    claimed = claims.uuids({"claims": [{"devices": [device]}, {"devices": [part]}]})
    ledger.claims |= {
        "whole": ("gpu.node", "gpu-0"),
        "part": ("gpu.node", part["device"]),
        "other": ("gpu.nvidia.com", "gpu-0"),
    }
    pods = {
        uuid: [holder.pod for holder in those]
        for uuid, those in PodResources(tmp_path / SOCKET).holders(claimed).items()
    }
    assert pods == {"GPU-0": ["whole"], "MIG-1-0": ["part"], "gpu-0": ["other"]}
    assert claims.uuids(None) == {}
