# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's state in a file that everybody may read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from .._shared._device_plugin import instance_lock
from .._shared._device_plugin.resources import HEALTHY, count
from .._shared._machine.host import Host
from .._shared._node.quarantine import GATE
from .files import StateUnusable, alive, read

DEFAULT_FILE: Final = "/run/gpu-node/status.json"
STATE_DIRECTORY: Final = "/var/lib/gpu-device-plugin"
ENDED: Final = "gpu-plugin is not running"
STALE: Final = 15.0  # seconds: three times the interval at which the process sets the file's time
DRA_FOLDER: Final = "dra"  # beside it: what the DRA driver's process knows of faults
LABELS_FILE: Final = "/run/gpu-node/labels.json"  # of the process that labels the node


def load(path: Path) -> dict[str, Any] | None:
    """Return the state of the running process that wrote it, None if none runs."""
    state = _read(path)
    return state if state and alive(state) else None


def silence(path: Path) -> str:
    """Return why there is no state of a running device plugin: none runs, or it has not written its state."""
    lock = path.parent / instance_lock.FILE
    if pid := Host().lock_holder(str(lock)):
        return f"gpu-plugin runs (process {pid}) and can't write {path}: see journalctl -u {instance_lock.SERVICE}"
    if lock.exists() and not os.access(lock, os.R_OK):
        return f"gpu-plugin has written no {path}, and whether it runs is for root alone to see"
    return ENDED


def staleness(path: Path) -> str:
    """Return that a state is old, empty if the process has set its time lately."""
    try:
        seconds = age(path)
    except OSError:
        return ""
    if seconds <= STALE:
        return ""
    return f"this is what gpu-plugin knew {seconds:.0f} seconds ago: see its log"


def age(path: Path) -> float:
    """Return how long ago the process set the file's time, in seconds.

    Raises:
        OSError: if there is no such file.
    """
    return max(time.time() - path.stat().st_mtime, 0.0)


def mig_boot(path: Path) -> dict[str, Any] | None:
    """Return the result of making the MIG layout at boot, None if that was not tried."""
    return _read(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return read(path)
    except StateUnusable:
        return None


def describe(state: dict[str, Any]) -> str:
    """Return the state in words."""
    lines = [
        f"gpu-plugin {state['version']} (process {state['pid']}): {state['state']}",
        f"driver: {state['driver_version'] or 'not there'}",
    ]
    if state.get("problem"):
        lines.append(f"problem: {state['problem']}")
    if state.get("config_problem"):
        lines.append(f"configuration on disk refused: {state['config_problem']}")
    if state.get("config_fallback"):
        lines.append(f"in force: the last good configuration, {state['config_sha256'][:12]}")
    for name, resource in state["resources"].items():
        registered = "registered" if resource["registered"] else "not registered with the kubelet"
        fit, every = count(resource, HEALTHY), count(resource)
        lines.append(f"{name}: {fit} of {every} healthy, {registered}")
    if problem := state.get("registration_problem"):
        lines.append(f"the kubelet does not know of all resources: {problem}")
    if slow := state.get("slow"):
        lines.append(f"the driver is slow, so these are as they were: {', '.join(slow)}")
    lines += [
        f"GPU {verdict['index']} ({uuid}): {verdict['reason']}. Verdict: {verdict['verdict']}, {verdict['next_step']}"
        for uuid, verdict in state.get("verdicts", {}).items()
    ]
    lines += quarantined(state)
    lines += [
        f"GPU {setting['index']} ({setting['uuid']}): {setting['setting']} is {setting['now']}, and declared is "
        f"{setting['declared']}"
        for setting in state.get("settings", ())
        if setting["drifted"]
    ]
    lines += [f"a GPU is not advertised: {why}" for why in state.get("unreadable", ())]
    lines += [
        f"vanished: {allocation['device']}, which pod {allocation['namespace']}/{allocation['pod']} "
        f"({allocation['container']}) has"
        for allocation in state.get("vanished", ())
    ]
    lines += [f"{name} fails: {why}" for name, why in state.get("chores", {}).items() if why]
    if labels := state.get("labels"):
        problem = f", {labels['problem']}" if labels["problem"] else ""
        lines.append(f"labels: {labels['state']} ({labels['output']}){problem}")
    if mig := (state.get("labels") or {}).get("mig"):
        lines.append(f"MIG layout by label: {': '.join(filter(None, mig.values()))}")
    if boot := state.get("mig_boot"):
        lines.append(f"MIG layout at boot: {'; '.join([boot['state'], *boot['problems']])}")
    if cdi := state.get("cdi"):
        stale = f", {len(cdi['missing'])} files are gone" if cdi["missing"] else ""
        lines.append(f"CDI specification: {len(cdi['devices'])} devices{stale}")
    return "\n".join(lines)


def quarantined(state: dict[str, Any]) -> list[str]:
    """Return what is in quarantine, a line each."""
    # Earlier releases do not report it.
    quarantine = state.get("quarantine") or {"gpus": {}, "node": None}
    named = {"the node": quarantine["node"]} if quarantine["node"] else {}
    return [
        f"held by the gate: {name}: {entry['reason']}"
        if entry["by"] == GATE
        else f"in quarantine since {entry['since']}: {name}: {entry['reason']}"
        + (f" (ticket {entry['ticket']})" if entry["ticket"] else "")
        for name, entry in {**named, **quarantine["gpus"]}.items()
    ]


def describe_labels(labels: dict[str, Any]) -> str:
    """Return the labels as they are written for the cluster, one a line."""
    return "\n".join(f"{key}={text}" for key, text in sorted(labels["labels"].items()))
