# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who the clients of MPS are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.model.mps.settings import Settings
from gpu_plugin.mps import state as mps_state
from gpu_plugin.mps.clients import Client, look
from gpu_plugin.mps.state import devices, roots
from gpu_plugin.observer import Observer
from gpu_plugin.report.pages import pages
from gpu_plugin.tools.files import started

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
CGROUPS = {
    "systemd": "0::/kubepods.slice/kubepods-burstable.slice/"
    f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri.scope\n",
    "cgroupfs": f"0::/kubepods/burstable/pod{UID}/abc\n",
}


def process(folder: Path, cgroup: str, *env: str) -> Path:
    (folder / "proc/7").mkdir(parents=True)
    (folder / "proc/7/cgroup").write_text(cgroup)
    (folder / "proc/7/environ").write_text("\0".join(env))
    return folder / "proc"


@pytest.mark.parametrize("driver", CGROUPS)
def test_pod_and_limits_of_a_client(tmp_path: Path, driver: str) -> None:
    logs = tmp_path / "pods"
    (logs / f"team_train-0_{UID}").mkdir(parents=True)
    proc = process(
        tmp_path,
        CGROUPS[driver],
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5",
    )
    found = look(7, proc, logs)
    assert found == Client(7, "team/train-0", "8192M", "12.5")
    assert str(found) == "7 (team/train-0 8192M 12.5%)"


def test_pod_without_logs_is_its_uid(tmp_path: Path) -> None:
    proc = process(tmp_path, CGROUPS["systemd"])
    assert look(7, proc, tmp_path / "none").pod == UID


def test_process_of_no_pod_or_none_at_all(tmp_path: Path) -> None:
    proc = process(tmp_path, "0::/user.slice\n", "PATH=/bin")
    assert str(look(7, proc, tmp_path)) == "7"
    assert look(8, proc, tmp_path) == Client(8)


@pytest.mark.attack("terminal-escapes")
def test_what_a_client_calls_its_limits_steers_no_terminal(tmp_path: Path) -> None:
    """A tenant starts it with what he likes in its environment."""
    for number, hostile in enumerate(("\x1b]0;owned\x07", "1M\nGPU-1: ready", "\x9b2J", "\u202e")):
        names = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        env = [f"{name}={hostile}" for name in names]
        proc = process(tmp_path / str(number), "0::/user.slice\n", *env)
        found = look(7, proc, tmp_path)
        assert found.memory
        assert found.threads
        assert str(found).isprintable()


def test_daemons_are_found_where_their_settings_say(tmp_path: Path) -> None:
    (tmp_path / "GPU-2.settings.json").write_text(Settings(4, root="/run/other").to_json())
    (tmp_path / "GPU-3.settings.json").write_text(Settings(4, root="/run/third").to_json())
    (tmp_path / "GPU-4.settings.json").write_text("{}")
    assert roots(tmp_path) == [Path("/run") / one for one in ("gpu-node/mps", "other", "third")]
    assert devices(tmp_path) == {"GPU-2", "GPU-3", "GPU-4"}
    assert mps_state.load(tmp_path) == []
    assert roots(tmp_path / "none") == [Path("/run/gpu-node/mps")]


def state_of(device: str, **more: Any) -> dict[str, Any]:
    """Return what a manager has written of a daemon."""
    known = {"version": 1, "device": device, "state": "ready", "pid": os.getpid()}
    rest = {"since": "", "problem": "", "limits": {"asked": {}}, "replicas": 2, "restarts": 0}
    own = {"began": started(os.getpid()), "clients": 0, "servers": []}
    return {**known, **rest, **own, **more}


def test_status_shows_daemons_below_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NVIDIA's own mpsRoot; who takes a GPU for idle by it would take one that MPS shares."""
    device, other = "GPU-00000000-0000-0000-0000-000000000000", tmp_path / "other"
    other.mkdir()
    (other / f"{device}.json").write_text(json.dumps(state_of(device)))
    monkeypatch.setattr(mps_state, "roots", lambda folder: [folder, other])
    (found,) = mps_state.everywhere(settings=tmp_path)
    assert (found["device"], found["state"]) == (device, "ready")
    assert mps_state.everywhere(tmp_path) == []


def test_only_who_shows_clients_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def watched(pid: int) -> Client:
        looked.append(pid)
        return Client(pid, "team/train-0")

    monkeypatch.setattr(mps_state, "look", watched)
    device = "GPU-00000000-0000-0000-0000-000000000000"
    state = state_of(device, clients=2, servers=[{"pid": 42, "clients": [7, 9]}])
    (tmp_path / f"{device}.json").write_text(json.dumps(state))
    _status, _type, page = pages(Observer(), lambda: ({}, 0.0), lambda: str(tmp_path))["/metrics"]()
    assert device.encode() in page
    assert looked == []
    assert "clients: 7 (team/train-0), 9 (team/train-0)" in mps_state.describe(
        mps_state.named(mps_state.load(tmp_path))
    )
    assert looked == [7, 9]
