# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs are reset by the genuine nvidia-smi, on a simulated driver: which, who makes way, and what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from nvsim import genuine
from nvsim.testing import client, start

from tests.machine.library.repair.reset.scene import (
    DCGM,
    LISTED,
    OPEN,
    PLUGIN,
    RESET,
    SERVED,
    Scene,
    uuids,
)
from tests.runner.tiers import long_but_first
from tests.support import helper_process
from tests.support.waiting import eventually

AWAY = [
    f"systemctl stop {DCGM}",
    f"systemctl stop {PLUGIN}",
    "rmmod nvidia_drm",
    "nvidia-smi -pm 0 -i 0",
]
BACK = [
    "nvidia-smi -pm 1 -i 0",
    "modprobe nvidia_drm",
    f"systemctl start {PLUGIN}",
    f"systemctl start {DCGM}",
]


def opened(machine: Scene, pid: int) -> int:
    """Return how often a process has opened NVML."""
    told = machine.sim.ctl("answered", pid=pid).get("nvmlInitWithFlags", {})
    return sum(told.values())


def actions(answer: dict[str, Any]) -> list[str]:
    return [one["action"] for one in answer["steps"]]


def test_gpu_that_asks_for_a_reset_gets_it_and_no_other_does(machine: Scene) -> None:
    machine.sim.ctl("recovery", gpu="1", action=4)
    done = machine.run(gpus=["all"])
    assert machine.ran() == ["nvidia-smi --gpu-reset -i 1"]
    assert done["reset"] == uuids(machine, 1)
    assert "recovery action 4" in done["gpus"][1]["asked_for"][0]
    assert done["gpus"][1]["asks_for"] == []
    assert "one by one" in done["gpus"][1]["rule"]
    assert "recovery action 4" in done["diff"]["before"]
    again = machine.run(gpus=["all"])
    assert not again["changed"]
    assert again["reset"] == machine.ran() == []


def test_what_holds_gpus_makes_way_and_comes_back_in_reverse_order(sick: Scene) -> None:
    done = sick.run(gpus=["0"], **LISTED)
    assert sick.ran() == [*AWAY, RESET, *BACK]
    assert actions(done) == ["stop_services", "reset_gpu", "start_services"]
    assert sick.gpu(0)["persistence"] == 1
    assert sick["services"] == SERVED["services"]
    assert not sick.run(gpus=["0"], **LISTED)["changed"]
    assert sick.ran() == []


def test_check_mode_says_what_is_reset_and_stopped_and_who_blocks_it(sick: Scene) -> None:
    holder = sick.sim.hold(0)
    told = sick.run(gpus=["all"], check=True, **LISTED)
    assert actions(told) == ["stop_services", "reset_gpu", "start_services"]
    assert told["steps"][0]["summary"].startswith(f"stop {DCGM}, {PLUGIN}, the module nvidia_drm")
    assert [f"process {holder.pid} (" in one for one in told["blocked_by"]] == [True]
    assert told["refused"]
    assert "would be refused" in told["warnings"][0]
    assert told["gpus"][0]["used_by"] == told["blocked_by"]
    waiting = sick.run(gpus=["all"], check=True, on_busy="wait", **LISTED)
    assert "would wait" in waiting["warnings"][0]
    assert not waiting["refused"]
    assert sick.ran() == []


def test_gpu_in_use_is_not_reset_and_its_user_is_named(sick: Scene) -> None:
    holder = sick.sim.hold(0)
    failed = sick.run(gpus=["0"], **LISTED)
    assert f"in use by process {holder.pid} (" in failed["failed"]
    assert failed["refused"]
    assert sick.ran() == []


