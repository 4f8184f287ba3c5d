# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that the kubelet has forgotten are given back, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, PreparedClaim
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._cluster.machine.api import ApiError, understood
from gpu_plugin.dra.prepare.apply import PATIENCE, Checkpoint, Forgotten
from gpu_plugin.dra.prepare.claims import UNRELATED, ClaimApi
from gpu_plugin.dra.users import STATE, Users

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
POD = "0f1e2d3c-dddd-eeee-ffff-0123456789ab"
HELD = PreparedClaim(UID, "ns", "c", PREPARED, (Device("r", "n", "gpu-0", "GPU-0", 0),), (POD,))
OTHER = replace(HELD, uid=f"1{UID[1:]}")


class Scene:
    """A kubelet's folder, a checkpoint with claims, and a clock."""

    def __init__(
        self, folder: Path, api_lost: Callable[[PreparedClaim], bool], *held: PreparedClaim
    ) -> None:
        self.state, self.now = folder / STATE, 0.0
        self.undone: list[str] = []
        self.running: set[str] = set()
        checkpoint = Checkpoint(folder / "checkpoint.json")
        for one in held or (HELD,):
            checkpoint.put(one)
        self.forgotten = Forgotten(
            Users(folder),
            checkpoint,
            api_lost,
            self.undone.append,
            lambda: self.now,
            lambda: self.running,
        )

    def knows(self, *claims: str) -> None:
        """Let the kubelet write down these claims."""
        listed = [{"ClaimUID": one, "PodUIDs": {"pod": {}}} for one in claims] or None
        self.state.write_text(json.dumps({"Data": json.dumps({"ClaimInfoStateList": listed})}))

    def pass_time(self, seconds: float = PATIENCE) -> list[str]:
        self.now += seconds
        self.forgotten.look()
        return self.undone


def test_a_claim_that_nobody_knows_is_given_back_after_a_while(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: True)
    assert scene.pass_time() == []
    assert scene.pass_time(PATIENCE - 1) == []
    assert scene.pass_time(1) == [UID]


def test_a_claim_of_a_container_that_runs_is_kept(tmp_path: Path) -> None:
    """Its pod was deleted by force while the kubelet was down, which then lost its record of claims."""
    scene = Scene(tmp_path, lambda _held: True)
    scene.running.add(POD)
    assert [scene.pass_time() for _look in range(3)][-1] == []
    scene.running.clear()
    assert scene.pass_time() == [UID]


def test_a_claim_that_the_kubelet_knows_is_its_to_give_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: True)
    scene.knows(UID)
    assert [scene.pass_time() for _look in range(3)][-1] == []
    scene.knows()
    scene.pass_time()
    scene.knows(UID)  # known again meanwhile: the time begins anew
    scene.pass_time()
    scene.knows()
    assert scene.pass_time() == []
    assert scene.pass_time() == [UID]


def test_nothing_is_given_back_while_the_kubelets_word_is_not_understood(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: True)
    scene.pass_time()
    scene.state.write_text("{}")
    with pytest.raises(NodeError, match=f"{STATE} is damaged"):
        scene.pass_time()
    assert scene.undone == []


def test_a_claim_that_fails_keeps_no_other_from_being_given_back(tmp_path: Path) -> None:
    other = OTHER.uid

    def api_lost(held: PreparedClaim) -> bool:
        if held.uid == UID:
            raise ApiError("x", "no answer")
        return True

    scene = Scene(tmp_path, api_lost, HELD, OTHER)
    scene.pass_time()
    with pytest.raises(ApiError, match="no answer"):
        scene.pass_time()
    assert scene.undone == [other]


def test_a_claim_that_the_api_has_is_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: False)
    assert [scene.pass_time() for _look in range(4)][-1] == []


SAID = f"... is forbidden: User \"system:node:n\" cannot get ...: {UNRELATED} 'n' and this object"


def claim(*devices: tuple[str, str], uid: str = UID, driver: str = "gpu.node") -> dict[str, Any]:
    """Return a claim as the API has it, with what it is allocated: pool and device of each."""
    found = [
        {"request": "r", "driver": driver, "pool": pool, "device": one} for pool, one in devices
    ]
    status = {"allocation": {"devices": {"results": found}}} if devices else {}
    return {"metadata": {"uid": uid}, "status": status}


class Answering:
    """An access whose every answer is the same."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def ask(self, *_words: str, look: Callable[[Any], Any], **_more: str) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return understood("reading", lambda: look(self._answer))


def api(answer: Any) -> ClaimApi:
    return ClaimApi(Answering(answer), "n")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ApiError("x", "not found", status=404), True),
        (ApiError("x", "cut off", status=403, detail=SAID), True),
        (claim(("n", "gpu-0"), uid="11111111-aaaa-bbbb-cccc-0123456789ab"), True),
        (claim(("n", "gpu-0")), False),
        (claim(("n", "gpu-0"), ("n", "gpu-1")), True),
        (claim(("other", "gpu-0")), True),
        (claim(("n", "gpu-0"), driver="gpu.nvidia.com"), True),
        (claim(), True),
    ],
    ids=["missing", "of-no-pod", "another", "the-same", "more", "elsewhere", "others", "nothing"],
)
def test_a_claim_is_gone_where_the_api_no_longer_gives_it_what_it_holds(
    answer: Any, found: bool
) -> None:
    assert api(answer).gone(HELD) is found


@pytest.mark.parametrize(
    "answer",
    [ApiError("x", "no answer"), ApiError("x", "no right", status=403, detail="cannot get"), {}],
    ids=["silent", "no-right", "not-understood"],
)
def test_a_claim_is_not_gone_where_the_api_does_not_say_so(answer: Any) -> None:
    with pytest.raises(ApiError):
        api(answer).gone(HELD)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (claim(("n", "gpu-0")), False),
        (claim(("n", "gpu-1")), True),
        (claim(("other", "gpu-0")), True),
        (claim(), True),
        (claim(("n", "gpu-1"), uid=OTHER.uid), False),
        (ApiError("x", "not found", status=404), False),
        (ApiError("x", "cut off", status=403, detail=SAID), False),
        (ApiError("x", "no answer"), False),
        ({}, False),
    ],
    ids=["same", "other", "elsewhere", "none", "another", "gone", "of-no-pod", "silent", "strange"],
)
def test_a_claim_is_prepared_anew_only_where_the_api_gives_it_something_else(
    answer: Any, found: bool
) -> None:
    """A server that has just begun knows of no pods yet, and the claim's pod may be at work."""
    assert api(answer).moved(HELD) is found
