# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a claim is prepared by: one snapshot, and no more questions than its state leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, PREPARING, UNPREPARING, PreparedClaim
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.config.allocation import Dra
from gpu_plugin.config.configuration import Config
from gpu_plugin.dra.prepare import apply
from gpu_plugin.dra.prepare.apply import Checkpoint, Preparer, Snapshot
from gpu_plugin.dra.prepare.cdi import ClaimFiles, cdi_name
from gpu_plugin.dra.prepare.claims import ClaimApi
from gpu_plugin.dra.users import STATE, Users
from gpu_plugin.dra.values import Edits
from gpu_plugin.model.inventory import GpuView

from tests.fakes.daemon.gpu_builders import gpu, inventory
from tests.fakes.dra import allocated

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
POD = "0f1e2d3c-dddd-eeee-ffff-0123456789ab"
CONFIG = Config(dra=Dra("dra", enforcement="cgroup"))
SHARE = {"memory": "10Gi", "cores": "30", "shares": "1"}


class Scene:
    """A checkpoint, claims' files, and an API: ``asked`` has what was asked of them, in turn."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.device = "gpu-0-share"
        self.checkpoint = Checkpoint(folder / "checkpoint.json")
        described = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []}
        devices = [{"name": "GPU-0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]
        self.files: Any = ClaimFiles(folder, lambda: {**described, "devices": devices})
        self.there = self.files.there
        self.files.there = self.is_there
        scene: Any = self
        self.preparer = Preparer(
            self.checkpoint,
            ClaimApi(scene, "n"),
            self.files,
            scene,  # its instances, of which there are none
            scene,  # its enforcements
            Snapshot(CONFIG, inventory(GpuView(gpu(0)))),
            Users(folder),
        )

    def is_there(self, uid: str) -> bool:
        self.asked.append("intact")
        return self.there(uid)

    def ask(self, doing: str, *_words: str, look: Callable[[Any], Any], **_more: str) -> Any:
        """Answer as the API."""
        self.asked.append(doing)
        share = {"share_id": UID, "capacity": SHARE}
        result = allocated.result("gpu.node/n", self.device, request="r", **share)
        meta = {"namespace": "ns", "name": "c", "uid": UID}
        status = {"allocation": {"devices": {"results": [result]}}}
        return look({"metadata": meta, "status": status})

    def of(self, name: str) -> Any:
        """Return an enforcement that has nothing to do."""
        self.asked.append(f"enforcement {name}")
        return self

    def prepare(self, _shares: object) -> Edits:
        return Edits()

    def unprepare(self, _shares: object) -> None:
        pass

    def left(self, state: str) -> list[str]:
        """Let an earlier process have left the claim so; return what is asked when it is prepared again."""
        held = self.checkpoint.get(UID)
        if held is None:
            self.preparer.prepare("ns", "c", UID)
            held = self.checkpoint.get(UID)
        assert isinstance(held, PreparedClaim)
        self.checkpoint.put(replace(held, state=state))
        self.asked.clear()
        self.preparer.prepare("ns", "c", UID)
        return self.asked


READ = "reading the claim ns/c"
GONE = "what claims hold is not known: .*checkpoint.json is gone"
LIMITED = "enforcement cgroup"


def test_no_more_is_asked_than_the_state_of_a_claim_leaves_open(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.left(PREPARED) == [READ, "intact"]
    assert scene.left(PREPARING) == [READ, LIMITED]
    assert scene.left(UNPREPARING) == [LIMITED, READ, LIMITED]
    scene.files.remove(UID)
    assert scene.left(PREPARED) == [READ, "intact", LIMITED]


def test_a_claim_that_was_moved_is_not_looked_for_where_it_was(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.preparer.prepare("ns", "c", UID)
    assert [one.device for one in scene.checkpoint.claims[UID].devices] == ["gpu-0-share"]
    scene.device = "gpu-1-share"
    scene.preparer.snapshot = Snapshot(CONFIG, inventory(GpuView(gpu(0)), GpuView(gpu(1))))
    scene.asked.clear()
    with pytest.raises(NodeError, match="GPU-1"):  # the node describes no such GPU
        scene.preparer.prepare("ns", "c", UID)
    assert scene.asked == [READ, LIMITED, READ, LIMITED]


def test_a_claim_is_written_down_by_what_holds_when_the_api_has_answered(tmp_path: Path) -> None:
    scene: Any = Scene(tmp_path)
    answer = scene.ask

    def late(doing: str, *words: str, **more: Any) -> Any:
        scene.preparer.snapshot = Snapshot(Config(), scene.preparer.snapshot.inventory)
        return answer(doing, *words, **more)

    scene.ask = late
    with pytest.raises(NodeError, match="leaves its GPU to the device plugin"):
        scene.preparer.prepare("ns", "c", UID)
    assert scene.checkpoint.claims == {}


def test_containers_get_what_the_snapshot_has(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (given,) = scene.preparer.prepare("ns", "c", UID).devices
    assert (given.pool, given.device, given.share_id) == ("gpu.node/n", "gpu-0-share", UID)
    spec = json.loads(scene.files.path(UID).read_text())
    assert [one["name"] for one in spec["devices"]] == [cdi_name(UID, given)]


def restart(folder: Path, *, without_checkpoint: bool = False) -> Scene:
    """Return the next process; nothing locks the checkpoint of the one before any more."""
    (folder / "checkpoint.json.lock").unlink()
    if without_checkpoint:
        (folder / "checkpoint.json").unlink()
    return Scene(folder)


def test_without_its_checkpoint_a_driver_keeps_the_files_of_claims_and_takes_up_nothing(
    tmp_path: Path,
) -> None:
    before = Scene(tmp_path)
    before.preparer.prepare("ns", "c", UID)
    scene = restart(tmp_path, without_checkpoint=True)
    for _time in range(2):
        with pytest.raises(NodeError, match=GONE) as refused:
            scene.preparer.restore()
        assert str(scene.files.path(UID)) in refused.value.cause
        assert f"rm {scene.files.path('*')}" in refused.value.hint
        assert scene.there(UID)
    scene.files.remove(UID)
    scene.preparer.restore()
    scene.preparer.prepare("ns", "c", UID)
    assert scene.there(UID)


@pytest.mark.parametrize(
    ("driver", "running", "refused"),
    [("gpu.node", {POD}, True), ("gpu.node", set(), False), ("net.example.org", {POD}, False)],
    ids=["its pod runs", "its pod has ended", "it is another driver's"],
)
def test_without_its_checkpoint_a_driver_believes_the_kubelet_that_a_claim_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    running: set[str],
    refused: bool,
) -> None:
    """The files of claims are gone too."""
    monkeypatch.setattr(apply, "running_pods", lambda _host: running)
    claim = {"ClaimUID": UID, "PodUIDs": {POD: {}}, "DriverState": {driver: {}}}
    kept = json.dumps({"Data": json.dumps({"ClaimInfoStateList": [claim]})})
    (tmp_path / STATE).write_text(kept)
    scene = Scene(tmp_path)
    if refused:
        with pytest.raises(NodeError, match=GONE) as error:
            scene.preparer.restore()
        assert UID in error.value.cause
        running.clear()
    scene.preparer.restore()


def test_a_driver_that_starts_for_the_first_time_writes_down_that_no_claim_holds_anything(
    tmp_path: Path,
) -> None:
    Scene(tmp_path).preparer.restore()
    assert json.loads((tmp_path / "checkpoint.json").read_text())["claims"] == {}


@pytest.mark.parametrize(
    ("state", "stays"), [(PREPARED, True), (PREPARING, True), (UNPREPARING, False)]
)
def test_the_file_of_a_claim_goes_at_a_start_once_the_claim_has_ended(
    tmp_path: Path, state: str, stays: bool
) -> None:
    before = Scene(tmp_path)
    before.preparer.prepare("ns", "c", UID)
    held = before.checkpoint.get(UID)
    assert held is not None
    before.checkpoint.put(replace(held, state=state))
    scene = restart(tmp_path)
    scene.preparer.restore()
    assert scene.there(UID) is stays


@pytest.mark.parametrize(
    ("kubelet", "stays"),
    [([UID], True), ([], False), (None, True), ("{", True)],
    ids=["it has the claim", "it has none", "it has lost its record", "its record is damaged"],
)
def test_the_file_of_a_claim_that_a_restored_checkpoint_lacks_goes_by_the_kubelets_word(
    tmp_path: Path, kubelet: list[str] | str | None, stays: bool
) -> None:
    before = Scene(tmp_path)
    before.preparer.restore()
    old = (tmp_path / "checkpoint.json").read_text()
    before.preparer.prepare("ns", "c", UID)
    (tmp_path / "checkpoint.json").write_text(old)
    if isinstance(kubelet, list):
        listed = [{"ClaimUID": uid, "PodUIDs": {"pod": {}}} for uid in kubelet]
        kubelet = json.dumps({"Data": json.dumps({"ClaimInfoStateList": listed})})
    if kubelet is not None:
        (tmp_path / STATE).write_text(kubelet)
    scene = restart(tmp_path)
    scene.preparer.restore()
    assert scene.there(UID) is stays
    scene.preparer.unprepare(UID)
    assert not scene.there(UID)
