# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The one manager of a node's MPS daemons: has a supervisor for each device that has settings, or had them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._machine.nvml.real import open_nvml
from ..model.mps.paths import UUID, Names, settings_file
from ..model.mps.settings import Settings
from ..tools import files, logs
from ..tools.chores import Worker
from ..tools.files import Stamp, StateFile
from ..tools.followed import Events
from ..tools.process import Process
from . import folders, state
from .supervisor import Options, Supervisor

TICK: Final = 0.25
FEED: Final = 1.0
FRESH: Final = 1.0  # a file that changed so lately may change again within its time stamp


class SettingsFolder:
    """The settings by device, as they are on disk. Files are read again only where they changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.settings: dict[str, Settings] = {}
        self.versions: dict[str, Stamp] = {}  # of the files that were read, whatever was in them
        self._looked_at = 0

    def look(self) -> None:
        """Read what changed. Settings that can't be used change nothing."""
        try:
            changed = self.path.stat().st_ctime_ns
            if changed == self._looked_at and time.time_ns() - changed > FRESH * 1e9:
                return
            self._looked_at, devices = changed, state.devices(self.path)
        except OSError as error:
            logs.warning("the settings of MPS control daemons can't be read", cause=error)
            return
        for device in {*self.settings, *self.versions} - devices:
            self.settings.pop(device, None)
            self.versions.pop(device, None)
        for device in sorted(filter(UUID.fullmatch, devices)):
            with contextlib.suppress(FileNotFoundError):
                self._read(device)

    def _read(self, device: str) -> None:
        path = Path(settings_file(device, str(self.path)))
        if self.versions.get(device) == (version := files.stamp_of(path.stat())):
            return
        self.versions[device] = version
        try:
            self.settings[device] = state.load_settings(path)
        except NodeError as error:
            logs.error("settings are not used", device=device, cause=error)


class Manager(Process):
    """Runs until SIGTERM, which leaves all daemons to the next manager, or SIGINT, which ends them.

    ``linger``: so many seconds after the last device was given back it ends.
    """

    SIGNALS, ENDS = (signal.SIGTERM, signal.SIGINT), (signal.SIGTERM,)

    def __init__(self, folder: Path, options: Options, linger: float) -> None:
        super().__init__(StateFile(folder / state.MANAGER), TICK, FEED)
        self._folder, self._options, self._linger = SettingsFolder(folder), options, linger
        self._events = Events()
        self._supervisors: dict[str, Supervisor] = {}
        self._versions: dict[str, Stamp | None] = {}
        self._modes = Worker("modes")
        self._moded, self._idle_since = 0.0, time.monotonic()

    def run(self) -> int:
        """Run until it is to end. Return the exit status.

        Raises:
            NodeError: if there is another manager.
        """
        with folders.the_manager(self._folder.path):
            return super().run()

    def begin(self) -> int:
        """Start a supervisor for each device that an earlier manager had, also if it is no longer shared."""
        folder = self._folder.path
        self._folder.look()
        known = (state.read_manager(folder / state.MANAGER) or {"devices": {}})["devices"]
        settings = self._folder.settings
        for root in {*known.values(), str(folder), *(each.root for each in settings.values())}:
            for device in state.left(Path(root)):
                known.setdefault(device, root)
        for device, root in known.items():
            desired = settings.get(device)
            mine = desired is not None and desired.root == root
            with contextlib.suppress(NodeError):  # no such root has files of ours
                self._supervise(Names(device, root), desired if mine else None)
        self._look()
        return 0

    def pause(self) -> bool:
        """Wait for events of the daemons, at most a tick."""
        self._events.wait(TICK)
        return not self.stopping

    def round(self) -> None:
        """Look after all devices, and end where there is none any more."""
        self._look()
        if not all(supervisor.given_up for supervisor in self._supervisors.values()):
            self._idle_since = time.monotonic()
        elif self._ending or time.monotonic() - self._idle_since >= self._linger:
            self.stopping = True

    def close(self) -> None:
        """Leave what there is to the next manager."""
        for supervisor in self._supervisors.values():
            supervisor.leave()
        if not self._supervisors:
            self.status.remove()

    @property
    def _ending(self) -> bool:
        return signal.SIGINT in self.signals

    def _supervise(self, names: Names, desired: Settings | None) -> None:
        settings_path = Path(settings_file(names.device, str(self._folder.path)))
        supervisor = Supervisor(names, desired, settings_path, self._options, self._events)
        self._supervisors[names.device] = supervisor
        self._versions[names.device] = self._folder.versions.get(names.device)
        supervisor.start()

    def _look(self) -> None:
        for device in [*self._supervisors]:
            if self._supervisors[device].is_done:
                del self._supervisors[device]
        for supervisor in self._supervisors.values():
            supervisor.look()
        if self._ending:
            for supervisor in self._supervisors.values():
                supervisor.end()
        else:
            self._folder.look()
            self._follow_settings()
        self._look_at_modes()
        supervisors = self._supervisors.values()
        devices = {supervisor.names.device: supervisor.names.root for supervisor in supervisors}
        release = os.environ.get("GPU_NODE_RELEASE", "")
        ready = sum(supervisor.ready for supervisor in supervisors)
        text = f"{ready} of {len(devices)} devices are ready"
        self.report({"devices": devices, "release": release}, text)

    def _follow_settings(self) -> None:
        for device, supervisor in self._supervisors.items():
            desired = self._folder.settings.get(device)
            version = self._folder.versions.get(device)
            if desired and desired.root != supervisor.names.root:
                desired = None  # it ends here, and begins there then
            ends_or_begins = (desired is None) != (supervisor.desired is None)
            if self._versions[device] != version or ends_or_begins:
                self._versions[device] = version
                supervisor.want(desired)
        for device in self._folder.settings.keys() - self._supervisors.keys():
            desired = self._folder.settings[device]
            self._supervise(Names(device, desired.root), desired)

    def _look_at_modes(self) -> None:
        # A MIG device has no compute mode, and each look opens the driver.
        supervisors = [
            self._supervisors[device] for device in self._supervisors if device.startswith("GPU-")
        ]
        late = time.monotonic() - self._moded >= self._options.modes
        due = [supervisor for supervisor in supervisors if late or supervisor.mode_due]
        if due and self._modes.start(lambda: _keep_modes(supervisors)):
            self._moded = time.monotonic()


def _keep_modes(supervisors: Sequence[Supervisor]) -> None:
    """Keep processes without MPS off GPUs, also if somebody else changed their compute mode."""
    for supervisor in supervisors:
        supervisor.mode_due = False
    try:
        with open_nvml():
            for supervisor in supervisors:
                supervisor.keep_mode()
    except NodeError as error:
        for supervisor in supervisors:
            supervisor.mode_problem = str(error)
