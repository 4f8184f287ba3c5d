# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long each process has a time-sliced GPU: a policy of the driver, which only nvidia-smi can set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .. import logs
from .._shared._host.real import LocalHost
from ..config.sharing import TIME_SLICES

PROGRAM: Final = "nvidia-smi"
TIMEOUT: Final = 20.0


class TimeSlices:
    """Sets what is asked for once, and again after another load of the driver, which forgets it."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program
        self._set: dict[str, str] = {}
        self._generation: object = None

    def want(self, slices: Mapping[str, str], generation: object) -> None:
        """Set time slices by GPU. What is no longer asked for gets the default back."""
        if generation != self._generation:
            self._generation = generation
            self._set.clear()
        wanted = {**dict.fromkeys(self._set, "default"), **slices}
        for name in TIME_SLICES:
            gpus = [uuid for uuid, one in wanted.items() if one == name != self._set.get(uuid)]
            if gpus:
                self._put(gpus, name)
        self._set = {uuid: wanted[uuid] for uuid in wanted if uuid in slices}

    def _put(self, gpus: list[str], name: str) -> None:
        """Tell the driver. A GPU that does not have it is shared all the same."""
        number = TIME_SLICES.index(name)
        words = [self._program, "compute-policy", "-i", ",".join(gpus)]
        words += ["--set-timeslice", str(number)]
        done = LocalHost().run(words, check=False, timeout=TIMEOUT)
        if done.rc:
            problem = (done.out + done.err).strip()
            logs.warning("the time slice can't be set", gpus=gpus, slice=name, cause=problem)
        else:
            logs.info("time slice", gpus=gpus, slice=name)
