# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What survives what, faults, and a daemon that dies."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
from nvsim.testing import Sim, client, start

from tests.support import helper_process
from tests.support.waiting import LIMIT

PARTITION = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
n.nvmlDeviceSetMigMode(h, 1)
gi = n.nvmlDeviceCreateGpuInstance(h, 9)
n.nvmlGpuInstanceCreateComputeInstance(gi, 2)
"""
LOOK = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
mode = n.nvmlDeviceGetMigMode(h)
gis = (n.c_nvmlGpuInstance_t * 16)()
count = ctypes.c_uint()
if mode[0]: n.nvmlDeviceGetGpuInstances(h, 9, gis, ctypes.byref(count))
answer([mode, count.value])
"""


@pytest.mark.parametrize(
    ("product", "profiles", "mode"),
    [
        ("a100-40", (9, 2), 1),
        ("a30", (5, 1), 1),
        ("h100-80", (9, 2), 0),
        ("b200", (9, 2), 0),
    ],
)
def test_mode_survives_a_reboot_before_hopper_only(
    product: str, profiles: tuple[int, int], mode: int
) -> None:
    gi, ci = profiles
    with start(product, 1) as sim:
        for verb in ("reboot", "reload"):
            client(sim, PARTITION.replace("9)", f"{gi})").replace("gi, 2", f"gi, {ci}"))
            sim.ctl(verb)
            assert client(sim, LOOK.replace("h, 9", f"h, {gi}")) == [[mode, mode], 0], verb


def test_reset_takes_the_instances_and_leaves_the_mode(h100: Sim) -> None:
    client(h100, PARTITION)
    h100.ctl("reset", gpu="0")
    assert client(h100, LOOK) == [[1, 1], 0]


def test_the_energy_counter_starts_again_with_a_reset_and_with_the_driver(h100: Sim) -> None:
    ask = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)"
    ask += "; answer(n.nvmlDeviceGetTotalEnergyConsumption(h))"
    for verb, arguments in (("reset", {"gpu": "0"}), ("reload", {})):
        h100.ctl("energy", gpu="0", seconds=10000)
        before = client(h100, ask)
        assert before >= 710_000_000  # millijoules, at the 71 W that it draws
        h100.ctl(verb, **arguments)
        assert client(h100, ask) < before


def test_mode_change_under_a_client_is_pending(a100: Sim) -> None:
    holder = a100.hold(0)
    ask = """
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    answer([n.nvmlDeviceSetMigMode(h, 1), n.nvmlDeviceGetMigMode(h)])
    """
    assert client(a100, ask) == [19, [0, 1]]
    a100.let_go(holder)
    a100.ctl("reset", gpu="0")
    assert client(a100, LOOK) == [[1, 1], 0]


def test_mode_change_in_a_virtual_machine_waits_for_a_reset(a100: Sim) -> None:
    a100.ctl("passthrough", on="on")
    ask = """
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    answer([n.nvmlDeviceSetMigMode(h, 1), n.nvmlDeviceGetMigMode(h)])
    """
    assert client(a100, ask) == [16, [0, 1]]
    a100.ctl("reset", gpu="0")
    assert client(a100, LOOK) == [[1, 1], 0]


def test_busy_instance_cannot_be_destroyed(a100: Sim) -> None:
    client(a100, PARTITION)
    gpu = a100.ctl("status")["gpus"][0]["mig_devices"][0]
    holder = a100.hold(0, gpu["gi"], gpu["ci"])
    destroy = f"""
    n.nvmlInit()
    gi = n.nvmlDeviceGetGpuInstanceById(n.nvmlDeviceGetHandleByIndex(0), {gpu["gi"]})
    answer(code(n.nvmlComputeInstanceDestroy, n.nvmlGpuInstanceGetComputeInstanceById(gi, {gpu["ci"]})))
    """
    assert client(a100, destroy) == 19
    a100.let_go(holder)
    assert client(a100, destroy) == 0


