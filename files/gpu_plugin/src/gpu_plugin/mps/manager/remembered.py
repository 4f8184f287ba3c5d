# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What has to be put back, remembered in a file: the next manager does it after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from ... import files, logs
from ..._shared._core.errors import NodeError
from ..._shared._nvml import compute_mode
from ...state import started
from ..paths import Names

END_SECONDS: Final = 5.0


class Remembered:
    """The compute mode as it was, and the control daemon that was started."""

    def __init__(self, names: Names) -> None:
        self._path = Path(names.state)
        self._device, self._log = names.device, names.log
        self._data: dict[str, Any] = {}
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            logs.warning("what the last run left behind can't be read", cause=error)
            return
        if isinstance(found, dict):
            self._data = found

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
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        ours = f"CUDA_MPS_LOG_DIRECTORY={self._log}".encode()
        if ours not in environment:
            logs.warning("a process that is no control daemon of ours is left alone", pid=pid)
        return ours in environment

    def daemon(self, pid: int) -> None:
        """Remember a control daemon, with what tells it from a later process of its number."""
        self._data["daemon"] = (pid, started(pid))
        try:
            self._save()
        except NodeError as error:  # a full disk is no reason to end a daemon that has clients
            logs.warning("a crash of this manager would leave its daemon behind", cause=error)

    def make_exclusive(self) -> None:
        """Let only one process, the MPS server, onto the GPU."""
        if "compute_mode" not in self._data:
            self._data["compute_mode"] = compute_mode.get(self._device)
            self._save()  # before the change, so that no crash in between loses it
        compute_mode.put(self._device, compute_mode.EXCLUSIVE_PROCESS)

    def keep_exclusive(self) -> bool:
        """Make the GPU exclusive again where somebody changed that; return whether it was so."""
        if compute_mode.get(self._device) == compute_mode.EXCLUSIVE_PROCESS:
            return False
        compute_mode.put(self._device, compute_mode.EXCLUSIVE_PROCESS)
        return True

    def give_back(self) -> None:
        """Put the compute mode back as it was, and forget."""
        mode = self._data.pop("compute_mode", None)
        if mode is not None:
            compute_mode.put(self._device, mode)
        self._path.unlink(missing_ok=True)

    def _save(self) -> None:
        try:
            files.replace(self._path, json.dumps(self._data), 0o600)
        except OSError as error:
            raise NodeError(f"can't write {self._path}", cause=error.strerror or "") from error
