# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs' health as it is stored from process to process, and faults of it that an operator clears."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, shown
from ..tools import files, logs
from ..tools.bounded import peek
from ..tools.chores import Tries
from ..tools.files import VERSION, StateFile, StateUnusable, read
from .health import Health

BOOT_ID: Final = "proc/sys/kernel/random/boot_id"
FILE: Final = "health.json"
REQUESTS: Final = "health.clear"
GPU_NAME: Final = re.compile("[A-Za-z0-9-]{1,64}")
MOST: Final = 64  # requests that are looked at in one round


def boot_id(host_root: Path) -> str:
    """Return the id of this boot. If the host's /proc is not seen, this machine's is as good."""
    return (peek(host_root / BOOT_ID) or peek(Path("/") / BOOT_ID)).strip()


class HealthFile:
    """The file with the GPUs' health, which the next process of the daemon reads.

    A reboot is a reset of everything, so the file says of which boot it is; times in it are of the
    monotonic clock, which all processes of a boot share. ``host_root`` is where the host's /proc is
    seen. The same is kept ``beside``, if that is given: /run may be full while something new is known.
    """

    def __init__(self, path: Path, host_root: Path, beside: Path | None = None) -> None:
        self._file = StateFile(path)
        self._files = (self._file, *([StateFile(beside, mode=0o600)] if beside else []))
        self._boot = boot_id(host_root)

    def read(self, health: Health, load: object, generation: object) -> None:
        """Restore ``health`` from the file, if that is of this boot.

        ``load`` distinguishes one load of the driver from another, ``generation`` is what ``health`` knows
        the present one by. A file that can't be used is left aside with a warning.
        """
        try:
            data = self._load()
            if data is not None:
                is_same_load = data["load"] == json.loads(json.dumps(load))
                health.recall(data["health"], generation if is_same_load else None)
        except (NodeError, ValueError, KeyError, TypeError) as error:
            logs.warning(
                "what was known about the GPUs' health is lost",
                file=self._file.path,
                cause=cut(f"{type(error).__name__}: {error}"),
            )

    def write(self, health: Health, load: object, indices: Mapping[str, str] | None = None) -> None:
        """Write what ``health`` knows; ``indices`` are those of the GPUs by UUID, for people.

        Raises:
            OSError: if it can't be written; the next call tries again.
        """
        data = {"boot": self._boot, "load": load, "health": health.memory()}
        tries = Tries()
        for file in self._files:
            with tries:
                file.write({**data, "indices": dict(indices or {})})
        tries.check()

    def known(self, health: Health) -> dict[str, str]:
        """Restore ``health`` from the file of a daemon that has ended. Return the indices by UUID.

        Raises:
            StateUnusable: if no file can be used.
        """
        return self._known(self._load(), health)

    def clear(self, health: Health, uuid: str) -> list[str]:
        """Forget a GPU's faults in the file of a daemon that has ended, by ``health``. Return their reasons.

        Raises:
            StateUnusable: if no file can be used.
            OSError: if it can't be written; it stays as it is.
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
        """Return what was written last in this boot; an error if no file can be used."""
        usable: list[tuple[int, dict[str, Any]]] = []
        unusable: list[StateUnusable] = []
        for path in (file.path for file in self._files):
            try:
                written = 0
                with contextlib.suppress(OSError):
                    written = path.stat().st_mtime_ns
                data = read(path, (VERSION,))
                if data is not None and "boot" not in data:
                    raise StateUnusable(f"{path} can't be used", cause="it names no boot")
            except StateUnusable as error:
                unusable.append(error)
                continue
            if data is not None and data["boot"] == self._boot:
                usable.append((written, data))
        if unusable and not usable:
            raise unusable[0]
        return max(usable, key=lambda pair: pair[0])[1] if usable else None

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
    """An operator's requests to clear GPUs: files by their UUIDs in a folder that only root may write.

    Nothing but the name counts, so there is nothing in them that could be wrong.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / REQUESTS

    def ask(self, uuid: str) -> Path:
        """Request that a GPU is cleared. Return the file, which the daemon removes.

        Raises:
            OSError: if the file can't be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / uuid
        path.touch(0o600)
        return path

    def take(self) -> list[str]:
        """Return the GPUs that are to be cleared, and remove the requests.

        Raises:
            NodeError: if somebody else may write to the folder.
            OSError: if a request can't be removed.
        """
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return []
        uuids = []
        try:
            status = os.fstat(folder)
            writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if writable or status.st_uid not in (0, os.geteuid()):
                raise NodeError(
                    f"{self._folder} is not obeyed",
                    cause="others than root may write there",
                    hint="remove it; `gpu-plugin health clear` makes it as it has to be",
                )
            for name in sorted(os.listdir(folder))[:MOST]:
                try:
                    os.unlink(name, dir_fd=folder)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=folder)
                if GPU_NAME.fullmatch(name):
                    uuids.append(name)
                else:
                    logs.warning("not the UUID of a GPU to clear", name=shown(name))
        finally:
            os.close(folder)
        return uuids
