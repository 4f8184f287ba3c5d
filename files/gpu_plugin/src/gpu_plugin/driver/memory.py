# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is kept of GPUs from look to look and process to process, and what an operator clears of it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, shown
from ..model.inventory import GpuView
from ..tools import files, logs
from ..tools.bounded import peek
from ..tools.chores import Tries
from ..tools.files import VERSION, StateFile, StateUnusable, read

if TYPE_CHECKING:
    from .health import Health

BOOT_ID: Final = "proc/sys/kernel/random/boot_id"
FILE: Final = "health.json"
REQUESTS: Final = "health.clear"
GPU_NAME: Final = re.compile("[A-Za-z0-9-]{1,64}")
MOST: Final = 64  # requests that are looked at in one round
FALL: Final = 2  # by which it is less at least after it began again
GROWTH: Final = 1.1  # by which the energy has to grow to be kept anew, since that writes a file


@dataclass(frozen=True)
class _Readings:
    """What a GPU told. ``energy`` is in millijoules, None where it would show nothing."""

    energy: int | None
    pending: bool
    entries: tuple[int | None, ...]


class Resets:
    """What shows that a GPU was reset, where the driver does not say so itself: readings of GPUs that wait for one.

    Of a GPU that waits for a reset the readings are kept that another initialisation changes:

    * The energy that it consumed "since the driver was last reloaded" (nvmlDeviceGetTotalEnergyConsumption,
      Volta and later). It grows all the time, so where it is far less than it was, the driver initialised
      the GPU again; a reading that is a little less is no more than a bad reading. The driver also
      initialises a GPU when a process opens it that nobody had open, unless persistence mode is on (as
      nvmlEccCounterType_t says of its counters): the daemon's own restart would look like a reset. So it
      counts only where persistence mode was on.
    * A memory row that waits for a reset (nvmlDeviceGetRemappedRows, Ampere and later), and no longer does.
    * The GPU's entries in /sys and /proc, which are others after it was taken off the bus, or from the
      driver, and given back. The driver makes its own when it is given a GPU (nv_procfs_add_gpu, called by
      nv_pci_probe in its open kernel modules), and not when it initialises one.

    None of the three was seen on hardware yet; they follow NVML's documentation, that of persistence mode
    (docs.nvidia.com/deploy/driver-persistence: it keeps a GPU initialised without clients) and that source.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Readings] = {}

    def reset(self, view: GpuView) -> str:
        """Return what shows a reset since the readings were kept; nothing where none does."""
        before, now = self._kept.get(view.gpu.uuid), _readings(view)
        if before is None:
            return ""
        energy = view.condition.energy
        if before.energy is not None and energy is not None and energy < before.energy / FALL:
            return "its energy counter began again"
        if before.pending and not now.pending and view.condition.signs.rows:
            return "no memory row waits for a reset any more"
        both = zip(before.entries, now.entries, strict=False)
        if any(old is not None and new is not None and old != new for old, new in both):
            return "it was taken off the bus or from the driver, and given back"
        return ""

    def __bool__(self) -> bool:
        """Whether any GPU waits for a reset."""
        return bool(self._kept)

    def keep(self, waiting: Container[str], views: Iterable[GpuView]) -> None:
        """Keep the readings of the GPUs that wait for a reset, by UUID, as far as they can be read; and no others."""
        self._kept = {uuid: one for uuid, one in self._kept.items() if uuid in waiting}
        for view in views:
            if view.problem is None:
                self._keep(view)

    def _keep(self, view: GpuView) -> None:
        before, now = self._kept.get(view.gpu.uuid), _readings(view)
        if before is not None:
            grown = now.energy is not None and now.energy > (before.energy or 0) * GROWTH
            energy = now.energy if grown or now.energy is None else before.energy
            now = _Readings(energy, now.pending or before.pending, before.entries or now.entries)
        self._kept[view.gpu.uuid] = now

    def forget(self, uuid: str) -> None:
        """Forget a GPU, which waits for nothing any more."""
        self._kept.pop(uuid, None)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def shows(self, uuid: str) -> bool:
        """Tell whether a reset of this GPU alone would show."""
        kept = self._kept.get(uuid)
        return kept is not None and (kept.energy is not None or kept.pending)

    def memory(self) -> dict[str, Any]:
        """Return what is kept, as JSON can hold it."""
        return {uuid: asdict(kept) for uuid, kept in self._kept.items()}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take over what another process kept. Any error of a wrong shape or value: it is none."""
        self._kept = {str(uuid): _recalled(one) for uuid, one in memory.items()}


def _readings(view: GpuView) -> _Readings:
    told = view.condition
    energy = told.energy if told.persistent else None
    rows = told.signs.rows
    return _Readings(energy, bool(rows and rows.pending), view.entries)


def _recalled(data: Mapping[str, Any]) -> _Readings:
    energy = None if data["energy"] is None else int(data["energy"])
    entries = tuple(None if entry is None else int(entry) for entry in data["entries"])
    return _Readings(energy, bool(data["pending"]), entries)


