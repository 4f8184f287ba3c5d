# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What GPUs are set to, beside what gpu.node.settings has written down. Nothing is set here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._base.gpu import Gpu, NvmlError, SettingsTold
from .._shared._machine.host import Host
from .._shared._node.machine.facts import driver_load
from .._shared._settings import boot as settings_boot
from .._shared._settings import state as settings_state
from .._shared._settings.plan import compared
from .._shared._settings.rules import Rule
from ..tools import bounded, files
from ..tools.chores import Tries
from .asking import Asking

PAUSE: Final = 30.0  # seconds between two looks, unless a file is another one
FILES: Final = (settings_boot.CONFIG, settings_state.PATH)
NOTHING: Final = settings_state.Kept()


@dataclass(frozen=True)
class Setting:
    """A setting that is declared for a GPU, as it is and as it is to be, in words."""

    uuid: str
    index: str
    setting: str
    now: str
    declared: str
    drifted: bool


class SettingsWatch:
    """``found`` are the declared settings of all GPUs. ``host_root`` is where the host's files are seen."""

    def __init__(self, host_root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.found: tuple[Setting, ...] = ()
        self._paths = [host_root / path.lstrip("/") for path in FILES]
        self._clock = clock
        self._looked, self._stamps = -math.inf, [files.stamp(path) for path in self._paths]

    def refresh(
        self, gpus: Sequence[Gpu], ask: Callable[[Gpu], SettingsTold], asking: Asking
    ) -> None:
        """Compare the GPUs where it is time. NodeError, OSError: not all can be, and the next call tries again.

        ``ask`` tells what a GPU is set to. One that is late stays as it was known.
        """
        now, stamps = self._clock(), [files.stamp(path) for path in self._paths]
        if now - self._looked < PAUSE and stamps == self._stamps:
            return
        self._looked, self._stamps = -math.inf, stamps
        if stamps[0] is None:
            self.found = ()
        else:
            self._compare(gpus, ask, asking)
        self._looked = now

    def _compare(
        self, gpus: Sequence[Gpu], ask: Callable[[Gpu], SettingsTold], asking: Asking
    ) -> None:
        config, kept = (self._text(path) for path in self._paths)
        rules = settings_boot.load(config or "", settings_boot.CONFIG)[1]
        record, load = settings_state.parse(kept), driver_load(Host())
        by_index = {gpu.index: gpu for gpu in gpus}

        def answer(index: int) -> SettingsTold | NvmlError:
            try:
                return ask(by_index[index])
            except NvmlError as error:
                return error

        late = asking.slow()  # which would keep those beside them waiting
        keys = [index for index in by_index if index not in late]
        answers = asking.each("settings", keys, answer, known=by_index)
        known = {gpu.uuid: [one for one in self.found if one.uuid == gpu.uuid] for gpu in gpus}
        tries = Tries()
        for index, told in answers.items():
            gpu = by_index[index]
            with tries:
                known[gpu.uuid] = []
                if isinstance(told, NvmlError):
                    raise told
                known[gpu.uuid] = list(_settings(gpu, told, record, load, rules))
        self.found = tuple(one for some in known.values() for one in some)
        tries.check()

    @staticmethod
    def _text(path: Path) -> str | None:
        try:
            return bounded.read(path).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return None


def _settings(
    gpu: Gpu,
    told: SettingsTold,
    record: Mapping[str, settings_state.Kept],
    load: str,
    rules: Sequence[Rule],
) -> Iterator[Setting]:
    kept = record.get(gpu.uuid, NOTHING)
    state = settings_state.GpuState(
        gpu, told, settings_state.current_values(told, kept, load), kept
    )
    for one in compared(state, rules):
        yield Setting(gpu.uuid, str(gpu.index), *one)
