# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which enforcement a configuration gets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from gpu_plugin._shared._core.errors import InputError
from gpu_plugin.dra.enforcement.choice import choose
from gpu_plugin.dra.values import Edits, Enforcement, Share

GPU = "GPU-00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Asked:
    enforcement: str
    split_count: int = 10
    memory_scaling: float = 1.0
    best_effort: bool = False
    library: str = ""


def test_issue_17_4_none_gives_nothing_and_says_so() -> None:
    found: Enforcement = choose(Asked("none"))
    share = Share("c", GPU, 0, 1 << 30, 30)
    assert (found.name, found.problem(GPU)) == ("none", "")
    assert found.prepare([share]) == Edits()
    found.unprepare([share])
    found.restore([share])
    found.tick()


def test_another_name_is_refused_by_its_key() -> None:
    with pytest.raises(InputError, match=r"gpuNode.dra.enforcement: 'magic' is not valid"):
        choose(Asked("magic"))
