# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The modprobe file of gpu.node: the options of the driver's modules, and a blacklist of nouveau."""

from __future__ import annotations

import typing as t

from ..._base.errors import not_ours
from ..._base.steps import Step
from ..desired import Desired
from ..facts import DriverState
from ..module_options import in_force
from ..module_options.in_force import MODPROBE_FILE
from ..module_options.record import as_options, as_texts
from .modules import blacklists, render


def check(state: DriverState, desired: Desired) -> None:
    """Raise NodeError if the file has to be written and somebody else has written it."""
    if state.loaded.modules.foreign and _desired_file(state, desired)[0]:
        raise not_ours(MODPROBE_FILE, "options of kernel modules")


def changed_options(state: DriverState, desired: Desired) -> t.Dict[str, str]:
    """Return the options that have changed since the modules were loaded, with their values then."""
    load, record = state.loaded.load, state.history.record
    if not load:
        return {}
    written = as_options(record.options) or in_force.parse_own(state.loaded.modules.own or "")
    return in_force.changed(desired.module_options, written, record.before_load(load))


def changes_file(state: DriverState, desired: Desired) -> bool:
    """Return whether the modprobe file has to be written or removed."""
    if desired.state == "absent":
        return state.history.record.modprobe
    return (state.loaded.modules.own or "") != _desired_file(state, desired)[0]


def _desired_file(state: DriverState, desired: Desired) -> t.Tuple[str, bool]:
    """Return the desired text of the modprobe file, and whether it blacklists nouveau."""
    modules = state.loaded.modules
    # Another's blacklist does not help against an initramfs that was made before it.
    loose = modules.nouveau and (state.loaded.nouveau or not modules.blacklisted)
    loose = loose and bool(state.machine.gpus) and desired.source != "preinstalled"
    nouveau = blacklists(modules.own or "") or loose
    current = state.machine.distribution == "debian"
    return render(desired.module_options, nouveau=nouveau, current=current), nouveau


def plan(state: DriverState, desired: Desired) -> t.List[Step]:
    """Keep nouveau away from the GPUs and set the modules' options, in the initramfs as well.

    A blacklist of ours stays though the packages may have brought theirs: the kernel reads both.
    """
    modules = state.loaded.modules
    text, nouveau = _desired_file(state, desired)
    changes = text != (modules.own or "")
    kernels = modules.images if changes else modules.stale
    if not changes and not kernels and (text or not state.history.record.modprobe):
        return []
    summary = []
    if changes:
        parts = ["blacklist nouveau"] if nouveau and not blacklists(modules.own or "") else []
        parts += ["set the options of the modules"] if desired.module_options else []
        parts = parts or ["remove the modules' options"]
        summary.append(f"{' and '.join(parts)} in {MODPROBE_FILE}")
    if kernels:
        summary.append(f"rebuild the initramfs of {', '.join(kernels)}")
    options = as_texts(changed_options(state, desired))
    pending = tuple(sorted(f"{state.loaded.load} {option}" for option in options))
    params: t.Dict[str, t.Any] = {"text": text, "kernels": kernels}
    params.update({"spared": modules.spared} if modules.spared else {})
    params.update({"pending": pending} if pending else {})
    return [Step("modprobe", "; ".join(summary) or "forget the modprobe file", params)]
