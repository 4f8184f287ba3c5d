# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that the kubelet has forgotten are given back, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._core.dra.checkpoint import PREPARED, Device, Held
from gpu_plugin.cluster.errors import ApiError
from gpu_plugin.dra.prepare.checkpoint import Checkpoint
from gpu_plugin.dra.prepare.claims import gone
from gpu_plugin.dra.prepare.forgotten import PATIENCE, STATE, Forgotten

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
HELD = Held(UID, "ns", "c", PREPARED, (Device("r", "n", "gpu-0", "GPU-0", 0),))


class Scene:
    """A kubelet's folder, a checkpoint with one claim, and a clock."""

    def __init__(self, folder: Path, api_lost: Callable[[Held], bool]) -> None:
        self.state, self.now = folder / STATE, 0.0
        self.undone: list[str] = []
        checkpoint = Checkpoint(folder / "checkpoint.json")
        checkpoint.put(HELD)
        self.forgotten = Forgotten(
            folder, checkpoint, api_lost, self.undone.append, lambda: self.now
        )

    def pass_time(self, seconds: float = PATIENCE) -> list[str]:
        self.now += seconds
        self.forgotten.look()
        return self.undone


def test_a_claim_that_nobody_knows_is_given_back_after_a_while(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: True)
    assert scene.pass_time() == []
    assert scene.pass_time(PATIENCE - 1) == []
    assert scene.pass_time(1) == [UID]


def test_a_claim_that_the_kubelet_knows_is_its_to_give_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: True)
    scene.state.write_text(f'{{"Data":"{{\\"ClaimUID\\":\\"{UID}\\"}}"}}')
    assert [scene.pass_time() for _look in range(3)][-1] == []
    scene.state.write_text("{}")
    scene.pass_time()
    scene.state.write_text(UID)  # known again meanwhile: the time begins anew
    scene.pass_time()
    scene.state.write_text("{}")
    assert scene.pass_time() == []
    assert scene.pass_time() == [UID]


def test_a_claim_that_the_api_has_is_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, lambda _held: False)
    assert [scene.pass_time() for _look in range(4)][-1] == []


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ApiError("x", "not found", status=404), True),
        ({"metadata": {"uid": "11111111-aaaa-bbbb-cccc-0123456789ab"}}, True),
        ({"metadata": {"uid": UID}}, False),
    ],
)
def test_a_claim_is_gone_where_the_api_says_so(answer: Any, found: bool) -> None:
    class Access:
        def ask(self, *_words: str, **_more: str) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    assert gone(Access(), HELD) is found  # type: ignore[arg-type]


def test_a_claim_is_not_gone_where_the_api_does_not_say_so() -> None:
    class Access:
        def ask(self, *_words: str, **_more: str) -> Any:
            raise ApiError("x", "no answer")

    with pytest.raises(ApiError):
        gone(Access(), HELD)  # type: ignore[arg-type]
