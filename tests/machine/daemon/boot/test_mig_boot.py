# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mig``: the layout comes back after every kind of restart, or the node is marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import Quarantine, dump
from nvsim.testing import VERSION, Sim, client, start

from tests.fakes.daemon.quarantined import ENTRY, path, put
from tests.support.waiting import LIMIT, eventually

if TYPE_CHECKING:
    from tests.machine.daemon.boot.conftest import Commands, Container, Kubelet, Process

LAYOUTS = {
    "a100-40": {"1g.5gb": 2, "3g.20gb": 1, "1c.2g.10gb": 2},
    "a30": {"1g.6gb": 2, "2g.12gb": 1},
    "h100-80": {"1g.10gb": 2, "3g.40gb": 1, "1c.2g.20gb": 2},
    "b200": {"1g.23gb": 2, "3g.90gb": 1},
}


class Boot:
    """What gpu-mig.service does: a process, its exit status and its report."""

    def __init__(self, commands: Commands, folder: Path) -> None:
        self.commands, self.folder = commands, folder

    def begin(
        self,
        sim: Sim,
        config: Any,
        *,
        wait: float = LIMIT,
        text: str = "",
        pods: str = "/none",
        **how: Any,
    ) -> Process:
        path = self.folder / "mig.json"
        path.write_text(text or json.dumps({"config": config, "selected": ""}))
        words = ["mig", "--config", path, "--status", self.folder / "run/status.json"]
        words += ["--lock", self.folder / "run/lock", "--wait", wait, "--pod-resources", pods]
        return self.commands.begin(sim, *words, **how)

    def end(self, process: Process) -> tuple[int, dict[str, Any]]:
        status, _told = self.commands.end(process)
        report: dict[str, Any] = json.loads((self.folder / "run/status.json").read_text())
        return status, report

    def __call__(self, sim: Sim, config: Any, **how: Any) -> tuple[int, dict[str, Any]]:
        return self.end(self.begin(sim, config, **how))


@pytest.fixture
def boot(commands: Commands, tmp_path: Path) -> Boot:
    return Boot(commands, tmp_path)


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


BACK = [("a100-40", "reboot"), ("h100-80", "reload")]
ELSE = [(product, verb) for product in LAYOUTS for verb in ("reboot", "reload")]


@pytest.mark.parametrize(
    ("product", "verb"),
    BACK + [pytest.param(*one, marks=pytest.mark.long) for one in ELSE if one not in BACK],
)
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
        process = boot.begin(sim, entries({"1g.10gb": 7}))
        eventually(lambda: sim.looks(process.pid) >= 2)  # it asks again and again
        sim.ctl("load", version=VERSION, flavour="open")
        assert boot.end(process)[0] == 0


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


@pytest.mark.parametrize("named", ["index", "UUID", "PCI address"])
def test_gpu_that_is_set_aside_and_does_not_answer_is_left_out(
    boot: Boot, tmp_path: Path, named: str
) -> None:
    with start("h100-80", 3) as sim:
        found = sim.ctl("status")["gpus"]
        names = {"index": 1, "UUID": found[1]["uuid"], "PCI address": found[1]["pci"]}
        layout = [*entries({"1g.10gb": 7}, [0]), *entries({"3g.40gb": 2}, [names[named]])]
        sim.ctl("lose", gpu="1")
        for other in (None, found[0]):  # nobody is set aside, or one that answers
            aside = quarantine(tmp_path, other) if other else None
            status, report = boot(sim, layout, aside=aside)
            assert (status, report["state"], report["gpus"]) == (1, "failed", {})
            assert not any(scene(sim))
        status, report = boot(sim, layout, aside=quarantine(tmp_path, found[1]))
        assert (report["problems"], status) == ([], 0)
        assert report["gpus"] == {found[0]["uuid"]: "converged"}
        assert [len(one) for one in scene(sim)] == [7, 0, 0]


def quarantine(folder: Path, gpu: dict[str, Any]) -> Path:
    """Return a file that says that a GPU is in quarantine."""
    put(folder, dump(Quarantine({gpu["uuid"]: ENTRY._replace(pci=gpu["pci"])})))
    return path(folder)


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


def test_damaged_file_marks_the_node_and_touches_nothing(boot: Boot) -> None:
    with start("a100-40", 1) as sim:
        for text in ("{", '{"config": {"version": "v2"}, "selected": "x"}', "[]"):
            status, report = boot(sim, None, text=text)
            assert status == 1, text
            assert report["problems"]
        assert scene(sim) == [[]]


def test_a_unit_that_is_restarted_in_service_takes_nothing_from_pods(
    boot: Boot, kubelet: Kubelet
) -> None:
    socket, other = str(kubelet.socket), entries({"7g.40gb": 1})
    with start("a100-40", 1) as sim:
        assert boot(sim, entries({"3g.20gb": 2}))[0] == 0
        before = scene(sim)
        device = sim.ctl("status")["gpus"][0]["mig_devices"][0]["uuid"]
        kubelet.ledger.give("idle", {"nvidia.com/mig-3g.20gb": [device]})
        kubelet.service.start()
        status, report = boot(sim, other, pods=socket)
        assert (status, report["state"]) == (1, "failed")
        assert (
            f"in use by pod default/idle (container main) with nvidia.com/mig-3g.20gb {device}"
            in (report["problems"][0])
        )
        assert scene(sim) == before
        kubelet.service.stop()
        # As at a boot, where the socket is left from before.
        assert boot(sim, other, pods=socket)[0] == 0
        assert scene(sim) != before


def check_kept(boot: Boot, sim: Sim, container: Container, *, pods: Path) -> None:
    """See that no layout is made on the GPU of a container of which the kubelet does not know."""
    status, report = boot(sim, entries({"7g.40gb": 1}), pods=str(pods), container=container)
    assert (status, report["state"]) == (1, "failed")
    assert "nvidia0, of which the kubelet does not know" in report["problems"][0]
    assert scene(sim) == [[]]


def test_a_container_that_the_kubelet_has_forgotten_keeps_its_gpu(
    boot: Boot, container: Container, forgetful: Path
) -> None:
    with start("a100-40", 1) as sim:
        check_kept(boot, sim, container, pods=forgetful)
        assert boot(sim, entries({"7g.40gb": 1}), pods=str(forgetful))[0] == 0


def test_a_container_keeps_its_gpu_while_the_kubelet_is_down(
    boot: Boot, container: Container, tmp_path: Path
) -> None:
    (left := tmp_path / "left.sock").touch()
    with start("a100-40", 1) as sim:
        check_kept(boot, sim, container, pods=left)
