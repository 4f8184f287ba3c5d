# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What has to be put back, remembered in a file: the next manager does it after a crash."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from ..._shared._core.errors import NodeError
from ..._shared._nvml import readings
from ...tools import bounded, logs
from ...tools.state import VERSION, StateFile, StateUnusable, read, started
from ..paths import Names

END_SECONDS: Final = 5.0


class Rollback:
    """The compute mode as it was, and the control daemon that was started."""

    def __init__(self, names: Names) -> None:
        self._file = StateFile(Path(names.state), mode=0o600)
        self._device, self._log = names.device, names.log
        self._data: dict[str, Any] = {}
        try:
            found = read(self._file.path, (None, VERSION)) or {}
            self._data = {key: found[key] for key in ("daemon", "compute_mode") if key in found}
        except StateUnusable as error:
            logs.warning("what the last run left behind can't be read", cause=error)

    def end_leftover(self) -> None:
        """End the control daemon of a manager that crashed, and its servers."""
        pid, began = self._data.pop("daemon", (0, ""))
        if not pid or started(pid) != began or not self._is_ours(pid):
            return
        logs.warning("ending the control daemon of a manager that crashed", daemon=pid)
        deadline = time.monotonic() + END_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        while started(pid) == began:
            if time.monotonic() > deadline:
                raise NodeError(f"process {pid} of an earlier control daemon does not end")
            time.sleep(0.02)

    def _is_ours(self, pid: int) -> bool:
        """Tell whether a process was started as this device's control daemon."""
        environment = bounded.peek(Path(f"/proc/{pid}/environ")).split("\0")
        ours = f"CUDA_MPS_LOG_DIRECTORY={self._log}" in environment
        if not ours:
            logs.warning("a process that is no control daemon of ours is left alone", pid=pid)
        return ours

    def daemon(self, pid: int) -> None:
        """Remember a control daemon, with what tells it from a later process of its number."""
        self._data["daemon"] = (pid, started(pid))
        try:
            self._save()
        except NodeError as error:  # a full disk is no reason to end a daemon that has clients
            logs.warning("a crash of this manager would leave its daemon behind", cause=error)

    def make_exclusive(self) -> bool:
        """Let only one process, the MPS server, onto the GPU; return whether others were let there."""
        mode = readings.compute_mode(self._device)
        if "compute_mode" not in self._data:
            self._data["compute_mode"] = mode
            self._save()  # before the change, so that no crash in between loses it
        if mode != readings.EXCLUSIVE_PROCESS:
            readings.set_compute_mode(self._device, readings.EXCLUSIVE_PROCESS)
        return bool(mode != readings.EXCLUSIVE_PROCESS)

    def give_back(self) -> None:
        """Put the compute mode back as it was, and forget."""
        mode = self._data.pop("compute_mode", None)
        if mode is not None:
            readings.set_compute_mode(self._device, mode)
        self._file.remove()

    def _save(self) -> None:
        try:
            self._file.write(dict(self._data))
        except OSError as error:
            raise NodeError(f"can't write {self._file.path}", cause=error.strerror or "") from error
