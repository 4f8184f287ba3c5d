# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mig``: the layout comes back after every kind of restart, or the node is marked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvsim.testing import VERSION, Sim, client, start
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.support.paths import REPOSITORY

LAYOUTS = {
    "a100-40": {"1g.5gb": 2, "3g.20gb": 1, "1c.2g.10gb": 2},
    "a30": {"1g.6gb": 2, "2g.12gb": 1},
    "h100-80": {"1g.10gb": 2, "3g.40gb": 1, "1c.2g.20gb": 2},
    "b200": {"1g.23gb": 2, "3g.90gb": 1},
}
Boot = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def boot(tmp_path: Path) -> Boot:
    """Return a function that does what gpu-mig.service does; it returns exit status and report."""

    def run(
        sim: Sim, config: Any, *, wait: float = 5, text: str = "", pods: str = "/none"
    ) -> tuple[int, dict[str, Any]]:
        path = tmp_path / "mig.json"
        path.write_text(text or json.dumps({"config": config, "selected": ""}))
        words = ["mig", "--config", path, "--status", tmp_path / "run/status.json"]
        words += ["--lock", tmp_path / "run/lock", "--wait", str(wait), "--pod-resources", pods]
        done = subprocess.run(
            [sys.executable, "-m", "gpu_plugin", *words],
            env={**sim.env, "PYTHONPATH": str(REPOSITORY / "files/gpu_plugin/src")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        report: dict[str, Any] = json.loads((tmp_path / "run/status.json").read_text())
        return done.returncode, report

    return run


def entries(layout: dict[str, int], devices: Any = "all") -> list[dict[str, Any]]:
    return [{"devices": devices, "mig-enabled": True, "mig-devices": layout}]


def scene(sim: Sim) -> list[Any]:
    """Return what stands where on each GPU."""
    return [
        sorted(
            (gi["profile"], gi["start"], sorted((ci["start"], ci["size"]) for ci in gi["cis"]))
            for gi in gpu["gis"]
        )
        for gpu in sim.ctl("status")["gpus"]
    ]


@pytest.mark.parametrize("verb", ["reboot", "reload"])
@pytest.mark.parametrize("product", LAYOUTS)
def test_layout_comes_back(verb: str, product: str, boot: Boot) -> None:
    with start(product, 2) as sim:
        assert boot(sim, entries(LAYOUTS[product]))[0] == 0
        before = scene(sim)
        assert all(before)
        sim.ctl(verb)
        assert not any(scene(sim))
        status, report = boot(sim, entries(LAYOUTS[product]))
        assert status == 0
        assert report["state"] == "converged"
        assert scene(sim) == before
        assert boot(sim, entries(LAYOUTS[product]))[0] == 0
        assert scene(sim) == before


def test_driver_that_comes_late_is_waited_for(boot: Boot) -> None:
    with start("h100-80", 1, driver=None) as sim:
        late = threading.Timer(1.0, lambda: sim.ctl("load", version=VERSION, flavour="open"))
        late.start()
        begun = time.monotonic()
        assert boot(sim, entries({"1g.10gb": 7}), wait=20)[0] == 0
        assert time.monotonic() - begun >= 1
        late.join()


def test_driver_that_never_comes_marks_the_node(boot: Boot) -> None:
    with start("h100-80", 1, driver=None) as sim:
        status, report = boot(sim, entries({"1g.10gb": 7}), wait=0.2)
    assert status == 1
    assert report["state"] == "failed"
    assert "not loaded" in report["problems"][0]


def test_gpu_that_fails_keeps_its_layout_and_the_others_get_theirs(boot: Boot) -> None:
    with start("a100-40", 2) as sim:
        assert boot(sim, entries({"3g.20gb": 1, "1g.5gb": 1}))[0] == 0
        before = scene(sim)
        function = "nvmlDeviceCreateGpuInstanceWithPlacement"
        sim.ctl("fault", gpu="0", function=function, code=999, nth=2, times=1)
        status, report = boot(sim, entries({"3g.20gb": 1, "2g.10gb": 2}))
        assert status == 1
        assert sorted(report["gpus"].values()) == ["converged", "failed"]
        assert "its previous layout was restored" in report["problems"][0]
        assert scene(sim)[0] == before[0]
        assert len(scene(sim)[1]) == 3


def test_busy_instance_is_left_alone_and_named(boot: Boot) -> None:
    with start("a100-40", 1) as sim:
        boot(sim, entries({"3g.20gb": 1}))
        gi = sim.ctl("status")["gpus"][0]["gis"][0]["id"]
        holder = sim.hold(0, gi, 0)
        status, report = boot(sim, entries({"7g.40gb": 1}))
        assert status == 1
        assert str(holder.pid) in report["problems"][0]
        assert len(scene(sim)[0]) == 1
        sim.let_go(holder)


def test_mode_that_waits_for_a_reset_is_told_apart_from_a_failure(boot: Boot) -> None:
    with start("a100-40", 1) as sim:
        holder = sim.hold(0)
        client(sim, "n.nvmlInit(); n.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex(0), 1)")
        status, report = boot(sim, entries({"7g.40gb": 1}))
        assert (status, report["state"]) == (2, "waiting")
        assert "waits for a reset of the GPU or a reboot" in report["problems"][0]
        sim.let_go(holder)


@pytest.mark.parametrize("text", ["{", '{"config": {"version": "v2"}, "selected": "x"}', "[]"])
def test_damaged_file_marks_the_node_and_touches_nothing(text: str, boot: Boot) -> None:
    with start("a100-40", 1) as sim:
        status, report = boot(sim, None, text=text)
        assert status == 1
        assert report["problems"]
        assert scene(sim) == [[]]


def test_a_unit_that_is_restarted_in_service_takes_nothing_from_pods(
    boot: Boot, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "checkpoint")
    kubelet = PodResources(tmp_path / "pods.sock", ledger)
    socket = str(tmp_path / "pods.sock")
    other = entries({"7g.40gb": 1})
    with start("a100-40", 1) as sim:
        assert boot(sim, entries({"3g.20gb": 2}))[0] == 0
        before = scene(sim)
        device = client(
            sim,
            """
            n.nvmlInit()
            gpu = n.nvmlDeviceGetHandleByIndex(0)
            answer(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)))
            """,
        )
        ledger.give("idle", {"nvidia.com/mig-3g.20gb": [device]})
        kubelet.start()
        status, report = boot(sim, other, pods=socket)
        assert (status, report["state"]) == (1, "failed")
        assert (
            f"in use by pod default/idle (container main) with nvidia.com/mig-3g.20gb {device}"
            in (report["problems"][0])
        )
        assert scene(sim) == before
        kubelet.stop()
        # As at a boot, where the socket is left from before.
        assert boot(sim, other, pods=socket)[0] == 0
        assert scene(sim) != before
