# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin health``: which GPUs are unhealthy, why and until when; and an operator's way back."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import shown
from .._shared._repair.signs import ACTIONS, Action
from ..advertise.overview import NOTHING, aligned
from ..driver.health import Health
from ..driver.memory import FILE, ClearRequests, HealthFile
from ..model.inventory import Kind, Unhealthy
from ..tools import status
from ..tools.files import StateUnusable

ENDED: Final = "gpu-plugin is not running: this is what it knew when it ended"
KNOWN: Final = "This is what it has kept of faults"
NOT_RUNNING: Final = 3
PATIENCE: Final = 10.0  # seconds for the daemon to take a request over
HEADINGS: Final = ("GPU", "UUID", "MIG INSTANCE", "STATE", "SINCE")
Row = Mapping[str, Any]


class NothingToClear(NodeError):
    """The GPU is not there, has no fault, or has one that an operator can't clear."""


def show(status_file: Path, *, as_json: bool) -> int:
    """Print each GPU with what makes it unhealthy. Return the exit status: 3 if the daemon does not run."""
    state = status.load(status_file)
    rows = _rows(state) if state else _remembered(status_file)
    strangers = state.get("unreadable", []) if state else []
    if as_json:
        answer = {"running": state is not None, "gpus": rows, "unreadable": strangers}
        print(json.dumps(answer, indent=2))
    else:
        if state is None:
            why = status.silence(status_file)
            print(ENDED if why == status.ENDED else f"{why}. {KNOWN}", file=sys.stderr)
        elif old := status.staleness(status_file):
            print(old, file=sys.stderr)
        print("\n".join([_text(rows), *(f"another GPU can't be used: {why}" for why in strangers)]))
    return 0 if state else NOT_RUNNING


def clear(gpu: str, status_file: Path, seconds: float = PATIENCE) -> int:
    """Forget the faults of a GPU, by its index or UUID. Return the exit status.

    A daemon that runs takes it over, and so does the DRA driver's process; of a daemon that does not run
    the file is changed. It is asked all the same, since it may start meanwhile, or run where its process is
    not seen.

    Raises:
        NodeError: if the GPU can't be cleared, or the daemon does not take it over.
    """
    if os.geteuid():
        raise NodeError(
            "gpu-plugin health clear is for root only",
            cause=f"it was run by the user with the id {os.geteuid()}",
            hint=f"run it as root: sudo gpu-plugin health clear {shown(gpu)}",
        )
    state = status.load(status_file)
    rows = _clearable(gpu, _rows(state) if state else _remembered(status_file))
    uuid = rows[0]["gpu"]
    try:
        if (beside := status_file.parent / status.DRA_FOLDER).is_dir():
            ClearRequests(beside).ask(uuid)
        request = ClearRequests(status_file.parent).ask(uuid)
        if not state:
            _file(status_file).clear(Health(), uuid)
    except OSError as error:
        raise NodeError(f"{status_file.parent} can't be written to", cause=str(error)) from error
    if state:
        _await(request, seconds)
    for row in rows:
        print(f"GPU {row['index'] or NOTHING} ({uuid}): cleared: {row['reason']}")
    return 0


def _file(status_file: Path) -> HealthFile:
    """Return the device plugin's files of faults, in both places."""
    beside = Path(status.STATE_DIRECTORY, FILE) if str(status_file) == status.DEFAULT_FILE else None
    return HealthFile(status_file.with_name(FILE), Path("/"), beside)


def _rows(state: Row) -> list[dict[str, Any]]:
    """Return a row for each unhealthy GPU or instance, and one for each other GPU."""
    unhealthy = [{"state": "Unhealthy", **row} for row in state.get("health", ())]
    named = dict(zip(state.get("gpu_uuids", ()), state.get("gpu_indices", ()), strict=False))
    return [*unhealthy, *_healthy(named, {row["gpu"] for row in unhealthy})]


def _remembered(status_file: Path) -> list[dict[str, Any]]:
    """Return the rows of a daemon that has ended."""
    path = status_file.with_name(FILE)
    try:
        health = Health()
        named = _file(status_file).known(health)
    except StateUnusable as error:
        raise NodeError(
            str(error), hint=f"remove {path}: the device plugin can't use it, and starts over"
        ) from error
    rows = []
    for place, fault in health.faults().items():
        row = Unhealthy.of(place, named.get(place[0], ""), Kind.FAULT, fault)
        rows.append({"state": "Unhealthy", **asdict(row)})
    return [*rows, *_healthy(named, {row["gpu"] for row in rows})]


def _healthy(named: Mapping[str, str], unhealthy: set[str]) -> list[dict[str, Any]]:
    blank = dict.fromkeys(("gi", "ci", "kind", "reason", "since", "way_back", "verdict", "xid"))
    return [
        {"state": "Healthy", "gpu": uuid, "index": index, **blank, "clearable": False}
        for uuid, index in named.items()
        if uuid not in unhealthy
    ]


def _text(rows: Iterable[Row]) -> str:
    ordered = sorted(rows, key=lambda row: (row["index"].zfill(9), row["gpu"]))
    lines = iter(aligned([HEADINGS, *map(_cells, ordered)]))
    text = [next(lines)]
    for row, line in zip(ordered, lines, strict=True):
        text.append(line)
        if row["reason"]:
            known = ACTIONS.get(str(row.get("verdict")), Action.NONE)
            verdict = [f"     verdict: {known.word}"] if known else []
            text += [f"     {row['reason']}", *verdict, f"     way back: {row['way_back']}"]
    return "\n".join(text)


def _cells(row: Row) -> tuple[str, ...]:
    ids = [str(number) for number in (row["gi"], row["ci"]) if number is not None]
    since = NOTHING
    if row["since"] is not None:
        since = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(row["since"]))
    return row["index"] or NOTHING, row["gpu"], "/".join(ids) or NOTHING, row["state"], since


def _clearable(gpu: str, rows: Iterable[Row]) -> list[Row]:
    """Return the faults of a GPU that can be cleared; an error if there are none."""
    known = list(rows)
    ours = [row for row in known if gpu in (row["gpu"], row["index"]) and gpu]
    if not ours:
        names = sorted({f"{row['index'] or NOTHING} ({row['gpu']})" for row in known})
        raise NothingToClear(
            f"there is no GPU {shown(gpu)}",
            cause=f"the device plugin knows of {', '.join(names) or 'none'}",
            hint="give the index or the UUID of one of them, as gpu-plugin health shows them",
        )
    clearable = [row for row in ours if row["clearable"]]
    if not clearable and ours[0]["state"] == "Healthy":
        raise NothingToClear(f"GPU {shown(gpu)} has nothing to clear", cause="it has no fault")
    if not clearable:
        raise NothingToClear(
            f"GPU {shown(gpu)} can't be cleared",
            cause=ours[0]["reason"],
            hint=f"what brings it back is {ours[0]['way_back']}",
        )
    return clearable


def _await(request: Path, seconds: float) -> None:
    """Wait until the daemon has taken a request over."""
    deadline = time.monotonic() + seconds
    while request.exists():
        if time.monotonic() > deadline:
            raise NodeError(
                f"the device plugin has not taken the request over within {seconds:g} seconds",
                hint=f"see its log; it is taken over as soon as the plugin goes on, or remove {request}",
            )
        time.sleep(0.1)
