# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A device's files: its settings, and its state, which the manager writes and all others read.

The file with a device's settings is there while the device is shared.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from numbers import Number
from pathlib import Path
from typing import Any, Final

from .._shared._base.dra.names import DEVICE_PLUGIN, DRA
from .._shared._base.errors import NodeError
from .._shared._base.text import json_data
from ..model.mps.paths import ROOT, SETTINGS, UUID, Names, problem_of_root, settings_file
from ..model.mps.settings import Settings, Shares, from_json
from ..tools import bounded, files, logs
from ..tools.files import VERSION, StateFile, StateUnusable, alive, started
from ..tools.files import read as read_file
from .clients import Client, look

STARTING, READY, FAILED, STOPPING = "starting", "ready", "failed", "stopping"
MANAGER: Final = "manager.json"
CRASHED: Final = "crashed"  # nobody writes it: what is left of a state when its manager was killed
ENDING: Final = settings_file("", "")[1:]
KILLED: Final = {"state": CRASHED, "problem": "its manager was killed", "servers": [], "clients": 0}
NO_LIMITS: Final[Mapping[str, Any]] = {"asked": {}, "default": {}, "read_back": {}}
# ``pid`` and ``began``, which tell whether the manager lives, are added as the file is written.
EMPTY: Final[Mapping[str, Any]] = {
    "device": "",
    "state": "",
    "since": "",
    "daemon": 0,
    "pipe": "",
    "clients_pipe": "",
    "own_shm": False,
    "multi_user": False,
    "settings": {},
    "replicas": 0,
    "limits": NO_LIMITS,
    "servers": [],
    "clients": 0,
    "restarts": 0,
    "problem": "",
}


class Report:
    """Writes the state as it changes. A full disk does not end the daemon."""

    def __init__(self, names: Names, pid: int | None = None) -> None:
        self._file = StateFile(Path(names.status), pid=pid)
        self._complained = False
        self._data = {**EMPTY, "device": names.device, "clients_pipe": names.pipe}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on with the state that an earlier manager wrote, until the daemon itself has been asked."""
        self._data.update({key: state[key] for key in EMPTY})

    def shares(self, shares: Shares, own_shm: bool, multi_user: bool = False) -> None:
        """Report the desired bounds of one share, and of a client that asks for none."""
        self._data.update(replicas=shares.replicas, own_shm=own_shm, multi_user=multi_user)
        self.limits(asked=asdict(shares.of(1)), default=asdict(shares.default))

    def settings(self, settings: Settings | None) -> None:
        """Report the settings that the control daemon runs with, None if there is no daemon."""
        self._data["settings"] = {} if settings is None else json_data.loads(settings.to_json())

    def limits(self, **limits: Mapping[str, Any]) -> None:
        """Report what is ``asked``, the ``default``, or what the daemon answered when these were ``read_back``."""
        self._data["limits"] = {**self._data["limits"], **limits}

    def clients(self, servers: dict[int, tuple[int, ...]]) -> None:
        """Report the MPS servers and their clients."""
        self._data["servers"] = [
            {"pid": pid, "clients": list(clients)} for pid, clients in servers.items()
        ]
        self._data["clients"] = sum(map(len, servers.values()))
        self._write()

    def failed(self, problem: str) -> None:
        """Report why the daemon ended, which counts as a restart."""
        self._data["restarts"] += 1
        self.state(FAILED, problem=problem)

    def state(self, state: str, daemon: int = 0, problem: str = "", pipe: str = "") -> None:
        """Report the state. ``pipe`` is where root reaches a control daemon that starts."""
        before = (self._data["state"], self._data["problem"])
        if state != before[0]:
            self._data["since"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._data.update(state=state, daemon=daemon, problem=problem)
        if pipe or not daemon:
            self._data["pipe"] = pipe
        if not daemon:  # one that is silent may well have clients
            self._data.update(servers=[], clients=0)
        if state != READY:
            self.limits(read_back={})
        self._write()
        if (state, problem) != before:
            log = logs.error if state == FAILED else logs.info
            fields = {"problem": problem} if problem else {}
            log(f"MPS of {self._data['device']}: {state}", **fields)

    def remove(self) -> None:
        """Remove the file: there is no daemon, and none is needed."""
        self._file.remove()

    def _write(self) -> None:
        try:
            self._file.write(dict(self._data))
            self._complained = False
        except OSError as error:
            if not self._complained:
                logs.warning("the state can't be written", cause=error)
            self._complained = True


def read(path: Path) -> dict[str, Any] | None:
    """Return the state in a file, None if there is none, or no manager of ours has written it.

    Managers run on after an upgrade: what another release does not write is as in EMPTY.
    """
    try:
        state = read_file(path, (VERSION,))
    except StateUnusable:
        return None
    if not state or not state.keys() >= {"state", "pid"}:
        return None
    state = {**EMPTY, **state}
    if not all(isinstance(state[key], type(empty)) for key, empty in EMPTY.items()):
        return None
    state["limits"] = {**NO_LIMITS, **state["limits"]}
    return state if _whole(state["limits"], state["servers"]) and _pids([state["pid"]]) else None


def _with_settings(path: Path) -> tuple[dict[str, Any], Settings | None] | None:
    state = read(path)
    return None if state is None else (state, settings_of(state["settings"]))


def load(root: Path) -> list[dict[str, Any]]:
    """Return the states of a node's daemons, by device. If its manager was killed, a state is CRASHED."""
    states = filter(None, map(read, sorted(root.glob("*-*.json"))))
    return [
        state if alive(state) or state["state"] == FAILED else {**state, **KILLED}
        for state in states
    ]


