# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin cdi``: the specification follows the driver and the MIG layout without Ansible."""

from __future__ import annotations

import fcntl
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin._shared._cdi.boot import Options
from nvsim.testing import VERSION, Sim, start

from tests.support.helper_process import opened, rests
from tests.support.waiting import LIMIT, eventually, unchanged

if TYPE_CHECKING:
    from tests.machine.daemon.boot.conftest import Commands, Process

LIB = "usr/lib/x86_64-linux-gnu"
DAMAGED = ("[]", '{"path": 1, "hooks": "never"}')


class Refresh:
    """What gpu-cdi.service does: a process, its exit status and its log."""

    def __init__(self, commands: Commands, folder: Path) -> None:
        self.commands, self.folder = commands, folder
        self.end = commands.end

    def begin(self, sim: Sim, text: str, wait: float = LIMIT) -> Process:
        config = self.folder / "cdi.json"
        config.write_text(text)
        words = ["cdi", "--config", config, "--lock", self.folder / "run/lock", "--wait", wait]
        return self.commands.begin(sim, *words)

    def options(self, sim: Sim, **options: Any) -> str:
        path = str(self.folder / "etc/nvidia.yaml")
        return cdi_boot.dump(Options(path, "never", (), str(sim.root))._replace(**options))

    def __call__(self, sim: Sim, *, wait: float = LIMIT, **options: Any) -> tuple[int, str]:
        return self.end(self.begin(sim, self.options(sim, **options), wait))


@pytest.fixture
def refresh(commands: Commands, tmp_path: Path) -> Refresh:
    return Refresh(commands, tmp_path)


@pytest.fixture
def sim() -> Iterator[Sim]:
    with start("a100-40", 2) as made:
        file = made.root / LIB / f"libcuda.so.{VERSION}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        (file.parent / "libcuda.so.1").symlink_to(file.name)
        yield made


def partition(sim: Sim, layout: dict[str, int]) -> None:
    """Partition the second GPU, as gpu-mig.service does."""
    entry = {"devices": [1], "mig-enabled": bool(layout), "mig-devices": layout}
    config = sim.root / "mig.json"
    config.write_text(json.dumps({"config": [entry], "selected": ""}))
    words = ["mig", "--config", str(config), "--status", str(sim.root / "mig-status.json")]
    words += ["--lock", str(sim.root / "mig.lock")]
    subprocess.run(
        [sys.executable, "-m", "gpu_plugin", *words],
        env=sim.env,
        check=True,
        capture_output=True,
    )


def spec(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "etc/nvidia.yaml").read_text())
    return found


def names(tmp_path: Path) -> list[str]:
    return [one["name"] for one in spec(tmp_path)["devices"] if len(one["name"]) < 6]


