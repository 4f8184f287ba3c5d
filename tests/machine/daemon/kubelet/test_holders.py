# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When the kubelet is asked who holds what, and what is kept for the next process."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin._shared._node.users.allocated import SOCKET
from gpu_plugin.advertise.decide import Advertised, decide
from gpu_plugin.config.configuration import parse
from gpu_plugin.kubelet.holders import AGAIN, FILE, SELDOM, SETTLED, HolderWatch
from gpu_plugin.model.inventory import Inventory
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
    given = one.holders.given
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
    assert one.holders.given is None
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
    assert [chore.error for chore in one.chores] == [None, None]

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
