# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the scene's director can do to the simulated machine (the daemon's side of nvsimctl)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from .api.events import XID
from .api.faults import RECOVERIES, can_ask
from .engine import Engine, Event, Fault, Lie, Process
from .kernel import ci_minor, gi_minor
from .node import params

Request = dict[str, Any]
Verb = Callable[[Engine, Request, int], Any]
NONE = 0xFFFFFFFF


def carry_out(engine: Engine, request: Request, pid: int) -> dict[str, Any]:
    """Do what a request asks for and return the answer."""
    verb = VERBS.get(request["verb"])
    if verb is None:
        raise ValueError(f"unknown verb {request['verb']!r}")
    with engine.lock:
        return {"result": verb(engine, request, pid)}


def status(engine: Engine, _request: Request, _pid: int) -> Any:
    """Describe everything."""
    driver = engine.store.driver
    gpus = []
    for gpu in engine.store.gpus():
        devices = [
            {
                "uuid": gpu.mig_uuid(gi, ci),
                "gi": gi.id,
                "ci": ci.id,
                "minors": [
                    gi_minor(gpu.board.minor, gi.id),
                    ci_minor(gpu.board.minor, gi.id, ci.id),
                ],
            }
            for gi, ci in gpu.mig_devices()
        ]
        gpus.append(
            {"index": gpu.index, **asdict(gpu.board), **asdict(gpu.driver), "mig_devices": devices}
        )
    return {
        "driver": {"version": driver.version, "flavour": driver.flavour} if driver else None,
        "board": [asdict(one) for one in engine.store.board],
        "gpus": gpus,
        "processes": [asdict(one) for one in engine.processes],
        "faults": [asdict(one) for one in engine.faults],
        "running": engine.running,
        "permits": engine.permits,
    }


def load(engine: Engine, request: Request, _pid: int) -> None:
    """Load the driver; one that is loaded stays, as with modprobe."""
    if engine.store.driver is None:
        options = request.get("options") or {}
        params.shown(options)
        engine.store.load_driver(request["version"], request["flavour"], options)
    engine.render()


def unload(engine: Engine, _request: Request, _pid: int) -> None:
    """Unload the driver, unless a process is on a GPU."""
    if engine.processes:
        raise ValueError("module nvidia is in use")
    engine.store.unload_driver()
    engine.limits.clear()
    engine.render()


def reload(engine: Engine, request: Request, pid: int) -> None:
    """Unload and load, with the same version unless another is given."""
    driver = engine.store.driver
    if driver is None:
        raise ValueError("the driver is not loaded")
    unload(engine, request, pid)
    engine.store.load_driver(
        request.get("version") or driver.version,
        request.get("flavour") or driver.flavour,
        driver.options,
    )
    engine.render()


def option(engine: Engine, request: Request, _pid: int) -> None:
    """Let the loaded driver have been given an option, as by somebody who loaded it by hand."""
    if engine.store.driver is None:
        raise ValueError("the driver is not loaded")
    engine.store.driver.options[request["name"]] = request["value"]
    engine.store.save()
    engine.render()


def reboot(engine: Engine, request: Request, pid: int) -> None:
    """Do to the hardware what a reboot does: processes and the driver's state are gone."""
    engine.processes.clear()
    engine.faults.clear()
    if engine.store.driver is not None:
        reload(engine, request, pid)


def xid(engine: Engine, request: Request, _pid: int) -> None:
    """Deliver an XID."""
    gpu = engine.find(request["gpu"])
    gi, ci = request.get("gi"), request.get("ci")
    engine.post(
        Event(
            gpu.board.uuid,
            XID,
            request["number"],
            NONE if gi is None else gi,
            NONE if ci is None else ci,
        )
    )


def lose(engine: Engine, request: Request, _pid: int) -> None:
    """Let a GPU fall off the bus, or need a reset."""
    setattr(engine.find(request["gpu"]).driver, request.get("how", "lost"), True)
    engine.changed()


def restore(engine: Engine, request: Request, _pid: int) -> None:
    """Bring a GPU back as it was."""
    driver = engine.find(request["gpu"]).driver
    driver.lost = driver.reset_required = False
    engine.changed()


def reset(engine: Engine, request: Request, _pid: int) -> None:
    """Reset a GPU, unless a process is on it."""
    gpu = engine.find(request["gpu"])
    if engine.on(gpu):
        raise ValueError("the GPU is in use")
    engine.reset(gpu)