def test_gpu_in_use_is_waited_for(sick: Scene) -> None:
    holder = sick.sim.hold(0)
    run = sick.begin(gpus=["0"], on_busy="wait", **LISTED)
    eventually(lambda: opened(sick, run.pid) > 4)  # more often than for one look
    assert sick["log"] == []
    sick.sim.let_go(holder)
    assert json.loads(run.communicate()[0])["reset"] == uuids(sick, 0)
    failed = sick.run(gpus=["0"], reset="always", on_busy="wait", wait_timeout=0)
    assert "failed" not in failed
    sick.sim.hold(0)
    failed = sick.run(gpus=["0"], reset="always", on_busy="wait", wait_timeout=0)
    assert failed["failed"].startswith("after 0 s GPU 0 (")


def test_who_comes_while_services_stop_keeps_the_gpu(sick: Scene) -> None:
    sick.change(comes="0")
    failed = sick.run(gpus=["0"], **LISTED)
    assert "can't be reset: in use by process " in failed["failed"]
    assert "reset" not in failed  # none was tried
    assert sick.ran() == [*AWAY, *BACK]
    assert sick["services"] == SERVED["services"]


def test_pod_that_was_given_a_gpu_keeps_it(sick: Scene) -> None:
    uid = "b5a10f2c-0d4f-4f7c-9f0b-6f1d8a1c2e3d"
    entry = {"PodUID": uid, "ContainerName": "main", "ResourceName": "nvidia.com/gpu"}
    entry["DeviceIDs"] = {"-1": uuids(sick, 0)}  # type: ignore[assignment]
    given = json.dumps({"Data": {"PodDeviceEntries": [entry]}})
    files = {"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": given}
    files |= {f"/var/lib/kubelet/pods/{uid}/etc-hosts": "", "/proc/1/cgroup": "0::/init.scope\n"}
    sick.change(files={**SERVED["files"], **files})
    failed = sick.run(gpus=["0"], **LISTED)
    assert f"pod {uid} (container main) with nvidia.com/gpu" in failed["failed"]
    assert sick.run(gpus=["1"], reset="always", **LISTED)["reset"] == uuids(sick, 1)
    assert sick.run(gpus=["0"], on_allocated="ignore", **LISTED)["reset"] == uuids(sick, 0)


@pytest.mark.parametrize("at", long_but_first(range(len([*AWAY, RESET, *BACK]))))
def test_next_run_brings_back_what_a_killed_one_has_stopped(sick: Scene, at: int) -> None:
    """Each run ends before another command; the GPU is reset by the next one where it was not."""
    before = [*AWAY, RESET, *BACK][at].replace(" -i 0", "")
    sick.killed(before, gpus=["0"], **LISTED)
    done = sick.run(gpus=["0"], **LISTED)
    assert done["changed"]
    assert sick.gpu(0)["recovery"] == 0
    assert sick.gpu(0)["persistence"] == 1
    assert sick["services"] == SERVED["services"]
    assert sick.ran().count(RESET) == 1
    assert "/var/lib/gpu-node/stopped-services.json" not in sick["files"]
    assert not sick.run(gpus=["0"], **LISTED)["changed"]


def test_run_for_another_gpu_brings_back_what_a_killed_one_has_stopped(sick: Scene) -> None:
    sick.killed("nvidia-smi --gpu-reset", gpus=["0"], **LISTED)
    sick.ran()
    assert actions(sick.run(gpus=["2"])) == ["start_services"]
    assert sick.ran() == BACK


def test_gpu_that_does_not_come_back_is_an_error_and_services_run_again(sick: Scene) -> None:
    sick.sim.ctl("die", gpu="0", at="reset")
    failed = sick.run(gpus=["0"], **LISTED)
    assert "did not come back from the reset" in failed["failed"]
    assert "reboot the node" in failed["failed"]
    assert "replace the GPU" in failed["failed"]
    assert failed["not_reset"] == uuids(sick, 0)
    assert sick.ran() == [*AWAY, RESET, *BACK]
    assert sick["services"] == SERVED["services"]
    again = sick.run(gpus=["0"], reset="always")
    assert "a reset does not bring it back: NVML says that the GPU is lost" in again["failed"]
    assert sick.ran() == []


