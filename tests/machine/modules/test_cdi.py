# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.cdi on the simulated driver: the specification names the nodes that the kernel shows, and no others."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvsim.testing import VERSION, Sim, start

Run = Callable[..., dict[str, Any]]
Cdi = Callable[..., dict[str, Any]]
LIB = "usr/lib/x86_64-linux-gnu"
CURRENT = f"{LIB}/nvidia/current"
# These are for the administration of MIG, not for containers.
CONFIG_AND_MONITOR = {"/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"}


def install_libraries(sim: Sim) -> None:
    """Lay the driver's libraries out as Debian's packages do."""
    for stem in ("libcuda", "libnvidia-ml"):
        file = sim.root / CURRENT / f"{stem}.so.{VERSION}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        (file.parent / f"{stem}.so.1").symlink_to(file.name)
        alternative = sim.root / f"etc/alternatives/{stem}.so.1"
        alternative.parent.mkdir(parents=True, exist_ok=True)
        alternative.symlink_to(f"/{CURRENT}/{stem}.so.1")
        (sim.root / LIB / f"{stem}.so.1").symlink_to(f"/etc/alternatives/{stem}.so.1")


@pytest.fixture
def a100() -> Iterator[Sim]:
    with start("a100-40", 2) as sim:
        install_libraries(sim)
        yield sim


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cdi/nvidia.yaml"


@pytest.fixture
def cdi(run_module: Run, path: Path) -> Cdi:
    def run(sim: Sim, **args: Any) -> dict[str, Any]:
        values = {"path": str(path), "driver_root": str(sim.root), "hooks": "never", **args}
        return run_module(sim, "cdi", **values)

    return run


def devices(path: Path) -> dict[str, set[str]]:
    """Return the nodes of each device in the file."""
    return {
        one["name"]: {node["path"] for node in one["containerEdits"]["deviceNodes"]}
        for one in json.loads(path.read_text())["devices"]
    }


def common(path: Path) -> dict[str, Any]:
    edits: dict[str, Any] = json.loads(path.read_text())["containerEdits"]
    return edits


def shown(sim: Sim) -> set[str]:
    """Return the device nodes that the simulated kernel shows."""
    found = [*(sim.root / "dev").glob("nvidia*"), *(sim.root / "dev/nvidia-caps").iterdir()]
    return {f"/{one.relative_to(sim.root)}" for one in found if not one.is_dir()}


def described(path: Path) -> set[str]:
    """Return all device nodes in the file, which must be where their host paths say."""
    edits = [one["containerEdits"] for one in json.loads(path.read_text())["devices"]]
    nodes = [node for one in (*edits, common(path)) for node in one["deviceNodes"]]
    assert [node["path"] for node in nodes if not Path(node["hostPath"]).exists()] == []
    return {node["path"] for node in nodes}


def warnings(answer: dict[str, Any]) -> str:
    return json.dumps(answer["warnings"])


def uuids(sim: Sim) -> list[str]:
    return [one["uuid"] for one in sim.ctl("status")["gpus"]]


def partition(run_module: Run, sim: Sim, layout: dict[str, int]) -> None:
    entry = {"devices": [1], "mig-enabled": bool(layout), "mig-devices": layout}
    config = {"version": "v1", "mig-configs": {"wanted": [entry]}}
    assert run_module(sim, "mig", config=config)["changed"]


def test_check_mode_tells_what_is_written_and_a_second_run_changes_nothing(
    a100: Sim, cdi: Cdi, path: Path
) -> None:
    checked = cdi(a100, check=True)
    assert checked["changed"]
    assert not path.exists()
    first = cdi(a100)
    assert (first["steps"], first["diff"]) == (checked["steps"], checked["diff"])
    assert first["diff"]["after"] == path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "warnings" not in first
    again = cdi(a100)
    assert (again["changed"], again["steps"], again["diff"]) == (False, [], {})
    assert again["devices"] == first["devices"]


def test_whole_gpus(a100: Sim, cdi: Cdi, path: Path) -> None:
    answer = cdi(a100)
    one, two = uuids(a100)
    assert devices(path) == {
        "0": {"/dev/nvidia0"},
        one: {"/dev/nvidia0"},
        "1": {"/dev/nvidia1"},
        two: {"/dev/nvidia1"},
        "all": {"/dev/nvidia0", "/dev/nvidia1"},
    }
    assert answer["devices"] == ["0", one, "1", two, "all"]
    assert (answer["cdi_version"], answer["driver_version"]) == ("0.5.0", VERSION)
    assert described(path) == shown(a100) - CONFIG_AND_MONITOR