def hold(engine: Engine, request: Request, pid: int) -> dict[str, int]:
    """Put the calling process on a GPU."""
    gpu = engine.find(request["gpu"])
    memory = request.get("mem", 256) << 20
    engine.processes.append(
        Process(pid, gpu.board.uuid, request.get("gi"), request.get("ci"), memory)
    )
    return {"pid": pid}


def release(engine: Engine, _request: Request, pid: int) -> None:
    """Take the calling process off all GPUs."""
    engine.processes[:] = [one for one in engine.processes if one.pid != pid]


def fault(engine: Engine, request: Request, _pid: int) -> None:
    """Plan a fault."""
    everywhere = request["gpu"] == "all"
    uuid = None if everywhere else engine.find(request["gpu"]).board.uuid
    engine.faults.append(
        Fault(
            uuid, request["function"], request["code"], request.get("nth", 1), request.get("times")
        )
    )


def delay(engine: Engine, request: Request, _pid: int) -> None:
    """Make a function slow, for all GPUs or for one."""
    engine.delays[request["function"], _uuid(engine, request)] = request["ms"] / 1000


def hang(engine: Engine, request: Request, _pid: int) -> None:
    """Let a function not answer any more, for all GPUs or for one."""
    engine.delays[request["function"], _uuid(engine, request)] = math.inf


def step(engine: Engine, _request: Request, _pid: int) -> None:
    """Let one call go on that waits as its function hangs or is slow."""
    engine.permits += 1
    engine.lock.notify_all()


def lie(engine: Engine, request: Request, _pid: int) -> None:
    """Let a function store other bytes through an argument, for all GPUs or for one."""
    told = Lie(request["at"], bytes.fromhex(request["data"]))
    engine.lies[request["function"], _uuid(engine, request)] = told


def _uuid(engine: Engine, request: Request) -> str | None:
    gpu = request.get("gpu")
    return engine.find(gpu).board.uuid if gpu else None


def passthrough(engine: Engine, request: Request, _pid: int) -> None:
    """Make the machine a virtual one, or a real one again."""
    engine.passthrough = request["on"] == "on"


def vgpu(engine: Engine, request: Request, _pid: int) -> None:
    """Make the machine a vGPU guest, or none again."""
    engine.vgpu = request["on"] == "on"


def fabric_manager(engine: Engine, request: Request, _pid: int) -> None:
    """Stop the fabric manager, or start it again."""
    engine.fabric_manager = request["on"] == "on"


def cable(engine: Engine, request: Request, _pid: int) -> None:
    """Connect two GPUs by NVLinks; there are no switches then."""
    ends = [engine.find(request[end]).board.uuid for end in ("gpu", "other")]
    engine.cables += [(ends[0], ends[1]), (ends[1], ends[0])] * request["links"]


def fabric(engine: Engine, request: Request, _pid: int) -> None:
    """Let a GPU join an NVLink fabric that spans machines."""
    gpu = engine.find(request["gpu"]).board.uuid
    engine.cliques[gpu] = (request["cluster"], request["clique"])


def cap(engine: Engine, request: Request, _pid: int) -> None:
    """Let a BMC cap a GPU's power at so many watts, 0 for no more."""
    engine.find(request["gpu"]).board.power_cap = request["watts"] * 1000
    engine.changed()


def wear(engine: Engine, request: Request, _pid: int) -> None:
    """Let a memory row of a GPU fail for good, or exchange the GPU for one like it."""
    engine.find(request["gpu"]).board.row_failure = request["on"] == "on"
    engine.changed()


def ecc(engine: Engine, request: Request, _pid: int) -> None:
    """Count memory errors that could not be corrected; a row may wait for the reset that mends it."""
    driver = engine.find(request["gpu"]).driver
    driver.uncorrected = request["errors"]
    driver.row_pending = request.get("pending", "off") == "on"
    engine.changed()


def energy(engine: Engine, request: Request, _pid: int) -> None:
    """Let a GPU have been on for so many seconds, which its energy counter shows."""
    engine.find(request["gpu"]).driver.began = time.time() - request["seconds"]
    engine.changed()


def recovery(engine: Engine, request: Request, _pid: int) -> None:
    """Let the driver ask for something to be done, or for nothing; from 565 on it tells of that by XID 154.

    ValueError: the driver's branch does not have the action yet.
    """
    gpu, action, branch = engine.find(request["gpu"]), request["action"], engine.branch()
    if not can_ask(branch, action):
        raise ValueError(f"a driver of branch {branch} does not ask for {action}")
    changed = action != gpu.driver.recovery
    gpu.driver.recovery = action
    engine.changed()
    if changed and branch >= RECOVERIES[0]:
        engine.post(Event(gpu.board.uuid, XID, 154))