def test_services_of_a_killed_run_start_though_its_gpu_is_lost_by_now(sick: Scene) -> None:
    sick.killed("nvidia-smi --gpu-reset", gpus=["0"], **LISTED)
    sick.sim.ctl("die", gpu="0")
    assert "a reset does not bring it back" in sick.run(gpus=["0"], **LISTED)["failed"]
    assert sick["services"] == SERVED["services"]


def test_services_of_a_killed_run_start_though_the_kubelet_can_t_be_asked_by_now(
    sick: Scene,
) -> None:
    sick.killed("nvidia-smi --gpu-reset", gpus=["0"], **LISTED)
    claims = {"/var/lib/kubelet/dra_manager_state": "gpu.nvidia.com"}
    sick.change(files={**sick["files"], **claims})
    assert "not known which pods have GPUs" in sick.run(gpus=["0"], **LISTED)["failed"]
    assert sick["services"] == SERVED["services"]
    assert sick.gpu(0)["persistence"] == 1


def test_gpus_that_were_reset_before_another_failed_are_told(machine: Scene) -> None:
    machine.sim.ctl("die", gpu="1", at="reset")
    failed = machine.run(gpus=["0", "1", "2"], reset="always")
    assert failed["reset"] == uuids(machine, 0)
    assert failed["not_reset"] == uuids(machine, 1)
    assert machine.ran()[-1] == "nvidia-smi --gpu-reset -i 1"


def test_refusal_of_nvidia_smi_brings_back_what_made_way(sick: Scene) -> None:
    """A process that is seen by nobody else keeps the GPU open by NVML."""
    words = [
        sys.executable,
        "-c",
        f"import json, sys\nimport pynvml as n\n{OPEN}print(1, flush=True); sys.stdin.read()",
    ]
    with helper_process.start(
        words,
        env=sick.sim.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        ready=helper_process.printed(),
    ) as monitor:
        failed = sick.run(gpus=["0"], **LISTED)
        assert "In use by another client" in failed["failed"]
        assert "lsof" in failed["failed"]
        assert failed["reset"] == []
        assert failed["refused"]  # by who has the GPU: it says nothing of the GPU
        assert monitor.stdin is not None
        monitor.stdin.close()
    assert sick["services"] == SERVED["services"]
    assert sick.gpu(0)["persistence"] == 1


def test_gpu_that_answers_nothing_but_that_it_wants_a_reset_is_reset(machine: Scene) -> None:
    machine.sim.ctl("lose", gpu="2", how="reset_required")
    done = machine.run(gpus=uuids(machine, 2))
    assert done["reset"] == uuids(machine, 2)
    assert done["gpus"][0]["asked_for"] == ["NVML says that the GPU needs a reset"]


@pytest.mark.parametrize("pending", ["ecc", "rows"])
def test_gpu_on_which_something_waits_for_a_reset_gets_it(machine: Scene, pending: str) -> None:
    if pending == "ecc":
        client(machine.sim, OPEN + "n.nvmlDeviceSetEccMode(h, 0)")
    else:
        machine.sim.ctl("repair", gpu="0", what="tpc")
        machine.sim.ctl("recovery", gpu="0", action=4)
    assert machine.run(gpus=["all"])["reset"] == uuids(machine, 0)
    assert machine.run(gpus=["all"])["reset"] == []


def test_what_a_reset_takes_is_told(machine: Scene) -> None:
    def lost() -> Any:
        return done["lost"][machine.gpu(0)["uuid"]]

    client(machine.sim, OPEN + "n.nvmlDeviceSetComputeMode(h, 3)")
    done = machine.run(gpus=["0"], reset="always")
    assert lost() == {"compute_mode": "exclusive_process"}
    client(machine.sim, OPEN + "n.nvmlDeviceSetMigMode(h, 1)")
    gi = "gi = n.nvmlDeviceCreateGpuInstance(h, 9); n.nvmlGpuInstanceCreateComputeInstance(gi, 2)"
    client(machine.sim, OPEN + gi)
    (mig,) = machine.gpu(0)["mig_devices"]
    done = machine.run(gpus=["0"], reset="always")
    assert lost() == {"mig_devices": [f"3g.40gb ({mig['uuid']})"]}
    assert "3g.40gb" in done["diff"]["before"]


