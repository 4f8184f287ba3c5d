# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Asking for GPUs when each answer may take long, or never come: which are slow, which hang, how they are connected,
and their settings compared with what gpu.node.settings has written down. Nothing is set here.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from .._shared._base.gpu import (
    FUNCTION_NOT_FOUND,
    NOT_SUPPORTED,
    Gpu,
    Links,
    NvmlError,
    SettingsTold,
)
from .._shared._machine.host import Host
from .._shared._machine.nvml import readings
from .._shared._machine.nvml.calls import HEARD
from .._shared._machine.nvml.within import LATE, begin, outcome
from .._shared._node.machine.facts import driver_load
from .._shared._settings import boot as settings_boot
from .._shared._settings import state as settings_state
from .._shared._settings.plan import compared
from ..model.inventory import HUNG, SLOW
from ..model.topology import Topology
from ..tools import bounded, files
from ..tools.chores import Tries

EVERY: Final = -1  # not one GPU: what is asked for concerns all
IN_TIME: Final = 3  # answers in a row that must come in time from a GPU that was late
PATIENCE: Final = 1.0  # seconds without an answer after which the other GPUs are asked beside it
# Seconds that are waited at most if nothing is known yet, whatever the patience.
LONGEST: Final = 30.0
ANEW: Final = 600.0  # seconds until NVLinks are asked for again: they may train late
PAUSE: Final = 30.0  # seconds between two looks, unless a file is another one
FILES: Final = (settings_boot.CONFIG, settings_state.PATH)
NOTHING: Final = settings_state.Kept()
T = TypeVar("T")


class Late:
    """The GPUs that are late: while an answer takes longer than so many seconds, and until IN_TIME in a row did not.

    So a GPU at the edge does not come and go with each answer.
    """

    def __init__(self) -> None:
        self.seconds = float("inf")
        self._owed: dict[int, int] = {}

    def answered(self, key: int, seconds: float) -> None:
        """Note how long an answer took."""
        if seconds > self.seconds:
            self._owed[key] = IN_TIME
        elif left := self._owed.pop(key, 1) - 1:
            self._owed[key] = left

    def late(self, waits: Mapping[int, float]) -> frozenset[int]:
        """Return the keys that are late; ``waits`` are the seconds that each unanswered one is waited for."""
        overdue = {key for key, seconds in waits.items() if seconds > self.seconds}
        return frozenset(self._owed) | overdue

    def forget(self) -> None:
        """Forget which were late."""
        self._owed.clear()


