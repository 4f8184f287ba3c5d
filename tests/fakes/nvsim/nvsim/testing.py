# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A simulated driver for a test: its daemon, its folders and the environment of its clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

from .ctl import Client, main

PROJECT = Path(__file__).resolve().parents[1]
VERSION = "550.163.01"


class Sim:
    """A running daemon. ``env`` is what a client process needs; ``root`` shows /proc, /dev and /sys."""

    def __init__(self, product: str, gpus: int, driver: str | None, flavour: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nvsim-"))
        self.folder.chmod(0o755)  # the driver is there for every user
        self.root = self.folder / "root"
        # By this file a root has a driver; the library that programs load is in the folder beside it.
        (self.root / "usr/lib64").mkdir(parents=True)
        (self.root / "usr/lib64/libnvidia-ml.so.1").touch()
        self.socket = self.folder / "run/nvsim.sock"
        self.holders: list[subprocess.Popen[str]] = []
        library = self.folder / "lib"
        library.mkdir()
        built = list((PROJECT / "build").glob("libnvidia-ml.so.*"))
        if not built:
            raise RuntimeError("the shim is not built; run: make -C tests/fakes/nvsim shim")
        # A checkout may be where not every user can read, and the library's version is its name.
        name = f"libnvidia-ml.so.{driver or VERSION}"
        shutil.copy2(PROJECT / "build/libnvidia-ml.so.1", library / name)
        (library / "libnvidia-ml.so.1").symlink_to(name)
        self.env = {
            **os.environ,
            "NVSIM_SOCKET": str(self.socket),
            "LD_LIBRARY_PATH": str(library),
        }
        main(
            [
                "board",
                "create",
                "--product",
                product,
                "--gpus",
                str(gpus),
                "--dir",
                str(self.folder / "state"),
            ]
        )
        try:
            self.start()
            if driver:
                self.ctl("load", version=driver, flavour=flavour)
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        words = [sys.executable, "-m", "nvsim.daemon", "--state-dir", str(self.folder / "state")]
        words += ["--run-dir", str(self.folder / "run"), "--root", str(self.root)]
        words += ["--verbose"] if "NVSIM_DEBUG" in os.environ else []
        path = f"{PROJECT}:{os.environ.get('PYTHONPATH', '')}"
        self.process = helper_process.start(
            words,
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.DEVNULL if "NVSIM_DEBUG" not in os.environ else None,
            ready=lambda _process: self.answers(),
        )

    def answers(self) -> bool:
        """Return whether the daemon answers."""
        try:
            self.ctl("status")
        except OSError:
            return False
        return True

    def ctl(self, verb: str, **arguments: Any) -> Any:
        """Ask the daemon for something, as nvsimctl does."""
        client = Client(str(self.socket))
        try:
            return client.ask(verb, **arguments)
        finally:
            client.close()

    def looks(self, pid: int) -> int:
        """Return how often a process has counted the GPUs since its start, or found no driver to ask."""
        answered = self.ctl("answered", pid=pid)
        counted = sum(answered.get("nvmlDeviceGetCount_v2", {}).values())
        refused = answered.get("nvmlInitWithFlags", {})
        return counted + sum(times for code, times in refused.items() if code != "0")

    def hold(self, gpu: int, gi: int | None = None, ci: int | None = None) -> subprocess.Popen[str]:
        """Return a process that is on a GPU until it is killed."""
        words = [sys.executable, "-m", "nvsim.ctl", "--socket", str(self.socket), "hold", str(gpu)]
        words += ["--gi", str(gi)] if gi is not None else []
        words += ["--ci", str(ci)] if ci is not None else []
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        process = helper_process.start(
            words, env=env, stdout=subprocess.PIPE, text=True, ready=helper_process.printed()
        )
        self.holders.append(process)
        return process

    def let_go(self, holder: subprocess.Popen[str]) -> None:
        """Kill a process that hold() returned and wait until the driver has noticed."""
        holder.kill()
        eventually(
            lambda: holder.pid not in [one["pid"] for one in self.ctl("status")["processes"]]
        )

    def kill(self) -> None:
        """Kill the daemon."""
        self.process.kill()

    def restart(self) -> None:
        """Kill the daemon and start it again."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Kill the daemon and who is on a GPU, and remove its folders."""
        for holder in self.holders:
            with holder:
                holder.kill()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Sim:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start(product: str, gpus: int, *, driver: str | None = VERSION, flavour: str = "open") -> Sim:
    """Start a simulated machine with a library of the driver's version; with ``driver=None`` no driver is loaded."""
    return Sim(product, gpus, driver, flavour)


def client(sim: Sim, code: str) -> Any:
    """Run Python with pynvml as ``n`` in a process of its own and return what it passes to answer()."""
    prelude = "import ctypes, json, os, sys\nimport pynvml as n\n"
    prelude += "def answer(value): print(json.dumps(value), flush=True)\n"
    prelude += "def code(call, *args):\n"
    prelude += (
        "    try: call(*args)\n    except n.NVMLError as error: return error.value\n    return 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        env=sim.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout) if done.stdout else None