def test_specification_is_written_and_then_left_alone(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    assert refresh(sim)[0] == 0
    path = tmp_path / "etc/nvidia.yaml"
    assert names(tmp_path) == ["0", "1", "all"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    before = path.stat().st_ino
    assert refresh(sim) == (0, "")
    assert path.stat().st_ino == before


def test_it_is_the_one_that_the_module_writes(sim: Sim, refresh: Refresh, tmp_path: Path) -> None:
    partition(sim, {"3g.20gb": 1, "1g.5gb": 2})
    refresh(sim, library_folders=("/usr/lib64",))
    mine = (tmp_path / "etc/nvidia.yaml").read_text()
    values = {
        "path": str(tmp_path / "etc/nvidia.yaml"),
        "driver_root": str(sim.root),
        "hooks": "never",
        "library_folders": ["/usr/lib64"],
        "boot": False,
        "_ansible_check_mode": True,
        "_ansible_remote_tmp": str(tmp_path),
    }
    (tmp_path / "args.json").write_text(json.dumps({"ANSIBLE_MODULE_ARGS": values}))
    module = "ansible_collections.gpu.node.plugins.modules.cdi"
    done = subprocess.run(
        [sys.executable, "-m", module, str(tmp_path / "args.json")],
        env=sim.env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["changed"] is False
    assert "/usr/lib64/libcuda.so.1" in mine


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"])
def test_a_specification_never_loses_a_node_that_all_gpus_share(
    sim: Sim, refresh: Refresh, tmp_path: Path, name: str
) -> None:
    refresh(sim)
    before = (tmp_path / "etc/nvidia.yaml").read_text()
    (sim.root / "dev" / name).unlink()
    status, log = refresh(sim)
    assert status == 1
    assert f"device nodes that all GPUs share are gone: /dev/{name}" in log
    assert (tmp_path / "etc/nvidia.yaml").read_text() == before


def test_partitions_come_and_go(sim: Sim, refresh: Refresh, tmp_path: Path) -> None:
    refresh(sim)
    partition(sim, {"1g.5gb": 2})
    assert "1:1" in refresh(sim)[1]
    assert names(tmp_path) == ["0", "1:0", "1:1", "all"]
    partition(sim, {})
    refresh(sim)
    assert names(tmp_path) == ["0", "1", "all"]


def test_libraries_that_a_package_brings_and_takes(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    def hosts() -> set[str]:
        refresh(sim)
        return {Path(one["hostPath"]).name for one in spec(tmp_path)["containerEdits"]["mounts"]}

    file = sim.root / LIB / f"libnvidia-ptxjitcompiler.so.{VERSION}"
    assert hosts() == {f"libcuda.so.{VERSION}"}
    file.write_text("")
    assert hosts() == {f"libcuda.so.{VERSION}", file.name}
    file.unlink()
    assert hosts() == {f"libcuda.so.{VERSION}"}


def test_driver_that_is_half_upgraded_changes_nothing(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    refresh(sim)
    before = spec(tmp_path)
    sim.ctl("unload")
    sim.ctl("load", version="575.57.08", flavour="open")
    status, told = refresh(sim, wait=0)
    assert status == 1
    assert "different versions" in told
    assert spec(tmp_path) == before


def test_driver_that_comes_late_is_waited_for(refresh: Refresh, tmp_path: Path) -> None:
    with start("a100-40", 1, driver=None) as sim:
        process = refresh.begin(sim, refresh.options(sim))
        eventually(lambda: sim.looks(process.pid) >= 2)  # it asks again and again
        sim.ctl("load", version=VERSION, flavour="open")
        assert refresh.end(process)[0] == 0
        assert names(tmp_path) == ["0", "all"]


def test_without_a_driver_the_old_file_stays_and_the_failure_is_told(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    refresh(sim)
    before = spec(tmp_path)
    sim.ctl("unload")
    status, told = refresh(sim, wait=0)
    assert status == 1
    assert "error" in told
    assert spec(tmp_path) == before


def test_when_the_last_gpu_is_gone_the_file_goes(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    refresh(sim)
    for gpu in ("0", "1"):
        sim.ctl("lose", gpu=gpu)
    status, told = refresh(sim)
    assert status == 0
    assert "no GPU of this node can be given" in told
    assert not (tmp_path / "etc/nvidia.yaml").exists()
    assert refresh(sim)[1] == ""


def test_damaged_options_change_nothing(sim: Sim, refresh: Refresh, tmp_path: Path) -> None:
    for text in DAMAGED:
        status, told = refresh.end(refresh.begin(sim, text, wait=0))
        assert status == 1, text
        assert "cdi.json is damaged" in told
    assert not (tmp_path / "etc").exists()


def test_layout_that_is_being_changed_is_waited_for(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    refresh(sim)
    partition(sim, {"1g.5gb": 1})
    lock = tmp_path / "run/lock"
    with lock.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        process = refresh.begin(sim, refresh.options(sim))
        eventually(lambda: opened(process.pid, lock))
        unchanged(lambda: names(tmp_path), ["0", "1", "all"], lambda: rests(process.pid))
    assert refresh.end(process)[0] == 0
    assert names(tmp_path) == ["0", "1:0", "all"]


DPKG = """#!/bin/sh
case $1 in -S) shift; for one; do echo "libcuda1:amd64: $one"; done ;; -W) echo "ii  libcuda1" ;; esac
"""


def test_a_file_that_an_installed_package_has_lost_is_no_change_to_follow(
    sim: Sim, refresh: Refresh, tmp_path: Path
) -> None:
    assert refresh(sim)[0] == 0
    before = spec(tmp_path)
    for name, text in (("dpkg-query", DPKG), ("apt-get", "#!/bin/sh\n")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    sim.env["PATH"] = f"{tmp_path}/bin:{sim.env['PATH']}"
    (sim.root / LIB / f"libcuda.so.{VERSION}").unlink()
    status, told = refresh(sim)
    assert status == 1
    assert f"libcuda.so.{VERSION} (libcuda1)" in told
    assert "Next step: apt-get install --reinstall libcuda1" in told
    assert spec(tmp_path) == before