class Asking:
    """Measures how long answers take. Keys are GPUs by their index, or EVERY.

    A driver is slow over a GPU where all that is asked takes longer than SLOW seconds, and hangs where NVML does
    not answer to anything for ``patience`` seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, patience: float | None = HUNG
    ) -> None:
        self._clock = clock
        self._slow, self._hung = Late(), Late()
        self.wait(patience)
        self._since: dict[int, float] = {}  # when it was asked
        self._heard: dict[int, float] = {}  # when NVML answered last to what is asked for that
        self._answers: dict[tuple[str, int], Future[Any]] = {}

    def wait(self, patience: float | None) -> None:
        """Wait for so many seconds from now on, for ever if it is None."""
        self.patience = float("inf") if patience is None else patience
        self.longest = min(self.patience * LATE / HUNG, LONGEST)
        self._slow.seconds, self._hung.seconds = min(SLOW, self.patience / 4), self.patience
        self._soon = min(PATIENCE, self._slow.seconds / 4)

    @contextlib.contextmanager
    def of(self, key: int) -> Iterator[None]:
        """Measure how long the answer takes that is asked for in a with statement."""
        begun = self._since[key] = self._heard[key] = self._clock()
        longest = 0.0

        def heard() -> None:
            nonlocal longest
            moment = self._clock()
            longest, self._heard[key] = max(longest, moment - self._heard[key]), moment

        token = HEARD.set(heard)
        try:
            yield
        finally:
            HEARD.reset(token)
            heard()
            self._slow.answered(key, self._clock() - begun)
            self._hung.answered(key, longest)
            del self._since[key], self._heard[key]

    def waits(self, *, besides: int | None = None) -> bool:
        """Return whether an answer is waited for, in any thread."""
        return any(key != besides for key in list(self._since))

    def slow(self) -> frozenset[int]:
        """Return the keys whose answers take long, those that hang included."""
        return self._slow.late(self._waits(self._since))

    def hung(self) -> frozenset[int]:
        """Return the keys that don't answer."""
        return self._hung.late(self._waits(self._heard))

    def forget(self) -> None:
        """Forget what was late and what was answered, since keys mean other GPUs from now on."""
        self._slow.forget()
        self._hung.forget()
        self._answers.clear()

    def each(
        self, question: str, keys: Iterable[int], ask: Callable[[int], T], known: Container[int]
    ) -> dict[int, T]:
        """Ask for each and return the answers there are.

        They are asked one after the other; if one takes long, the remaining ones are asked side by side.
        An answer that comes later is kept for the next call that asks the same ``question``; until then that GPU is
        not asked again. A ``known`` one is not waited for long, others until they are late. What ``ask`` raises is
        raised here.
        """
        asked = list(keys)
        todo = deque(
            key for key in asked if key not in self._since and (question, key) not in self._answers
        )
        waited, news = set(todo), queue.SimpleQueue[None]()
        answers: dict[int, T] = {}

        def timed(key: int) -> T:
            with self.of(key):
                return ask(key)

        def work() -> None:
            while todo:
                with contextlib.suppress(IndexError):  # another thread was quicker
                    key = todo.popleft()
                    self._answers[question, key] = outcome(partial(timed, key))
                    news.put(None)

        if todo:
            begin(work)
        while True:
            for key in asked:
                if answer := self._answers.pop((question, key), None):
                    answers[key] = answer.result()
                    waited.discard(key)
            if not any(key in todo or self._is_awaited(key, key in known) for key in waited):
                return answers
            try:
                news.get(timeout=self._soon)
            except queue.Empty:
                for _key in list(todo):
                    begin(work)

    def _is_awaited(self, key: int, is_known: bool) -> bool:
        """Return whether an answer that was asked for is still waited for."""
        waits = self._clock() - self._since.get(key, self._clock())
        return waits < (self._soon if is_known else self.longest)

    def _waits(self, since: Mapping[int, float]) -> dict[int, float]:
        moment = self._clock()
        return {key: moment - at for key, at in list(since.items())}


class Connections:
    """The connections of the GPUs, which are asked for once for each pair, as a ``topology``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.topology = Topology()
        self._clock = clock
        self._generation: object = None
        self._levels: dict[frozenset[str], int | None] = {}
        self._links: dict[tuple[str, bool], Links] = {}
        self._linked: dict[tuple[str, bool], float] = {}  # when they were asked for

    def refresh(self, gpus: Sequence[Gpu], generation: object, asking: Asking) -> None:
        """Read what is not known yet. GPUs that are late are left out.

        Args:
            gpus: The GPUs that can be asked.
            generation: The driver's, since another one may know other links.
            asking: Knows which GPUs are late.

        Raises:
            NvmlError: if a GPU did not answer; the next call asks it again.
        """
        if generation != self._generation:
            self._levels.clear()
            self._links.clear()
            self._linked.clear()
            self._generation = generation
        on = {gpu.uuid: gpu.mig_current for gpu in gpus}  # MIG mode takes NVLinks down
        by_index = {gpu.index: gpu for gpu in gpus} if len(gpus) > 1 else {}
        late = asking.slow()  # which would keep those beside them waiting
        in_time = [gpu for gpu in gpus if gpu.index not in late]
        pairs: dict[int, list[Gpu]] = {gpu.index: [] for gpu in in_time}
        for gpu, other in itertools.combinations(in_time, 2):
            if frozenset((gpu.uuid, other.uuid)) not in self._levels:
                pairs[gpu.index].append(other)
        old = self._clock() - ANEW
        alone = {gpu.index for gpu in in_time if self._linked.get(_key(gpu), old) <= old}
        keys = [at for at in by_index if at in alone or pairs.get(at)]
        answers = asking.each(
            "connections",
            keys,
            lambda at: self._ask(by_index[at], at in alone, pairs[at]),
            known=by_index,
        )
        known = Topology(
            {pair: level for pair, level in self._levels.items() if level is not None},
            {
                uuid: links
                for (uuid, mode), links in self._links.items()
                if on.get(uuid, mode) == mode
            },
            {**self.topology.addresses, **{gpu.uuid: gpu.pci_bus_id for gpu in gpus}},
        )
        if known != self.topology:
            self.topology = known
        for error in filter(None, answers.values()):
            raise error

    def _ask(self, gpu: Gpu, links: bool, gpus: Sequence[Gpu]) -> NvmlError | None:
        """Ask for a GPU's ``links`` if they are due, and for its levels to other GPUs."""
        failed = None
        try:
            if links:
                self._links[_key(gpu)] = readings.links(gpu)
                self._linked[_key(gpu)] = self._clock()
        except NvmlError as error:
            failed = error
        for other in gpus:
            pair = frozenset((gpu.uuid, other.uuid))
            try:
                self._levels[pair] = readings.level(gpu, other)
            except NvmlError as error:
                if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                    self._levels[pair] = None
                failed = error
        return failed


