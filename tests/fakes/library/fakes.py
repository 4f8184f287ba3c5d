# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Stand-ins for the machine, for unit tests."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.knowledge import (
    Absent,
    Knowledge,
    Known,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.devices import Device
from ansible_collections.gpu.node.plugins.module_utils._machine.host import (
    Completed,
    Measured,
    Status,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.writers import (
    Hindrance,
    place_beside,
)

Answer = t.Union[str, Completed, t.Callable[[t.Tuple[str, ...]], Completed]]


# A trixie node with an H100.
OS_RELEASE = 'ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
GPU = "/sys/bus/pci/devices/0000:18:00.0"
LOADED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build"
DRIVER = "/proc/driver/nvidia/version"
TRIXIE = {
    "/etc/os-release": OS_RELEASE,
    "/etc/apt/sources.list": "deb http://mirror/debian trixie main\n",
    "/proc/sys/kernel/osrelease": "6.12.1\n",
    "/lib/modules/6.12.1/build": "",
    f"{GPU}/vendor": "0x10de\n",
    f"{GPU}/device": "0x2330\n",
    f"{GPU}/class": "0x030200\n",
}


class FakeHost:
    """A machine of dictionaries.

    ``files`` maps paths to texts; ``commands`` maps the first words of a command to its answer,
    the longest match winning. Every command is kept in ``ran``.
    """

    def __init__(
        self,
        files: t.Optional[t.Dict[str, str]] = None,
        commands: t.Optional[t.Mapping[t.Tuple[str, ...], Answer]] = None,
    ) -> None:
        self.files: t.Dict[str, str] = dict(files or {})
        self.links: t.Dict[str, str] = {}
        self.times: t.Dict[str, float] = {}
        self.ctimes: t.Dict[str, float] = {}  # of files that were copied with their times
        self.opened: t.Set[str] = set()  # files that not only root can write to
        self.statuses: t.Dict[str, Status] = {}
        self.commands: t.Dict[t.Tuple[str, ...], Answer] = dict(commands or {})
        self.ran: t.List[t.Tuple[str, ...]] = []
        self.writers: t.Dict[str, str] = {}  # who else may write to a folder
        self.devices: t.Dict[str, Device] = {}
        self.seen_devices: t.Dict[int, Knowledge[t.FrozenSet[Device]]] = {}  # in /dev, by process
        self.listeners: t.Dict[str, int] = {}
        self.holders: t.Dict[str, int] = {}
        self.hindrances: t.Dict[str, Hindrance] = {}
        self.answers: t.Dict[t.Tuple[str, str], t.Any] = {}  # of services at sockets

    def run(
        self,
        argv: t.Sequence[str],
        *,
        check: bool = True,
        env: t.Optional[t.Mapping[str, str]] = None,
        timeout: t.Optional[float] = None,
        stdin: t.Optional[str] = None,
    ) -> Completed:
        words = tuple(argv)
        self.ran.append(words)
        units = [one for one in words[2:] if one[:1] != "-"]
        if words[:2] == ("systemctl", "show") and len(units) > 1:
            # systemd answers with a paragraph for each.
            told = [self._answer((*words[:2], one, *words[2 + len(units) :])).out for one in units]
            return Completed(0, "\n\n".join(one.strip("\n") for one in told) + "\n", "")
        done = self._answer(words)
        if check and done.rc != 0:
            raise NodeError(
                f"command failed with status {done.rc}: {' '.join(words)}", cause=done.err
            )
        return done

    def _answer(self, words: t.Tuple[str, ...]) -> Completed:
        done = Completed(127, "", f"{words[0]}: not found")
        if words[:2] == ("/bin/sh", "-c"):
            done = Completed(0, "", "")  # no device node is missing
        for size in range(len(words), 0, -1):
            if words[:size] in self.commands:
                answer = self.commands[words[:size]]
                if isinstance(answer, Completed):
                    done = answer
                elif isinstance(answer, str):
                    done = Completed(0, answer, "")
                else:
                    done = answer(words)
                break
        return done

    def which(self, name: str) -> t.Optional[str]:
        return f"/usr/bin/{name}" if any(key[0] == name for key in self.commands) else None

    def read(self, path: str) -> t.Optional[str]:
        return self.files.get(path)

    def read_bytes(self, path: str) -> t.Optional[bytes]:
        text = self.files.get(path)
        return None if text is None else text.encode()

    def write(
        self, path: str, text: str, *, mode: t.Optional[int] = None, backup: bool = False
    ) -> t.Optional[str]:
        saved = None
        if backup and path in self.files:
            folder, name = os.path.split(path)
            saved = f"{place_beside(folder)}/{name}~"
            self.files[saved] = self.files[path]
        self.files[path] = text
        return saved

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Owners are as they should be here."""

    def listdir(self, path: str) -> t.List[str]:
        prefix = path.rstrip("/") + "/"
        names = {
            name[len(prefix) :].split("/")[0]
            for name in [*self.files, *self.links]
            if name.startswith(prefix)
        }
        return sorted(names)

    def sizes(self, path: str) -> t.Dict[str, Measured]:
        return {
            one: Measured(len(text), int(self.times.get(one, 0)), one in self.opened)
            for one, text in self.files.items()
            if one.startswith(f"{path}/")
        }

    def leads_to(self, path: str) -> str:
        return self.links.get(path, "")

    def writable(self, _path: str) -> bool:
        return True

    def move(self, path: str, to: str) -> None:
        for known in (self.files, self.links):
            for one in [one for one in known if f"{one}/".startswith(f"{path}/")]:
                known[to + one[len(path) :]] = known.pop(one)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.links or bool(self.listdir(path))

    def readlink(self, path: str) -> t.Optional[str]:
        return self.links.get(path)

    def find_hindrance(self, path: str) -> t.Optional[Hindrance]:
        return self.hindrances.get(path)

    def itself(self, _path: str) -> t.Optional[Status]:
        """Owners and modes are as they should be here."""
        return None

    def status(self, path: str) -> t.Optional[Status]:
        plain = 0o100755 if path in self.files else 0o040755
        return self.statuses.get(
            path, Status(plain, 0, ctime=self._ctime(path)) if self.exists(path) else None
        )

    def _ctime(self, path: str) -> float:
        return self.ctimes.get(path, self.times.get(path, 0.0))

    def character_device(self, path: str) -> t.Optional[Device]:
        """Return the number in ``devices``, or that of one of the driver's nodes by its name."""
        name = self.links.get(path, path).replace(" (deleted)", "")
        minor = name[len("/dev/nvidia") :] if name.startswith("/dev/nvidia") else None
        known = None if minor is None else Device(195, int(minor) if minor.isdigit() else 255)
        return self.devices.get(name, known)

    def devices_in_dev(self, pid: int) -> Knowledge[t.FrozenSet[Device]]:
        return self.seen_devices.get(pid, Known(frozenset()))

    def mtime(self, path: str) -> t.Optional[float]:
        return self.times.get(path, 0.0) if path in self.files else None

    def lock_holder(self, path: str) -> t.Optional[int]:
        return self.holders.get(path)

    def who_writes(self, folder: str) -> str:
        return self.writers.get(folder, "")

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        """Folders exist by their files."""

    def symlink(self, target: str, path: str) -> None:
        self.links[path] = target

    def remove(self, path: str) -> bool:
        prefix = path.rstrip("/") + "/"
        gone = [
            name for name in [*self.files, *self.links] if name == path or name.startswith(prefix)
        ]
        for name in gone:
            self.files.pop(name, None)
            self.links.pop(name, None)
        return bool(gone)

    def ask(self, socket: str, target: str, *, timeout: float = 10) -> t.Any:
        return self.answers.get((socket, target))

    def listens(self, socket: str) -> bool:
        return self.exists(socket)

    def listener(self, socket: str) -> Knowledge[int]:
        return Known(self.listeners[socket]) if socket in self.listeners else Absent()

    @contextlib.contextmanager
    def lock(self, path: str, *, timeout: float = 0, inherit: bool = False) -> t.Iterator[None]:
        yield