def test_a_reset_that_is_always_made_is_made_in_each_run(machine: Scene) -> None:
    for _again in range(2):
        assert machine.run(gpus=["3"], reset="always")["reset"] == uuids(machine, 3)


def test_a_reset_mends_no_memory_and_says_so(machine: Scene) -> None:
    machine.sim.ctl("wear", gpu="0", on="on")
    done = machine.run(gpus=["0"], reset="always")
    assert "a memory row could not be replaced. Next step: replace the GPU" in done["warnings"][0]
    assert machine.run(gpus=["0"])["reset"] == []


@pytest.mark.parametrize("action", [2, 7, 6])
def test_gpu_that_asks_for_more_than_a_reset_is_refused(action: int) -> None:
    with start("h100-80", 1, driver="615.71.09") as sim:
        machine = Scene(sim, genuine.nvidia_smi())
        sim.ctl("recovery", gpu="0", action=action)
        for reset in ("when_needed", "always"):
            failed = machine.run(gpus=["0"], reset=reset)
            assert "reboot the node" in failed["failed"]
        assert machine.ran() == []


def test_gpu_over_which_the_driver_hangs_is_refused(sick: Scene) -> None:
    sick.sim.ctl("hang", function="nvmlDeviceGetFieldValues", gpu=sick.gpu(0)["uuid"])
    failed = sick.run(gpus=["0"], reset="always", hung=2.0, **LISTED)
    assert "a reset does not bring it back: the driver does not answer" in failed["failed"]
    assert "reboot the node" in failed["failed"]
    assert sick.ran() == []


def test_mps_server_without_clients_ends_for_the_reset(sick: Scene) -> None:
    holder, uuid = sick.sim.hold(0), sick.gpu(0)["uuid"]
    state = {"pipe": "/run/gpu-node/mps/pipe", "servers": [{"pid": holder.pid, "clients": []}]}
    files = {
        f"/run/gpu-node/mps/{uuid}.settings.json": "{}",
        f"/run/gpu-node/mps/{uuid}.json": json.dumps(state),
        f"/proc/{holder.pid}/comm": "nvidia-cuda-mps-server"[:15],
    }
    sick.change(files={**SERVED["files"], **files})
    told = sick.run(gpus=["0"], check=True, **LISTED)
    assert told["blocked_by"] == []
    assert "end_mps_server" in actions(told)
    state["servers"] = [{"pid": holder.pid, "clients": [7]}]
    sick.change(
        files={**SERVED["files"], **files, f"/run/gpu-node/mps/{uuid}.json": json.dumps(state)}
    )
    assert sick.run(gpus=["0"], check=True, **LISTED)["blocked_by"]
    sick.change(files={**SERVED["files"], **files})
    assert sick.run(gpus=["0"], **LISTED)["reset"] == [uuid]
    assert holder.wait() < 0


@pytest.mark.parametrize(
    "name", ["9", "GPU-00000000-0000-0000-0000-000000000000", "0000:99:00.0", ""]
)
def test_gpu_that_the_node_does_not_have_is_refused(machine: Scene, name: str) -> None:
    failed = machine.run(gpus=["0", name], reset="always")
    assert failed["failed"].startswith(f"gpus: {name!r} is not valid: expected all, or the UUID")
    assert machine.ran() == []


def test_gpu_is_named_in_each_of_its_ways(machine: Scene) -> None:
    gpu = machine.gpu(1)
    for name in (gpu["uuid"], gpu["serial"], gpu["pci"], f"0000{gpu['pci']}".upper(), "1"):
        assert machine.run(gpus=[name], reset="always", check=True)["steps"][0][
            "summary"
        ].startswith("reset GPU 1 (")
