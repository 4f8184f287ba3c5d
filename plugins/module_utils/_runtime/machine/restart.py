# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Restart or reload a runtime, ask it what it has then, and put its files back where it refuses them."""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import NodeError
from ..._machine import units
from ..._machine.host import Host
from ..state import RuntimeView, describe
from .engine import Runtime
from .record import Records

# Seconds between looks at a program that was reloaded: each may be a line in its log.
PAUSES = (0.2, 0.8, 2.0, 4.0, 8.0)
Put = t.Callable[[str, t.Optional[str]], None]


def activate(
    host: Host,
    records: Records,
    runtime: Runtime,
    view: RuntimeView,
    path: str,
    verb: str,
    put: Put,
) -> None:
    """Have a unit restart or reload, and check that its program has what it must have.

    ``put`` writes a file, or removes it where its text is None.

    Raises:
        NodeError: if it does not; its files are then as they were before, and the unit runs by them.
    """
    unit = runtime.unit
    called = False
    try:
        runtime.check_next_start(view, path)
        called = True
        _call(host, verb, unit)
        _check(host, runtime, view, path)
    except NodeError as error:
        _put_back(host, records, unit, verb if called else "", put, error)
        raise
    records.forget_before(unit)


def _call(host: Host, verb: str, unit: str) -> None:
    # Docker's unit may start three times a minute, whoever asks; systemd refuses the fourth until it has forgotten.
    host.run(["systemctl", "reset-failed", unit], check=False)
    units.systemctl(host, verb, unit)


def _check(host: Host, runtime: Runtime, view: RuntimeView, path: str) -> None:
    for pause in (*PAUSES, None):
        runtime.forget_command()
        lacking = view.lacking_in_effect(runtime.running(path))
        if not lacking:
            return
        if pause is not None:
            time.sleep(pause)
    message = f"{runtime.unit} runs without {describe(lacking)}, which {view.file} has"
    raise units.failure(host, runtime.unit, message)


def _put_back(
    host: Host, records: Records, unit: str, verb: str, put: Put, error: NodeError
) -> None:
    """Write the files that the program ran with before, and have it run by them again by this verb, if any."""
    files = records.before(unit)
    if not files:  # somebody else has edited them
        return
    try:
        for path, text in files.items():
            put(path, text)
        records.forget_before(unit, restore=True)
        for path in files:
            records.wrote(path)
        if verb:
            _call(host, verb, unit)
    except NodeError as second:
        error.hint = f"{error.hint}; {', '.join(files)} was put back, and still: {second}"
        return
    names = ", ".join(files)
    error.message = f"{error.message} ({names} is as it was before, and {unit} runs by it)"