def rows(engine: Engine, request: Request, _pid: int) -> None:
    """Let so many memory rows of a GPU have been replaced, for errors that could be corrected and that could not."""
    engine.find(request["gpu"]).board.rows = (request["correctable"], request["uncorrectable"])
    engine.changed()


def sram(engine: Engine, request: Request, _pid: int) -> None:
    """Count errors in a GPU's SRAM that could not be corrected, as many as NVIDIA allows or more."""
    board = engine.find(request["gpu"]).board
    board.sram_errors = request["errors"]
    board.sram_exceeded = request.get("exceeded", "off") == "on"
    engine.changed()


def repair(engine: Engine, request: Request, _pid: int) -> None:
    """Let channels or TPCs of a GPU wait for a reset that repairs them, or have memory that nothing repairs."""
    gpu, what = engine.find(request["gpu"]), request["what"]
    owner = gpu.board if what == "unrepairable" else gpu.driver
    setattr(owner, {"channel": "channel_pending", "tpc": "tpc_pending"}.get(what, what), True)
    engine.changed()


def fabric_state(engine: Engine, request: Request, _pid: int) -> None:
    """Let a GPU's fabric be in a state, with NVML's error of it and the mask of its health."""
    told = (request["state"], request.get("status") or 0, request.get("health") or 0)
    engine.fabrics[engine.find(request["gpu"]).board.uuid] = told


def die(engine: Engine, request: Request, _pid: int) -> None:
    """Let a GPU be lost for good, now or at its next reset: no reset brings it back, and no boot finds it."""
    gpu = engine.find(request["gpu"])
    gpu.board.dead = True
    gpu.driver.lost = request.get("at", "once") == "once"
    engine.changed()


def profiles_need_mig(engine: Engine, request: Request, _pid: int) -> None:
    """Tell MIG profiles only of GPUs in MIG mode, or of all again."""
    engine.profiles_need_mig = request["on"] == "on"


def clear_faults(engine: Engine, _request: Request, _pid: int) -> None:
    """Forget faults, delays and lies. What waits goes on."""
    engine.faults.clear()
    engine.delays.clear()
    engine.lies.clear()
    engine.permits = 0
    engine.lock.notify_all()


def called(engine: Engine, _request: Request, _pid: int) -> dict[str, dict[str, int]]:
    """Return how often each function was called since this was asked last: by GPU, "" where it is of none."""
    found: dict[str, dict[str, int]] = {}
    for (name, gpu), times in engine.called.items():
        found.setdefault(name, {})[gpu or ""] = times
    engine.called.clear()
    return found


def answered(engine: Engine, request: Request, _pid: int) -> dict[str, dict[int, int]]:
    """Return how often a process' calls were answered so far: by function and by code."""
    found: dict[str, dict[int, int]] = {}
    for (pid, name, code), times in engine.answered.items():
        if pid == request["pid"]:
            found.setdefault(name, {})[code] = times
    return found


def waiting(engine: Engine, _request: Request, _pid: int) -> list[tuple[str, str]]:
    """Return which functions are waited for because they are slow, each with its GPU if it is of one."""
    return sorted((name, gpu or "") for (name, gpu), times in engine.waiting.items() if times)


def show(engine: Engine, _request: Request, _pid: int) -> None:
    """Render once more."""
    engine.render()


VERBS: dict[str, Verb] = {
    "status": status,
    "load": load,
    "unload": unload,
    "reload": reload,
    "option": option,
    "reboot": reboot,
    "xid": xid,
    "lose": lose,
    "restore": restore,
    "reset": reset,
    "hold": hold,
    "release": release,
    "fault": fault,
    "delay": delay,
    "hang": hang,
    "step": step,
    "lie": lie,
    "passthrough": passthrough,
    "profiles-need-mig": profiles_need_mig,
    "cable": cable,
    "fabric": fabric,
    "cap": cap,
    "wear": wear,
    "ecc": ecc,
    "energy": energy,
    "recovery": recovery,
    "rows": rows,
    "sram": sram,
    "repair": repair,
    "fabric-state": fabric_state,
    "die": die,
    "vgpu": vgpu,
    "fabric-manager": fabric_manager,
    "clear-faults": clear_faults,
    "render": show,
    "called": called,
    "answered": answered,
    "waiting": waiting,
}
