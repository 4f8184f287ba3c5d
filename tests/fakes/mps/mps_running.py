# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A manager of MPS daemons for a test, on simulated GPUs, with NVIDIA's genuine control program or the stand-in."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_plugin.model.mps.paths import PROGRAM
from gpu_plugin.model.mps.settings import Settings, parse_memory, parse_percent
from gpu_plugin.tools import files
from nvsim.testing import Sim

from tests.fakes.daemon.running import fill
from tests.support import helper_process
from tests.support.folder import elsewhere
from tests.support.paths import MPS_CONTROL, REPOSITORY
from tests.support.waiting import LIMIT, eventually

PARSED = {
    "memory": parse_memory,
    "threads": lambda given: parse_percent("threads", str(given)),
}
ROOTS_ALONE = "/var/lib"  # a folder in which root alone can put the manager's root
STANDIN = f"{sys.executable} -I -S {MPS_CONTROL}"
DEFAULT, EXCLUSIVE_PROCESS = 0, 3  # compute modes
MakeMps = Callable[..., "Mps"]


class ControlProgram:
    """A program by NVIDIA's name that runs a command with ``variables``, and counts what is asked of devices."""

    def __init__(self, folder: Path, command: Path | str, **variables: object) -> None:
        folder.mkdir(exist_ok=True)
        self.path, self._asked = folder / PROGRAM, folder / "asked"
        self._asked.touch()
        words = " ".join(f"{name}='{value}'" for name, value in variables.items())
        note = f'[ "$1" = -f ] || echo "$CUDA_VISIBLE_DEVICES" >> {self._asked}'
        self.path.write_text(f'#!/bin/sh\n{note}\n{words} exec {command} "$@"\n')
        self.path.chmod(0o755)

    def asked(self, device: str) -> int:
        """Return how many questions there were about a device."""
        return self._asked.read_text().split().count(device)


