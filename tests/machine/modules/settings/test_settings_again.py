# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin settings``: what GPUs have lost is set again, and what somebody has changed by hand is left to him."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._node.quarantine import Quarantine, Quarantined
from gpu_plugin._shared._node.quarantine import dump as dump_quarantine
from gpu_plugin._shared._settings import boot as settings_boot
from nvsim.testing import Sim, start

from tests.support.waiting import LIMIT

NO_PERMISSION = 4
RULES = [{"persistence": True, "power_limit": 560, "gpu_clocks": [405, 1200]}]
ASKED = "power.limit,clocks.current.graphics"
SET, FRESH = "560.00, 1200", "700.00, 1980"
# This machine is not to be changed: what is kept, and the locks, are the test's own, as for the modules.
BEGIN = """\
import sys
from gpu_plugin._shared._base.services import mig
from gpu_plugin._shared._node.machine import quarantine
from gpu_plugin._shared._settings import boot, capability
folder = sys.argv.pop(1)
capability.PATH, capability.LOCK = folder + "/settings.json", folder + "/settings.lock"
boot.SEEN = capability.SEEN = folder + "/seen.json"
mig.LOCK, quarantine.PATH = folder + "/mig.lock", folder + "/quarantine.json"
from gpu_plugin.cli import main
sys.exit(main())
"""