def test_libraries_are_there_under_their_names(a100: Sim, cdi: Cdi, path: Path) -> None:
    cdi(a100)
    mounts = {one["containerPath"]: one["hostPath"] for one in common(path)["mounts"]}
    cuda = str(a100.root / CURRENT / f"libcuda.so.{VERSION}")
    assert {mounts[f"/{LIB}/libcuda.so{end}"] for end in ("", ".1", f".{VERSION}")} == {cuda}
    assert f"/{LIB}/libnvidia-ml.so.1" in mounts
    assert all(Path(host).is_file() for host in mounts.values())


def test_partitions_come_and_go(a100: Sim, cdi: Cdi, path: Path, run_module: Run) -> None:
    cdi(a100)
    whole = path.read_text()
    partition(run_module, a100, {"1g.5gb": 2, "3g.20gb": 1})
    changed = cdi(a100)
    found = devices(path)
    parts = [name for name in found if name.startswith("1:")]
    assert parts == ["1:0", "1:1", "1:2"]
    assert "1" not in found
    assert uuids(a100)[1] not in found
    by_uuid = [name for name in found if name.startswith("MIG-")]
    assert [found[name] for name in by_uuid] == [found[name] for name in parts]
    for name in parts:
        assert "/dev/nvidia1" in found[name]
        assert len(found[name]) == 3
    caps = [found[name] - {"/dev/nvidia1"} for name in parts]
    assert len(set().union(*caps)) == 6
    assert described(path) == shown(a100) - CONFIG_AND_MONITOR
    summary = changed["steps"][0]["summary"]
    assert all(name in summary for name in ("add 1:0", "remove 1, "))
    assert cdi(a100)["changed"] is False

    partition(run_module, a100, {})
    cdi(a100)
    assert path.read_text() == whole
    assert described(path) == shown(a100) - CONFIG_AND_MONITOR


def test_mig_uuids_are_the_drivers(a100: Sim, cdi: Cdi, path: Path, run_module: Run) -> None:
    partition(run_module, a100, {"1g.5gb": 2})
    cdi(a100)
    info = run_module(a100, "gpu_info")["gpu_info"]["gpus"][1]["mig_devices"]
    found = devices(path)
    assert len(info) == 2
    for one in info:
        assert found[one["uuid"]] == found[f"1:{one['mig_index']}"]


def test_lost_gpu_is_left_out_with_a_warning(a100: Sim, cdi: Cdi, path: Path) -> None:
    cdi(a100)
    a100.ctl("lose", gpu="0")
    answer = cdi(a100)
    assert "reading GPU 0: the GPU has fallen off the bus" in warnings(answer)
    assert list(devices(path)) == ["1", uuids(a100)[1], "all"]
    a100.ctl("lose", gpu="1")
    last = cdi(a100)
    assert last["steps"][0]["action"] == "remove"
    assert not path.exists()
    assert cdi(a100)["changed"] is False


def test_part_whose_node_is_missing_is_left_out(
    a100: Sim, cdi: Cdi, path: Path, run_module: Run
) -> None:
    partition(run_module, a100, {"7g.40gb": 1})
    cap = next(one for one in shown(a100) - CONFIG_AND_MONITOR if "cap" in one)
    (a100.root / cap.lstrip("/")).unlink()
    assert f"1:0 is left out: {cap} does not exist" in warnings(cdi(a100))
    assert list(devices(path)) == ["0", uuids(a100)[0], "all"]


def test_absent_takes_the_file_away(a100: Sim, cdi: Cdi, path: Path) -> None:
    cdi(a100)
    assert cdi(a100, state="absent", check=True)["changed"]
    assert path.exists()
    assert cdi(a100, state="absent")["changed"]
    assert not path.exists()
    assert cdi(a100, state="absent")["changed"] is False


def test_without_a_driver_check_mode_plans_and_a_run_says_what_is_missing(
    cdi: Cdi, path: Path
) -> None:
    with start("a100-40", 1, driver=None) as sim:
        checked = cdi(sim, check=True)
        assert checked["changed"]
        assert "once the driver is loaded" in checked["steps"][0]["summary"]
        failed = cdi(sim)
        assert failed["failed"]
        assert "gpu.node.nvidia_driver" in failed["msg"]
        assert not path.exists()


def test_unknown_capability_is_refused_with_the_list(a100: Sim, cdi: Cdi, path: Path) -> None:
    failed = cdi(a100, capabilities=["compute", "sound"])
    assert failed["failed"]
    assert "capabilities must be one or more of: compute, utility, video, graphics" in failed["msg"]
    assert "no match for: sound" in failed["msg"]
    assert not path.exists()
