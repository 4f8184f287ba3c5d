# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long each process has a time-sliced GPU: a policy of the driver, which only nvidia-smi can set."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._machine.host import Host
from ..config.sharing import TIME_SLICES
from ..model.inventory import Inventory
from ..tools import logs
from ..tools.chores import Backoff, Chore, Worker
from ..tools.files import StateFile, recall
from .memory import boot_id

FILE: Final = "time_slices.json"
DEFAULT: Final = TIME_SLICES[0]
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
PATIENCE: Final = 20.0  # seconds that the driver's program may take
UNKNOWN: Final = (
    ""  # the slice of a GPU for which the program was started, and has not said that it worked
)
NOT_SAID: Final = (124, -9, -15)  # statuses of a program that did not come to its end


class TimeSlices:
    """Sets time slices once, and again after another load of the driver, which forgets them.

    What fails is tried again, later each time. What was set is kept in ``folder``, so that a process
    that is started later can give it back. ``host_root`` is where the host's /proc is seen.
    """

    def __init__(
        self,
        folder: Path,
        host_root: Path = Path("/"),
        program: str = "nvidia-smi",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = StateFile(folder / FILE)
        self._program, self._clock, self._boot = program, clock, boot_id(host_root)
        self._worker = Worker("time slices")  # the driver's program may hang
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._try_at = 0.0
        self._tried: Mapping[str, str] = {}
        self._problem = ""
        self._set: dict[str, str] = {}
        self._load: object = None
        recall(self._file.path, "which time slices were set is not known", self._parse, None)
        self.chore = Chore("time_slices", "the time slice can't be set", self.want)

    def begin(
        self, slices: Mapping[str, str], inventory: Inventory, spared: Container[str] = ()
    ) -> None:
        """Do what want() does, without waiting for it."""
        self._worker.start(lambda: self.chore.run(slices, inventory, spared))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do if nothing is asked for."""
        return not (self._set or self.chore.error)

    def want(
        self, slices: Mapping[str, str], inventory: Inventory, spared: Container[str] = ()
    ) -> None:
        """Set time slices by GPU, but for those that are ``spared``; a GPU without one gets the default back.

        Raises:
            NodeError: if the driver does not set them; it is asked again after a pause.
            OSError: if what is set can't be written down.
        """
        self._forget(inventory)
        desired = {**dict.fromkeys(self._set, DEFAULT), **slices}
        due = {
            uuid: name
            for uuid, name in desired.items()
            if self._set.get(uuid) != name and uuid not in spared
        }
        if due and (due != self._tried or self._clock() >= self._try_at):
            self._carry_out(due, set(self._set) - set(slices))
        if self._problem and due:
            raise NodeError(self._problem)

    def _carry_out(self, due: Mapping[str, str], given_back: set[str]) -> None:
        """Set what is due, recording it first for the case that the process is killed meanwhile."""
        before = dict(self._set)
        self._set.update(dict.fromkeys(due, UNKNOWN))
        self._keep()
        problems = []
        for name in TIME_SLICES:
            gpus = sorted(uuid for uuid, slice_name in due.items() if slice_name == name)
            problems += [self._put(gpus, name, before)] if gpus else []
        self._problem = "; ".join(filter(None, problems))
        for uuid in given_back:
            if self._set.get(uuid) == DEFAULT:
                del self._set[uuid]
        self._keep()
        self._tried = {uuid: name for uuid, name in due.items() if self._set.get(uuid) != name}
        if self._problem:
            self._try_at = self._clock() + self._backoff.failed()
        else:
            self._backoff.reset()

    def _put(self, gpus: list[str], name: str, before: Mapping[str, str]) -> str:
        """Set the time slices. Return why the driver refuses them; the GPUs are shared all the same.

        If it refuses several, each is tried alone, so that a GPU that fails holds up no other.
        """
        command = [self._program, "compute-policy", "-i", ",".join(gpus)]
        command += ["--set-timeslice", str(TIME_SLICES.index(name))]
        completed = Host().run(command, check=False, timeout=PATIENCE)
        status, answer = completed.rc, (completed.out + completed.err).strip()
        if status and status not in NOT_SAID and len(gpus) > 1:
            return "; ".join(filter(None, (self._put([gpu], name, before) for gpu in gpus)))
        if not status:
            logs.info("time slice", gpus=gpus, slice=name)
            self._note(gpus, dict.fromkeys(gpus, name))
            return ""
        if status not in NOT_SAID:  # nothing has changed
            self._note(gpus, before)
        return f"{name} for {','.join(gpus)}: {answer}"

    def _note(self, gpus: Iterable[str], slices: Mapping[str, str]) -> None:
        for uuid in gpus:
            self._set.pop(uuid, None)
            if uuid in slices:
                self._set[uuid] = slices[uuid]

    def _forget(self, inventory: Inventory) -> None:
        """Forget what another load of the driver has forgotten, and GPUs that are gone."""
        load = list(inventory.generation[1:])  # what other processes see of it as well
        if load != self._load:
            self._set.clear()
            self._try_at, self._load = 0.0, load
        there = {view.gpu.uuid for view in inventory.gpus}
        for uuid in [uuid for uuid in self._set if uuid not in there]:
            del self._set[uuid]

    # --- what outlives the process ---

    def _keep(self) -> None:
        self._file.write({"boot": self._boot, "load": self._load, "slices": dict(self._set)})

    def _parse(self, data: Mapping[str, Any]) -> None:
        if data["boot"] == self._boot:
            slices = {str(uuid): str(name) for uuid, name in data["slices"].items()}
            self._set, self._load = slices, json.loads(json.dumps(data["load"]))