class Node:
    """Two H100s, the unit of which is started by ``again``; ``daemon`` starts nvidia-persistenced."""

    def __init__(self, sim: Sim, smi: Path, folder: Path) -> None:
        self.sim, self._smi, self.folder = sim, smi, folder
        systemctl = folder / "bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(f"#!/bin/sh\ncat {folder}/daemon 2>/dev/null\n")
        systemctl.chmod(0o755)
        self.env = {**sim.env, "PATH": f"{systemctl.parent}:{sim.env['PATH']}"}
        self.uuids = [one["uuid"] for one in sim.ctl("status")["gpus"]]
        self.declare(RULES)

    def declare(self, rules: list[dict[str, Any]]) -> None:
        (self.folder / "config.json").write_text(settings_boot.dump(rules))

    def daemon(self, start: str) -> None:
        (self.folder / "daemon").write_text(f"ActiveState=active\nInvocationID={start}\n")

    def again(self, wait: float = LIMIT) -> tuple[int, str]:
        """Start the unit; return its exit status and its log."""
        words = ["settings", "--config", str(self.folder / "config.json"), "--wait", str(wait)]
        done = subprocess.run(
            [sys.executable, "-c", BEGIN, str(self.folder), *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stderr

    def smi(self, *words: str) -> str:
        command = [self._smi, *words]
        return subprocess.run(
            command, env=self.sim.env, capture_output=True, text=True, check=True
        ).stdout

    def has(self, asked: str = ASKED) -> list[str]:
        """Return what the genuine nvidia-smi says of each GPU."""
        text = self.smi(f"--query-gpu={asked}", "--format=csv,noheader,nounits")
        return text.strip().splitlines()


@pytest.fixture
def node(nvidia_smi: Path, tmp_path: Path) -> Iterator[Node]:
    with start("h100-80", 2) as sim:
        for gpu in ("0", "1"):
            sim.ctl("energy", gpu=gpu, seconds=1000)
        yield Node(sim, nvidia_smi, tmp_path)


def test_after_a_boot_gpus_are_set_as_declared_and_what_was_there_before_is_kept(
    node: Node, run_module: Callable[..., dict[str, Any]]
) -> None:
    status, log = node.again()
    assert (status, node.has()) == (0, [SET] * 2)
    assert "power_limit from 700 W to 560 W" in log
    assert not run_module(node.sim, "settings", rules=RULES)["changed"]
    run_module(node.sim, "settings", state="absent")
    assert node.has() == [FRESH] * 2


def test_what_was_changed_by_hand_stays_and_what_a_reset_has_lost_comes_back(node: Node) -> None:
    node.again()
    node.smi("-pl", "500", "-i", "1")
    node.smi("-rgc", "-i", "1")
    node.smi("-pl", "500", "-i", "0")
    assert node.again() == (0, "")
    assert node.has() == ["500.00, 1200", "500.00, 1980"]
    node.sim.ctl("reset", gpu="0")
    status, log = node.again()
    assert (status, node.has()) == (0, [SET, "500.00, 1980"])
    assert f"GPU 0 ({node.uuids[0]}): it was reset" in log
    assert node.uuids[1] not in log
    assert node.again() == (0, "")


def test_a_reset_shows_by_the_energy_at_the_last_start(node: Node) -> None:
    node.again()
    node.sim.ctl("energy", gpu="0", seconds=100_000)
    node.again()
    node.sim.ctl("reset", gpu="0")
    node.sim.ctl("energy", gpu="0", seconds=50_000)
    assert (node.again()[0], node.has()) == (0, [SET] * 2)


def test_another_load_of_the_driver_and_a_start_of_the_persistence_daemon_count_as_events(
    node: Node,
) -> None:
    node.daemon("a1")
    node.again()
    node.sim.ctl("reload")
    assert node.has() == [FRESH] * 2
    assert (node.again()[0], node.has()) == (0, [SET] * 2)
    node.smi("-pl", "500")
    node.daemon("b2")
    status, log = node.again()
    assert (status, node.has()) == (0, [SET] * 2)
    assert "nvidia-persistenced.service was started" in log


def test_a_switch_of_mig_mode_counts_as_one(node: Node) -> None:
    node.again()
    node.smi("-mig", "1", "-i", "0")
    status, log = node.again()
    assert (status, node.has("power.limit")) == (0, ["560.00"] * 2)
    assert f"GPU 0 ({node.uuids[0]}): its MIG mode was switched" in log


def test_ecc_is_nobodys_but_the_operators(node: Node) -> None:
    node.declare([{"ecc": True, "power_limit": 560}])
    node.smi("-e", "0", "-i", "0")
    assert node.again()[0] == 0
    assert node.has("ecc.mode.pending,power.limit") == ["Disabled, 560.00", "Enabled, 560.00"]


def test_a_gpu_that_does_not_answer_or_is_set_aside_is_left_alone_and_told(node: Node) -> None:
    node.sim.ctl("lose", gpu="0", how="reset_required")
    aside = Quarantine({node.uuids[1]: Quarantined("operator", "it hums")})
    (node.folder / "quarantine.json").write_text(dump_quarantine(aside))
    status, log = node.again()
    assert status == 0
    assert "left alone, since it does not answer" in log
    assert f"left alone: GPU 1 ({node.uuids[1]}) is in quarantine" in log
    (node.folder / "quarantine.json").unlink()
    node.sim.ctl("reset", gpu="0")
    assert (node.again()[0], node.has()) == (0, [SET] * 2)


def test_a_mode_that_would_keep_a_process_out_is_told_and_keeps_no_other_setting_back(
    node: Node,
) -> None:
    node.declare([{"compute_mode": "exclusive_process", "power_limit": 560}])
    holder = node.sim.hold(0)
    status, log = node.again()
    assert status == 1
    assert f"process {holder.pid}" in log
    asked = "power.limit,compute_mode"
    assert node.has(asked) == ["560.00, Default", "560.00, Exclusive_Process"]
    node.sim.let_go(holder)
    assert node.again()[0] == 0
    assert node.has(asked) == ["560.00, Exclusive_Process"] * 2


def test_a_setter_that_fails_is_told_and_tried_again_by_the_next_start(node: Node) -> None:
    function = "nvmlDeviceSetPowerManagementLimit"
    node.sim.ctl("fault", gpu="1", function=function, code=NO_PERMISSION)
    status, log = node.again()
    assert (status, node.has()) == (1, [SET, "700.00, 1200"])
    assert "power_limit can't be set to 560 W" in log
    node.sim.ctl("clear-faults")
    node.smi("-pl", "500", "-i", "0")
    assert (node.again()[0], node.has()) == (0, ["500.00, 1200", SET])


@pytest.mark.parametrize("name", ["settings.json", "seen.json", "config.json"])
def test_a_file_that_is_damaged_is_named_and_nothing_is_set(node: Node, name: str) -> None:
    (node.folder / name).write_text("{")
    status, log = node.again()
    assert (status, node.has()) == (1, [FRESH] * 2)
    assert f"{name} is damaged" in log
    assert "Next step" in log


def test_without_a_driver_it_says_so(node: Node) -> None:
    node.sim.ctl("unload")
    status, log = node.again(wait=0)
    assert status == 1
    assert "the NVIDIA driver is not loaded" in log


def test_what_the_board_does_not_allow_any_more_is_told(node: Node) -> None:
    node.declare([{"match": {"index": 0}, "power_limit": 100, "gpu_clocks": 1200}])
    status, log = node.again()
    assert (status, node.has()) == (1, ["700.00, 1200", FRESH])
    assert "rules[0].power_limit: 100 is not valid" in log


def test_what_is_seen_is_kept_for_the_next_start_alone(node: Node) -> None:
    node.again()
    seen = json.loads((node.folder / "seen.json").read_text())
    assert sorted(seen["gpus"]) == sorted(node.uuids)