def test_killed_daemon_is_a_driver_that_is_not_loaded_and_comes_back_as_it_was(h100: Sim) -> None:
    client(h100, PARTITION)
    before = client(h100, LOOK)
    h100.kill()
    assert client(h100, "answer(code(n.nvmlInit))") == 9
    h100.start()
    assert client(h100, LOOK) == before == [[1, 1], 1]


def test_client_outlives_a_restart_of_the_daemon(h100: Sim) -> None:
    code = """
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    print(flush=True); sys.stdin.readline()
    answer(n.nvmlDeviceGetUUID(h))
    """
    text = (
        "import json, sys\nimport pynvml as n\nanswer = lambda v: print(json.dumps(v))\n"
        + textwrap.dedent(code)
    )
    process = helper_process.start(
        [sys.executable, "-c", text],
        env=h100.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        ready=helper_process.printed(),
    )
    h100.restart()
    out, _err = process.communicate("\n", timeout=LIMIT)
    assert h100.ctl("status")["gpus"][0]["uuid"] in out


def test_driver_not_loaded_and_versions_that_differ() -> None:
    with start("t4", 1, driver=None) as sim:
        assert client(sim, "answer(code(n.nvmlInit))") == 9
        sim.ctl("load", version="535.261.03", flavour="proprietary")
        assert client(sim, "answer(code(n.nvmlInit))") == 18
        sim.ctl("reload", version="550.163.01")
        assert client(sim, "answer(code(n.nvmlInit))") == 0


def test_lost_gpu_and_one_that_needs_a_reset(h100: Sim) -> None:
    ask = """
    n.nvmlInit()
    answer([code(lambda i: n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(i)), i) for i in (0, 3)])
    """
    h100.ctl("lose", gpu="3")
    assert client(h100, ask) == [0, 15]
    h100.ctl("restore", gpu="3")
    h100.ctl("lose", gpu="3", how="reset_required")
    assert client(h100, ask) == [0, 16]
    h100.ctl("restore", gpu="3")
    assert client(h100, ask) == [0, 0]


def test_fault_on_the_nth_call(h100: Sim) -> None:
    h100.ctl("fault", gpu="1", function="nvmlDeviceGetMemoryInfo", code=999, nth=2, times=1)
    found = client(
        h100,
        """
        n.nvmlInit()
        h = [n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]
        answer([code(n.nvmlDeviceGetMemoryInfo, h[i]) for i in (0, 1, 1, 1)])
        """,
    )
    assert found == [0, 0, 999, 0]


def test_unknown_function_and_failing_handler_are_answers(h100: Sim) -> None:
    found = client(
        h100,
        """
        n.nvmlInit()
        h = n.nvmlDeviceGetHandleByIndex(0)
        wild = ctypes.cast(0x1234560, n.c_nvmlDevice_t)
        answer([code(n.nvmlDeviceGetFanSpeed, h), code(n.nvmlDeviceGetUUID, wild),
                code(n.nvmlDeviceGetHandleByIndex, 99)])
        """,
    )
    assert found == [3, 2, 2]


def test_many_processes_and_threads_at_once(h100: Sim) -> None:
    code = """
    import threading
    n.nvmlInit()
    seen = []
    def work(i):
        h = n.nvmlDeviceGetHandleByIndex(i)
        for _ in range(40): seen.append(n.nvmlDeviceGetMinorNumber(h) == i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if n.nvmlDeviceGetCount() == 8 else 1)
    answer([len(seen), all(seen), os.waitpid(pid, 0)[1]])
    """
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _number: client(h100, code), range(6)))
    assert found == [[320, True, 0]] * 6


def test_instances_created_at_once_never_overlap(a100: Sim) -> None:
    code = """
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    answer(sum(code(n.nvmlDeviceCreateGpuInstance, h, 19) == 0 for _ in range(7)))
    """
    client(a100, "n.nvmlInit(); n.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex(0), 1)")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _number: client(a100, code), range(4)))
    assert sum(made) == 7
    starts = [gi["start"] for gi in a100.ctl("status")["gpus"][0]["gis"]]
    assert sorted(starts) == list(range(7))
