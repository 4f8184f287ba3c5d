# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which enforcement a configuration gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin._shared._base.dra.names import ENFORCEMENTS
from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.config.allocation import Dra
from gpu_plugin.dra.enforcement.choice import Places, choose
from gpu_plugin.dra.values import Edits, Enforcement, Share

GPU = "GPU-00000000-0000-0000-0000-000000000000"


def asked(enforcement: str, library: str = "") -> Dra:
    return Dra(enforcement=enforcement, library=library)


def test_none_gives_nothing_and_says_so() -> None:
    found: Enforcement = choose(asked("none"))
    share = Share("c", GPU, 0, 1 << 30, 30)
    assert (found.name, found.problem(GPU)) == ("none", "")
    assert found.prepare([share]) == Edits()
    found.unprepare([share])
    found.restore([share])
    found.tick()


@pytest.mark.parametrize("name", ENFORCEMENTS)
def test_each_name_gets_its_own_and_touches_nothing(name: str, tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "run", str(tmp_path / "mps"), "own")
    found: Enforcement = choose(asked(name, library="/lib/libvgpu.so"), places)
    assert found.name == name
    found.tick()
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_on_the_node_is_told_before_a_claim_comes(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "run", str(tmp_path / "mps"), "own")
    hami = choose(asked("hami-core", library="/lib/libvgpu.so"), places)
    assert hami.problem(GPU) == f"{tmp_path}/lib/libvgpu.so: No such file or directory"
    words = "gpuNode.dra.hamiCore.library names no library"
    assert choose(asked("hami-core"), places).problem(GPU) == words
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    assert "cgroups of version 1" in choose(asked("cgroup"), places).problem(GPU)


def test_another_name_is_refused_by_its_key() -> None:
    with pytest.raises(InputError, match=r"gpuNode.dra.enforcement: 'magic' is not valid"):
        choose(asked("magic"))
