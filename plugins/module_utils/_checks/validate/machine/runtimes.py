# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the container runtimes on a node read its CDI specification."""

from __future__ import annotations

import posixpath
import typing as t

from ...._base.dra.allocation import owners_in, written
from ...._base.dra.names import DRA
from ...._base.errors import NodeError
from ...._base.visible_devices import by_handler_alone
from ...._cdi import boot
from ...._device_plugin.state import CONFIG
from ...._machine.host import Host
from ...._runtime.edits import lookup
from ...._runtime.machine import nvidia
from ...._runtime.machine.engine import Runtime
from ...._runtime.machine.engines import choose
from ...._runtime.machine.kubelet import refuse_strategies
from ...._runtime.machine.nvidia import refusal
from ...._runtime.machine.record import Records, Written
from ...._runtime.state import SPEC_DIRS, RuntimeOptions
from ..check import Check, judged, skipped

AGAIN = "run the role gpu.node.container_runtime"


def there(host: Host) -> t.List[Runtime]:
    """Return the runtimes on the node, none where there is none."""
    try:
        return choose(host, "auto")
    except NodeError:
        return []


def look(host: Host, runtimes: t.Sequence[Runtime], *, required: str = "") -> t.Dict[str, Check]:
    """Check by its name that each reads the specification; one that nobody configured need not, unless ``required``.

    That is the name of one of them, or ``auto`` for all.
    """
    records = Records(host)
    try:
        path = boot.load(host.read(boot.CONFIG) or "", boot.CONFIG).path
        noted = list(records.all().values())
    except NodeError:
        return {}
    folder = posixpath.dirname(path)
    return {
        runtime.kind.name: _look(
            runtime, folder, records, noted, required in ("auto", runtime.kind.name)
        )
        for runtime in runtimes
    }


def unreached(host: Host) -> t.Optional[NodeError]:
    """Return why nothing that the device plugin gives out reaches a container, None where it does or is not known."""
    text = host.read(CONFIG)
    try:
        config, is_dra = written(text), owners_in(text).allocation == DRA
    except ValueError:
        return None
    if is_dra or text is None:
        return None
    name = posixpath.basename(host.readlink(CONFIG) or "default")
    variable = "device_plugin_config" if name == "default" else f"device_plugin_configs.{name}"
    chosen = by_handler_alone(config)
    if chosen:
        lacking = nvidia.without(host)
        return refusal(variable, chosen, lacking) if lacking else None
    return next(iter(refuse_strategies(host, {variable: config})), None)


def _look(
    runtime: Runtime, folder: str, records: Records, noted: t.Sequence[Written], required: bool
) -> Check:
    name, unit = f"{runtime.kind.name}: CDI", runtime.unit
    ours = [entry for entry in noted if entry.runtime == runtime.kind.name]
    try:
        view = runtime.view(runtime.path(), RuntimeOptions(spec_dirs=()))
        gone = runtime.about_program(view.effective, RuntimeOptions())
        if gone:
            message, _label, step = gone[0].partition(". Next step: ")
            return judged(name, message, step)
        problem = _problem(runtime, view.effective, folder)
        running = None if problem else runtime.running(runtime.path())
        if running is not None:
            problem = _problem(runtime, {**view.effective, **running}, folder)
            problem = problem and f"{problem} in the one that runs, whatever its file has"
        read = () if view.is_in_effect(running) else runtime.reads(view, runtime.path())
        changed = records.changed(runtime, read)
    except NodeError as error:
        problem, changed = str(error), ()
    # We may have set up a handler alone.
    keys = {runtime.kind.keys.spec_dirs, *(path for path, _value in runtime.kind.keys.on)} - {()}
    paths = [entry.path for each in ours for entry in each.entries]
    by_cdi = any(path[-len(key) :] == key for path in paths for key in keys)
    if problem and not by_cdi and not required:
        return skipped(name, f"gpu.node has not set up CDI in it: {problem}")
    if problem:
        return judged(name, problem, AGAIN)
    state = runtime.state()
    if state != "active":
        return judged(name, f"{unit} is {state or 'not there'}", f"systemctl start {unit}")
    step = f"systemctl restart {unit}, or {AGAIN}"
    if unit and (records.stale(unit) or records.stale(unit, live=True)):
        return judged(name, f"{unit} has not read its configuration since it was changed", step)
    if changed:
        message = f"{unit} has not read {', '.join(changed)} since that was changed"
        return judged(name, message, step)
    return Check(name)


def _problem(runtime: Runtime, effective: t.Mapping[str, t.Any], folder: str) -> str:
    """Return why it does not read specifications in a folder, empty where it does."""
    kind = runtime.kind
    off = [".".join(path) for path, value in kind.keys.on if lookup(effective, path) != value]
    if off:
        return f"{off[0]} is off"
    folders = lookup(effective, kind.keys.spec_dirs) if kind.keys.spec_dirs else list(SPEC_DIRS)
    known = [_plain(str(folder)) for folder in folders] if isinstance(folders, list) else []
    if _plain(folder) in known:
        return ""
    return f"it reads {', '.join(known) or 'no folder'}, and the specification is in {folder}"


def _plain(folder: str) -> str:
    return f"/var{folder}" if folder.startswith("/run/") else folder.rstrip("/")
