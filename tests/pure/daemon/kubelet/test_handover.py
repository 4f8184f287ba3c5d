# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU that somebody has by one way is not given out by the other: asked of the kubelet and the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, PreparedClaim, dump, entry
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._node.users.allocated import SOCKET, UNREPORTED, Allocation
from gpu_plugin.config.allocation import Dra
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.kubelet import handover as module
from gpu_plugin.kubelet.handover import Handover, read_claims
from gpu_plugin.model.inventory import Inventory
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.fakes.daemon.gpu_builders import inventory, view

NODE = inventory(view(0), view(1))
PLUGIN, DRA = Dra(), Dra("dra")
HELD = PreparedClaim("u", "default", "claim", PREPARED, (Device("r", "n", "gpu-1", "GPU-1", 1),))


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "device-plugins/checkpoint")
    server = PodResources(tmp_path / SOCKET, ledger)
    (tmp_path / "device-plugins").mkdir()
    server.start()
    yield ledger
    server.stop()


def handover(tmp_path: Path, *held: PreparedClaim, inventory: Inventory | None = None) -> Handover:
    file = tmp_path / "checkpoint.json"
    if held:
        file.write_text(dump({one.uid: entry(one) for one in held}))
    return Handover(tmp_path, read_claims(file), lambda: inventory or NODE)


def test_what_pods_and_claims_have_stays_where_it_is(tmp_path: Path, kubelet: Ledger) -> None:
    kubelet.give("pod-a", {"nvidia.com/gpu": ["0"]})
    kubelet.claim("pod-b", "gpu.node", "gpu-1")
    check = handover(tmp_path, HELD).check
    for before in (None, PLUGIN):
        with pytest.raises(ConfigError) as error:
            check(DRA, before)
        told = ("gpuNode.allocation would give GPU 0 (GPU-0)", "pod default/pod-a", "drain")
        assert [word for word in told if word not in str(error.value)] == []
    for before in (None, DRA):
        with pytest.raises(ConfigError, match=r"GPU 1 \(GPU-1\).*claim default/claim with gpu-1"):
            check(PLUGIN, before)
    assert check(Dra("both", ("1",)), PLUGIN)


def test_what_does_not_move_is_not_asked_for(tmp_path: Path, kubelet: Ledger) -> None:
    kubelet.give("pod-a", {"nvidia.com/gpu": ["0"]})
    check = handover(tmp_path, HELD).check
    assert check(DRA, Dra("both", ("0", "1")))
    assert check(PLUGIN, replace(PLUGIN, split_count=3))


def test_many_users_are_named_in_a_line(tmp_path: Path, kubelet: Ledger) -> None:
    for number in range(9):
        kubelet.give(f"pod-{number}", {"nvidia.com/gpu.shared": [f"0::{number}"]})
    with pytest.raises(ConfigError, match=r"pod-2 .*, 6 more users"):
        handover(tmp_path).check(DRA, PLUGIN)


def test_a_silent_kubelet_refuses_a_change_and_lets_a_start_wait(
    tmp_path: Path,
) -> None:
    check = handover(tmp_path).check
    assert check(DRA, PLUGIN)  # no kubelet was ever here
    (tmp_path / SOCKET).parent.mkdir()
    (tmp_path / SOCKET).touch()
    with pytest.raises(ConfigError, match=r"can't be changed now.*start the kubelet"):
        check(DRA, PLUGIN)
    assert not check(DRA)
    assert check(PLUGIN)
    assert not handover(tmp_path, inventory=replace(NODE, absent="no driver")).check(PLUGIN)


def test_a_damaged_checkpoint_gives_nothing_away(tmp_path: Path) -> None:
    check = handover(tmp_path, HELD).check
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(NodeError, match=r"checkpoint\.json"):
        check(PLUGIN, DRA)


def test_what_the_kubelet_has_forgotten_is_not_given_to_the_dra_driver(
    tmp_path: Path, kubelet: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = Allocation("team", "train", "4b1d", UNREPORTED, "nvidia0")
    monkeypatch.setattr(module, "unreported", lambda *_about: (forgotten,))
    check = handover(tmp_path).check
    with pytest.raises(ConfigError, match=r"GPU 0 .*pod team/train .* the kubelet does not know"):
        check(DRA, PLUGIN)
    assert check(PLUGIN)