def everywhere(root: Path | None = None, settings: Path = Path(SETTINGS)) -> list[dict[str, Any]]:
    """Return the states of all daemons of the node, wherever managers have their files, or of one root's alone."""
    return [state for place in ([root] if root else roots(settings)) for state in load(place)]


def named(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the states with the clients of each server under ``who``, which takes a look at every process."""
    return [
        {
            **state,
            "servers": [
                {**server, "who": [asdict(look(pid)) for pid in server["clients"]]}
                for server in state["servers"]
            ],
        }
        for state in states
    ]


def describe(states: list[dict[str, Any]]) -> str:
    """Return named() states in words."""
    lines = []
    for state in states:
        limits = state["limits"]["asked"]
        report_lines = [f"{state['device']}: {state['state']} since {state['since']}"]
        if limits and state["settings"].get("owner") == DRA:
            report_lines.append(f"shares of claims, at most {limits['memory_mib']} MiB")
        elif limits:
            report_lines.append(
                f"{state['replicas']} shares of {limits['memory_mib']} MiB"
                f" and {limits['threads']:g}% of the threads"
            )
        if state["multi_user"]:
            report_lines.append("multi-user server")
        report_lines.append(f"restarts: {state['restarts']}")
        lines.append(", ".join(report_lines))
        if state["problem"]:
            lines.append(f"  problem: {state['problem']}")
        for server in state["servers"]:
            clients = ", ".join(str(Client(**client)) for client in server["who"]) or "none"
            lines.append(f"  server {server['pid']}, clients: {clients}")
    return "\n".join(lines)


def _whole(limits: Mapping[str, Any], servers: list[Any]) -> bool:
    asked = limits["asked"]
    return (
        isinstance(asked, dict)
        and all(isinstance(number, Number) for number in asked.values())
        and (not asked or {"memory_mib", "threads"} <= asked.keys())
        and all(
            isinstance(server, dict) and _pids([server.get("pid")]) and _pids(server.get("clients"))
            for server in servers
        )
    )


def _pids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pid, int) for pid in value)


@dataclass(frozen=True)
class MpsState:
    """A device: the settings that the manager is given, and the state that it reports.

    Settings that can't be read, such as those of another release, are None.

    Attributes:
        settings: As the manager has to follow them.
        state: As the manager reports it, None if it reports none, or has removed it at its end.
        alive: Whether the manager runs.
        serving: Whether the control daemon runs.
        running: The settings that the control daemon runs with.
    """

    settings: Settings | None
    state: Mapping[str, Any] | None
    alive: bool = False
    serving: bool = False
    running: Settings | None = None

    def suits(self, settings: Settings) -> bool:
        """Return whether the control daemon runs with these settings."""
        return self.running is not None and self.running.suits(settings)


@functools.lru_cache(maxsize=512)
def _status(device: str, root: str) -> Path:
    return Path(Names(device, root).status)


@functools.lru_cache(maxsize=512)
def _settings(device: str, folder: Path) -> Path:
    return Path(settings_file(device, str(folder)))


class ManagerFiles:
    """The files of devices, which are read again only if they changed. ``folder`` has the settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[Path, str], tuple[files.Stamp, Any]] = {}

    def look(self, device: str, root: str) -> MpsState:
        """Return what is known of a device; ``root`` is where its files would be made now."""
        return self.looks((device,), root)[device]

    def looks(self, devices: Iterable[str], root: str) -> dict[str, MpsState]:
        """Return what is known of several devices; what they share, such as their manager, is looked at once."""
        roots, look = self._roots(), functools.cache(started)

        def observed(device: str) -> MpsState:
            settings: Settings | None = self._read(self.file(device), parsed)
            current = self._read(_status(device, roots.get(device, root)), _with_settings)
            if current is None:
                return MpsState(settings, None)
            state, running = current
            serving = bool(look(state["daemon"]))
            return MpsState(settings, state, alive(state, look), serving, running)

        return {device: observed(device) for device in devices}

    def _roots(self) -> Mapping[str, str]:
        """Return where the last manager has files of devices."""
        manager = self._read(self._folder / MANAGER, read_manager)
        return manager["devices"] if manager else {}

    def file(self, device: str) -> Path:
        """Return where the settings of a device's manager are."""
        return _settings(device, self._folder)

    def owner(self, device: str) -> str:
        """Return the owner in a device's settings, empty if it has none."""
        return self._read(self.file(device), owner_of, "owner") or ""

    def owners(self) -> set[str]:
        """Return the owners of all settings."""
        return set(map(self.owner, devices(self._folder)))

    def manager(self) -> Mapping[str, Any]:
        """Return the state of the manager that runs, empty if none does."""
        state = self._read(self._folder / MANAGER, read_manager)
        return state if state and alive(state) else {}

    def devices(self, root: str) -> set[str]:
        """Return the devices that have a control daemon, or are to have one."""
        names = {*devices(self._folder), *left(Path(root)), *self._roots()}
        return set(filter(UUID.fullmatch, names))

    def _read(self, path: Path, read: Callable[[Path], Any], device: str = "") -> Any:
        stamp = files.stamp(path)
        if stamp is None:
            self._known.pop((path, device), None)
            return None
        known, value = self._known.get((path, device), (None, None))
        if known != stamp and (value := read(path)) is not None:
            self._known[path, device] = (stamp, value)
        return value