class Mps:
    """A folder with the settings and the daemons of a machine's devices.

    ``command`` is the genuine program, or STANDIN with its ``variables``.
    """

    def __init__(self, sim: Sim, command: Path | str, **variables: object) -> None:
        self.sim = sim
        self.folder = elsewhere(ROOTS_ALONE, "m-")
        self.folder.chmod(0o755)  # the way to the manager's own folders, which is not its affair
        self.root, self.settings = self.folder / "r", self.folder / "s"
        self.settings.mkdir()
        self._control = ControlProgram(self.folder / "bin", command, **variables)
        self.program = self._control.path
        self._interval = 0.5 if command == STANDIN else 0.2  # which takes long to start
        self.managers: list[subprocess.Popen[bytes]] = []
        self._told: list[str] = []
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(self.folder / "n.sock"))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.env = {
            **sim.env,
            "PYTHONPATH": str(REPOSITORY / "files/gpu_plugin/src"),
            "NOTIFY_SOCKET": str(self.folder / "n.sock"),
        }
        self.log = self.folder / "log"

    def uuid(self, gpu: int = 0) -> str:
        return str(self.sim.ctl("status")["gpus"][gpu]["uuid"])

    def mode(self, gpu: int = 0) -> int:
        return int(self.sim.ctl("status")["gpus"][gpu]["compute_mode"])

    def asked(self, device: str) -> int:
        """Return how many questions about a device its manager has had."""
        return self._control.asked(device)

    def answer(self, device: str, command: str) -> str:
        """Return a control daemon's answer to one of its clients."""
        env = {**self.env, "CUDA_MPS_PIPE_DIRECTORY": str(self.status(device)["pipe"])}
        words, said = [self.program], f"{command}\n"
        done = subprocess.run(
            words, input=said, env=env, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def rounds(self) -> int:
        """Return how often the manager has gone round: each time it reads what has changed."""
        return self.notifications().count("WATCHDOG=1")

    def run(self, device: str, *words: object, **env: str) -> subprocess.Popen[bytes]:
        """Share a device; words are its settings, or flags of the manager, which is started where none runs."""
        flags = list(words)
        asked: dict[str, Any] = {"root": str(self.root)}
        for name in ("overcommit", "multi_user"):
            if (flag := f"--{name.replace('_', '-')}") in flags:
                flags.remove(flag)
                asked[name] = True
        for name in ("replicas", "memory", "threads", "combine", "drain", "shm_size"):
            if (flag := f"--{name.replace('_', '-')}") in flags:
                at = flags.index(flag)
                asked[name] = PARSED.get(name, int)(flags[at + 1])
                del flags[at : at + 2]
        self.write(device, Settings(**asked).to_json())
        return self.manage(*flags, **env)

    def write(self, device: str, text: str) -> None:
        """Write a device's settings, as the plugin does."""
        files.replace(self.settings / f"{device}.settings.json", text)

    def drop(self, device: str) -> None:
        """Share a device no longer."""
        (self.settings / f"{device}.settings.json").unlink()

    def manage(self, *flags: object, **env: str) -> subprocess.Popen[bytes]:
        """Start the manager, where none runs."""
        if self.managers and self.managers[-1].poll() is None:
            return self.managers[-1]
        return self.another(self.settings, *flags, **env)

    def another(self, settings: Path, *flags: object, **env: str) -> subprocess.Popen[bytes]:
        """Start a manager, whether or not one runs."""
        command = [sys.executable, "-m", "gpu_plugin", "mps", "run", "--settings", settings]
        command += ["--control", self.program, "--interval", self._interval, "--linger", 0.5]
        command += ["--patience", LIMIT]  # a machine that is busy is no daemon that hangs
        with self.log.open("ab") as log:
            process = helper_process.start(
                [*map(str, (*command, *flags))],
                env={**self.env, **env},
                stderr=log,
                ready=helper_process.executed,
            )
        self.managers.append(process)
        return process

    def told(self, *words: str) -> str:
        """Return what ``gpu-plugin mps status`` says."""
        command = [sys.executable, "-m", "gpu_plugin", "mps", "status", "--root", str(self.root)]
        return subprocess.check_output([*command, *words], env=self.env, text=True)

    def status(self, device: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.root / f"{device}.json").read_text())
        except FileNotFoundError:
            return {"state": ""}
        return found

    def ready(self, device: str, restarts: int = 0) -> dict[str, Any]:
        """Wait until a device's daemon is ready, after so many restarts at least."""

        def look() -> dict[str, Any]:
            found = self.status(device)
            return found if found["state"] == "ready" and found["restarts"] >= restarts else {}

        return eventually(look)

    def failed(self, device: str) -> str:
        """Wait until a device's daemon has failed; return why."""
        eventually(lambda: self.status(device)["state"] == "failed")
        return str(self.status(device)["problem"])

    def ask(self, device: str, command: str) -> str:
        """Return an answer to root; it may be lost, as the manager asks too."""
        done = subprocess.run(
            [self.program],
            input=f"{command}\n",
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.status(device).get("pipe", "")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def _listen(self) -> None:
        """Take what systemd is told: who tells waits where ten messages wait already."""
        while message := self.notified.recv(4096):
            self._told += message.decode().splitlines()

    def notifications(self) -> list[str]:
        """Everything that systemd was told so far."""
        return list(self._told)

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Share nothing any more, and wait until all was given back."""
        for path in self.settings.glob("*.settings.json"):
            path.unlink()
        return process.wait(LIMIT)

    def stop(self) -> None:
        """End all processes, and remove all folders."""
        end_processes(self.folder)
        for process in self.managers:
            process.wait()
        unmount_below(self.folder)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", str(self.folder / "n.sock"))
        self._listener.join()
        self.notified.close()
        shutil.rmtree(self.folder)
        self.sim.stop()


class Client:
    """A process that is a client of a device's daemon, a stand-in with STANDIN_CLIENTS."""

    SCRIPT = "import socket, sys; s = socket.socket(1); s.connect(sys.argv[1]); s.recv(1)"

    def __init__(self, pipe: str) -> None:
        # A client's own socket is made by CUDA.
        self.process = helper_process.start(
            [sys.executable, "-c", self.SCRIPT, f"{pipe}/server"], ready=helper_process.executed
        )

    def living(self) -> bool:
        """Return whether it has work still: its server's end is its own."""
        return self.process.poll() is None

    def end(self) -> None:
        self.process.kill()


def fill_up(folder: Path, size: str) -> Path:
    """Mount a small file system at a folder and leave no byte free in it; return the file that has taken them."""
    mount_small(folder, size)
    return fill(folder)


def mount_small(folder: Path, size: str) -> None:
    """Mount a small file system, until unmount_below()."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", folder], check=True)


def unmount_below(folder: Path) -> None:
    """Unmount all that is mounted at or below a folder."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed(places):
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "-l", place], check=True)


def end_processes(folder: Path) -> None:
    """Kill all that have a folder in their command or environment, and wait for that."""

    def none() -> bool:
        found = list(_named(folder))
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                helper_process.kill(pid)
        return not found

    eventually(none)


def _named(folder: Path) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            texts = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            if any(os.fsencode(folder) in text for text in texts):
                yield int(process.name)


def living(pid: int) -> bool:
    """Return whether a process runs; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
