# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Restores the settings of gpu.node.settings, after a boot and whatever else makes GPUs lose them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import Gpu, SettingsTold
from .._shared._base.services.mig import LOCK as MIG_LOCK
from .._shared._base.services.mig import LOCK_SECONDS
from .._shared._machine.host import Host
from .._shared._settings import boot as settings_boot
from .._shared._settings.capability import SettingsCapability, SettingsState
from .._shared._settings.plan import lost
from .._shared._settings.rules import Rule
from .._shared._settings.state import GpuState
from ..tools import bounded, logs
from ..tools.start_timeout import StartTimeout
from .driver import Quiet, driver, ended, status_of

ROUNDS: Final = 5


class Again(SettingsCapability):
    """As the module, but a setting whose users are not known holds up no other."""

    def users(self, read: Sequence[tuple[Gpu, SettingsTold]]) -> dict[str, tuple[str, ...]]:
        """Return the users of each GPU, or if they are not known the error."""
        try:
            return super().users(read)
        except NodeError as error:
            return {gpu.uuid: (str(error),) for gpu, _reported in read}


def settings(config: Path, wait: float, patience: float) -> int:
    """Restore the settings of GPUs that have lost them. Return the exit status: 1 if that failed for one.

    ``wait`` is how many seconds the driver may take to come up, ``patience`` how many seconds later services wait for
    this one while nothing happens. What somebody has changed since a GPU was set last is left alone.
    """
    with StartTimeout(patience) as going:
        status = status_of(lambda path: _settings(path, wait, going), config)
    return ended(status)


def _settings(config: Path, wait: float, going: StartTimeout) -> int:
    text = bounded.read(config).decode("utf-8", "replace")
    written, rules = settings_boot.load(text, str(config))
    params = {"state": "present", "rules": written, "boot": None, "lock_timeout": LOCK_SECONDS}
    host = Quiet()
    with driver(wait), host.lock(MIG_LOCK, timeout=LOCK_SECONDS):
        # What happens while this runs starts it no second time.
        for _round in range(ROUNDS):
            with contextlib.closing(Again(host, params, check_mode=False)) as capability:
                result = _round_of(capability, host, rules, going)
            if result is not None:
                return result
    logs.warning("the GPUs keep changing; the next start or run sees to it")
    return 0


def _round_of(
    capability: Again, host: Host, rules: Sequence[Rule], going: StartTimeout
) -> int | None:
    """Restore the settings of all GPUs that have lost them. Return the exit status, None if another look is due."""
    state = capability.observe()
    seen = settings_boot.load_seen(host.read(settings_boot.SEEN))
    for error in state.broken:
        logs.warning(f"left alone, since it does not answer: {error}")
    due: dict[str, GpuState] = {}
    calm = []  # what they have used by now shows a reset sooner
    for gpu in state.gpus:
        reason = state.marks[gpu.gpu.uuid].since(seen.get(gpu.gpu.uuid))
        if reason and gpu.aside:
            logs.warning(f"left alone: {gpu.named} is {gpu.aside}")
        elif reason:
            logs.info(f"{gpu.named}: {reason}")
            due[gpu.gpu.uuid] = gpu
        else:
            calm.append(gpu.gpu.uuid)
    fit = [uuid for uuid, gpu in due.items() if _set(capability, gpu, rules, state, going)]
    remaining = {uuid: mark for uuid, mark in seen.items() if uuid not in due}
    marks = {**remaining, **{uuid: state.marks[uuid] for uuid in (*calm, *fit)}}
    if marks != seen:
        capability.note(marks)
    if len(fit) < len(due):
        return 1
    return None if due else 0


def _set(
    capability: Again,
    gpu_state: GpuState,
    rules: Sequence[Rule],
    state: SettingsState,
    going: StartTimeout,
) -> bool:
    """Restore the settings of a GPU. Return whether all of them are in force."""
    steps, refused = lost(gpu_state, rules, state.node)
    problems = list(refused)
    for step in steps:
        try:
            capability.change(step)
        except NodeError as error:
            problems.append(str(error))
        else:
            logs.info(step.summary)
        going.renew()
    for problem in problems:
        logs.error(problem)
    return not problems