def boot_id(host_root: Path) -> str:
    """Return what tells a boot from others. Where the host's /proc is not seen, this machine's is as good."""
    return (peek(host_root / BOOT_ID) or peek(Path("/") / BOOT_ID)).strip()


def _written_at(path: Path) -> int:
    """Return when the text of a file was written, in nanoseconds since 1970; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class HealthFile:
    """What is known of the GPUs' health, in a file that the next process of the daemon reads.

    A reboot is a reset of everything, so the file says of which boot it is; times in it are of the
    monotonic clock, which all processes of a boot share. ``host_root`` is where the host's /proc is
    seen. The same is kept ``beside``, if that is given: /run may be full while something new is known.
    """

    def __init__(self, path: Path, host_root: Path, beside: Path | None = None) -> None:
        self._file = StateFile(path)
        self._files = (self._file, *([StateFile(beside, mode=0o600)] if beside else []))
        self._boot = boot_id(host_root)

    def read(self, health: Health, load: object, generation: object) -> None:
        """Let ``health`` know what is in the file, if that is still true.

        ``load`` distinguishes one load of the driver from another, ``generation`` is what ``health`` knows
        the present one by. A file that can't be used is left aside with a word.
        """
        try:
            data = self._load()
            if data is not None:
                same = data["load"] == json.loads(json.dumps(load))
                health.recall(data["health"], generation if same else None)
        except (NodeError, ValueError, KeyError, TypeError) as error:
            logs.warning(
                "what was known about the GPUs' health is lost",
                file=self._file.path,
                cause=cut(f"{type(error).__name__}: {error}"),
            )

    def write(self, health: Health, load: object, indices: Mapping[str, str] | None = None) -> None:
        """Keep what ``health`` knows. OSError: it can't be written, and the next call tries again.

        ``indices`` are those of the GPUs by UUID, for people.
        """
        data = {"boot": self._boot, "load": load, "health": health.memory()}
        tries = Tries()
        for file in self._files:
            with tries:
                file.write({**data, "indices": dict(indices or {})})
        tries.check()

    def known(self, health: Health) -> dict[str, str]:
        """Let ``health`` know what a daemon that has ended knew. Returns the indices. StateUnusable."""
        return self._known(self._load(), health)

    def clear(self, health: Health, uuid: str) -> list[str]:
        """Forget a GPU's faults in the file of a daemon that has ended, by ``health``. Returns their reasons.

        StateUnusable; OSError: the file stays as it is.
        """
        data = self._load()
        self._known(data, health)
        reasons = health.clear(uuid)
        if data is not None and reasons:
            data["health"] = health.memory()
            for file in self._files:
                files.replace(file.path, json.dumps(data, indent=2, sort_keys=True) + "\n")
        return reasons

    def _load(self) -> dict[str, Any] | None:
        """Return what was written last of this boot. StateUnusable: no file can be used."""
        usable: list[tuple[int, dict[str, Any]]] = []
        unusable: list[StateUnusable] = []
        for path in (file.path for file in self._files):
            try:
                written, data = _written_at(path), read(path, (VERSION,))
                if data is not None and "boot" not in data:
                    raise StateUnusable(f"{path} can't be used", cause="it names no boot")
            except StateUnusable as error:
                unusable.append(error)
                continue
            if data is not None and data["boot"] == self._boot:
                usable.append((written, data))
        if unusable and not usable:
            raise unusable[0]
        return max(usable, key=lambda one: one[0])[1] if usable else None

    def _known(self, data: Mapping[str, Any] | None, health: Health) -> dict[str, str]:
        if data is None:
            return {}
        try:
            health.recall(data["health"], None)
            return {str(uuid): str(at) for uuid, at in data.get("indices", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateUnusable(
                f"{self._file.path} can't be used", cause=cut(str(error))
            ) from error


class ClearRequests:
    """An operator's wishes to clear GPUs: files by their UUIDs in a folder that only root may write.

    Nothing but the name counts, so there is nothing in them that could be wrong.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / REQUESTS

    def ask(self, uuid: str) -> Path:
        """Wish that a GPU is cleared. Returns the file, which the daemon removes. OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / uuid
        path.touch(0o600)
        return path

    def take(self) -> list[str]:
        """Return the GPUs that are to be cleared, and forget that. NodeError, OSError: some can't be."""
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        try:
            self._check(os.fstat(folder))
            return list(self._taken(folder))
        finally:
            os.close(folder)

    def _check(self, found: os.stat_result) -> None:
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NodeError(
                f"{self._folder} is not obeyed",
                cause="others than root may write there",
                hint="remove it; `gpu-plugin health clear` makes it as it has to be",
            )

    @staticmethod
    def _taken(folder: int) -> Iterator[str]:
        for name in sorted(os.listdir(folder))[:MOST]:
            try:
                os.unlink(name, dir_fd=folder)
            except IsADirectoryError:
                os.rmdir(name, dir_fd=folder)
            if GPU_NAME.fullmatch(name):
                yield name
            else:
                logs.warning("not the UUID of a GPU to clear", name=shown(name))
