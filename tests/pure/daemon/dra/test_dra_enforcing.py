# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which enforcement is in use after a change of the configuration, and what it takes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import (
    PREPARED,
    PREPARING,
    UNPREPARING,
    Device,
    PreparedClaim,
)
from gpu_plugin.config.allocation import Dra
from gpu_plugin.dra.enforcement import choice
from gpu_plugin.dra.enforcement.choice import Enforcements, Places
from gpu_plugin.dra.prepare.apply import Checkpoint
from gpu_plugin.dra.values import Share

UID = "{}f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
SHARE = Device("r", "n", "gpu-0-share", "GPU-0", 0, "s", {"memory": 1 << 30, "shares": 1})


@dataclass
class Made:
    """An enforcement that notes what it takes up."""

    taken: list[Share] = field(default_factory=list)

    def restore(self, live: Sequence[Share]) -> None:
        self.taken += live


class Scene:
    """Enforcements over a checkpoint, whose configuration a test changes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkpoint = Checkpoint(folder / "checkpoint.json")
        monkeypatch.setattr(choice, "choose", lambda _asked, _places: Made())
        self.enforcements = Enforcements(Dra("dra"), Places(folder), self.checkpoint.shares)

    def hold(self, number: int, state: str, enforcement: str) -> str:
        uid = UID.format(number)
        self.checkpoint.put(PreparedClaim(uid, "ns", "c", state, (SHARE,), ("pod",), enforcement))
        return uid

    def of(self, name: str) -> Any:
        return self.enforcements.of(name)


def test_a_claim_that_is_being_prepared_is_taken_up_as_one_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    wanted = {scene.hold(0, PREPARED, "mps"), scene.hold(1, PREPARING, "mps")}
    scene.hold(2, UNPREPARING, "mps")
    scene.hold(3, PREPARED, "cgroup")
    assert {one.claim for one in scene.of("mps").taken} == wanted


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("mps", ("split_count",)),
        ("hami-core", ("library", "memory_scaling")),
        ("cgroup", ()),
        ("none", ()),
    ],
)
def test_an_enforcement_stays_unless_what_it_was_made_with_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, own: tuple[str, ...]
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    changes: dict[str, Any] = {
        "devices": ("0",),
        "enforcement": "none",
        "best_effort": True,
        "split_count": 4,
        "library": "/lib/other.so",
        "memory_scaling": 2.0,
    }
    for key, value in changes.items():
        before = scene.of(name)
        scene.enforcements.dra = replace(scene.enforcements.dra, **{key: value})
        assert (scene.of(name) is not before) is (key in own), key
        assert scene.of(name) is scene.of(name)