def read_manager(path: Path) -> dict[str, Any] | None:
    """Return the state of a node's manager: ``devices`` are those that it has, with the roots of their files."""
    try:
        state = read_file(path, (VERSION,))
    except StateUnusable:
        return None
    known = state.get("devices") if state else None
    if not isinstance(known, dict) or not all(map(UUID.fullmatch, known)):
        return None
    good = (isinstance(root, str) and not problem_of_root(root) for root in known.values())
    return state if all(good) else None


def owner_of(path: Path) -> str:
    """Return the owner of the settings in a file, also if they can't be used; empty if there is no file."""
    try:
        data = json_data.loads(bounded.read_text(path))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError):
        return DEVICE_PLUGIN
    return str(data.get("owner", DEVICE_PLUGIN)) if isinstance(data, dict) else DEVICE_PLUGIN


def settings_of(state: Mapping[str, Any]) -> Settings | None:
    """Return the settings in a state, None if there are none that can be used."""
    try:
        return from_json(json.dumps(state)) if state else None
    except NodeError:
        return None


def devices(folder: Path) -> set[str]:
    """Return the devices that have settings."""
    return {path.name.removesuffix(ENDING) for path in folder.glob(f"*-*{ENDING}")}


def left(root: Path) -> set[str]:
    """Return the devices that have a state, or a compute mode to be restored."""
    names = {path.stem for ending in ("json", "state") for path in root.glob(f"*-*.{ending}")}
    return set(filter(UUID.fullmatch, names))


def roots(folder: Path) -> list[Path]:
    """Return where managers have their files."""
    records = map(parsed, folder.glob(f"*-*{ENDING}"))
    known = (read_manager(folder / MANAGER) or {"devices": {}})["devices"].values()
    return sorted(
        {Path(ROOT), *(Path(record.root) for record in records if record), *map(Path, known)}
    )


def load_settings(path: Path) -> Settings:
    """Return the settings in a file.

    Raises:
        NodeError: if they can't be read or used.
    """
    try:
        return from_json(bounded.read_text(path))
    except (NodeError, OSError, ValueError) as error:
        raise NodeError(
            f"the settings in {path} can't be used",
            cause=str(error),
            hint="the device plugin writes the file again",
        ) from error


def parsed(path: Path) -> Settings | None:
    """Return the settings in a file, None if there are none that can be used."""
    try:
        return load_settings(path)
    except NodeError:
        return None