def _key(gpu: Gpu) -> tuple[str, bool]:
    return gpu.uuid, gpu.mig_current


@dataclass(frozen=True)
class Setting:
    """A setting that is declared for a GPU: its present and its declared value, in words."""

    uuid: str
    index: str
    setting: str
    present: str
    declared: str
    drifted: bool

    def describe(self) -> dict[str, Any]:
        """Return it as the status has it."""
        values = asdict(self)
        return {**values, "now": values.pop("present")}


class SettingsWatch:
    """The declared settings of all GPUs, as they were ``compared`` last."""

    def __init__(self, host_root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.compared: tuple[Setting, ...] = ()
        self._paths = [host_root / path.lstrip("/") for path in FILES]
        self._clock = clock
        self._looked, self._stamps = -math.inf, [files.stamp(path) for path in self._paths]

    def refresh(
        self, gpus: Sequence[Gpu], ask: Callable[[Gpu], SettingsTold], asking: Asking
    ) -> None:
        """Compare the GPUs if that is due. A GPU that is late stays as it was known.

        Args:
            gpus: The GPUs that can be asked.
            ask: Returns the settings that a GPU reports.
            asking: Knows which GPUs are late.

        Raises:
            NodeError, OSError: if not all can be compared; the next call tries again.
        """
        moment, stamps = self._clock(), [files.stamp(path) for path in self._paths]
        if moment - self._looked < PAUSE and stamps == self._stamps:
            return
        self._looked, self._stamps = -math.inf, stamps
        if stamps[0] is None:
            self.compared = ()
        else:
            self._compare(gpus, ask, asking)
        self._looked = moment

    def _compare(
        self, gpus: Sequence[Gpu], ask: Callable[[Gpu], SettingsTold], asking: Asking
    ) -> None:
        config, record_text = (self._text(path) for path in self._paths)
        rules = settings_boot.load(config or "", settings_boot.CONFIG)[1]
        record, load = settings_state.parse(record_text), driver_load(Host())
        by_index = {gpu.index: gpu for gpu in gpus}

        def answer(index: int) -> SettingsTold | NvmlError:
            try:
                return ask(by_index[index])
            except NvmlError as error:
                return error

        late = asking.slow()  # which would keep those beside them waiting
        keys = [index for index in by_index if index not in late]
        answers = asking.each("settings", keys, answer, known=by_index)
        known = {
            gpu.uuid: [setting for setting in self.compared if setting.uuid == gpu.uuid]
            for gpu in gpus
        }
        tries = Tries()
        for index, reported in answers.items():
            gpu = by_index[index]
            with tries:
                known[gpu.uuid] = []
                if isinstance(reported, NvmlError):
                    raise reported
                ours = record.get(gpu.uuid, NOTHING)
                values = settings_state.current_values(reported, ours, load)
                state = settings_state.GpuState(gpu, reported, values, ours)
                known[gpu.uuid] = [
                    Setting(gpu.uuid, str(index), *comparison)
                    for comparison in compared(state, rules)
                ]
        self.compared = tuple(setting for settings in known.values() for setting in settings)
        tries.check()

    @staticmethod
    def _text(path: Path) -> str | None:
        try:
            return bounded.read(path).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
