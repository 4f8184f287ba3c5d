# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long each process has a time-sliced GPU: a policy of the driver, which only nvidia-smi can set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .._shared._core.errors import NodeError
from .._shared._host.real import LocalHost
from ..config.sharing import TIME_SLICES
from ..tools import logs
from ..tools.chores import Chore, Worker

PROGRAM: Final = "nvidia-smi"
TIMEOUT: Final = 20.0


class TimeSlices:
    """Sets what is asked for once, and again after another load of the driver, which forgets it."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program
        self._set: dict[str, str] = {}
        self._problem = ""
        self._generation: object = None
        self._worker = Worker("time slices")  # the driver's program may hang
        self.chore = Chore("time_slices", "the time slice can't be set", self.want)

    def begin(self, slices: Mapping[str, str], generation: object) -> None:
        """Do what want() does, without waiting for it."""
        if slices or self.chore.ran:
            self._worker.start(lambda: self.chore.run(slices, generation))

    def want(self, slices: Mapping[str, str], generation: object) -> None:
        """Set time slices by GPU. What is no longer asked for gets the default back.

        NodeError: the driver does not set them, and is not asked the same again.
        """
        if generation != self._generation:
            self._generation = generation
            self._set.clear()
        wanted = {**dict.fromkeys(self._set, "default"), **slices}
        groups = {
            name: [uuid for uuid, one in wanted.items() if one == name != self._set.get(uuid)]
            for name in TIME_SLICES
        }
        if any(groups.values()):
            problems = [self._put(gpus, name) for name, gpus in groups.items() if gpus]
            self._problem = "; ".join(filter(None, problems))
        self._set = {uuid: wanted[uuid] for uuid in wanted if uuid in slices}
        if self._problem:
            raise NodeError(self._problem)

    def _put(self, gpus: list[str], name: str) -> str:
        """Tell the driver. Returns why it does not; the GPU is shared all the same."""
        command = [self._program, "compute-policy", "-i", ",".join(gpus)]
        command += ["--set-timeslice", str(TIME_SLICES.index(name))]
        done = LocalHost().run(command, check=False, timeout=TIMEOUT)
        if done.rc:
            return f"{name} for {','.join(gpus)}: {(done.out + done.err).strip()}"
        logs.info("time slice", gpus=gpus, slice=name)
        return ""
