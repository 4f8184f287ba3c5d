# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A connection that counts what it carries, to one simulated node or to what that node has answered.

FLEET names a folder. With the process number of a node in ``pid``, commands run in that node, and what they answered is
written to ``answers``. Without, a process of its own for each command waits as long as the command took, and answers
the same; a host that asks for anything else than the first one did is an error.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: light
short_description: A node that is simulated, or one that answers as it did
description: For measurements alone.
author: the gpu.node authors (@gpu-node)
extends_documentation_fragment:
  - connection_pipelining
"""

FOLDER = Path(os.environ["FLEET"])
ENVIRONMENT = (
    "HOME=/root",
    "LANG=C.UTF-8",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
MODULE = re.compile(rb"ansible_module='([\w.]+)'|ansible_collections[./]([\w./]+)")


class Connection(ConnectionBase):  # type: ignore[misc]
    """A host of the fleet."""

    transport = "light"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command on the node, or answer as the node did."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        asked = _asked(cmd, in_data)
        count = self._count()
        known = FOLDER / "answers" / f"{count}.json"
        pid = FOLDER / "pid"
        words = (
            _genuine(pid.read_text(), cmd) if pid.exists() else _played(known, asked, self._host())
        )
        begun, before = time.monotonic(), _children()
        process = subprocess.run(words, input=in_data or b"", check=False, capture_output=True)
        out, err = process.stdout, process.stderr
        seconds = time.monotonic() - begun
        if pid.exists() and not known.exists():
            _keep(known, asked, seconds, (process.returncode, out, err))
        self._carried(
            asked, len(cmd) + len(in_data or b""), len(out) + len(err), _children() - before
        )
        return process.returncode, out, err

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file to the node."""
        size = os.path.getsize(in_path)
        pid = FOLDER / "pid"
        if pid.exists():
            shutil.copyfile(in_path, f"/proc/{pid.read_text()}/root{out_path}")
        self._carried("put", size, 0, 0.0)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Refuse: nothing of the collection fetches a file."""
        raise AnsibleError(f"{in_path} is fetched, which this connection does not measure")

    def _host(self) -> str:
        return str(self._play_context.remote_addr)

    def _count(self) -> int:
        """Count the commands of this host, which come one after the other."""
        path = FOLDER / "counts" / self._host()
        count = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(str(count))
        return count

    def _carried(self, what: str, sent: int, received: int, busy: float) -> None:
        """Note bytes, and seconds of a processor that the command took, as it is a child of the controller here."""
        with (FOLDER / "carried").open("a") as stream:
            stream.write(json.dumps([self._host(), what, sent, received, busy]) + "\n")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _asked(cmd: str, in_data: bytes | None) -> str:
    """Return what is asked for: the module, or the program."""
    found = MODULE.search(in_data) if in_data else None
    if found:
        return next(one for one in found.groups() if one).decode()
    return (shlex.split(cmd)[-1].split() or ["nothing"])[0]


def _genuine(pid: str, cmd: str) -> list[str]:
    return ["nsenter", f"--target={pid}", *NAMESPACES, "env", "-i", *ENVIRONMENT, *shlex.split(cmd)]


def _played(path: Path, asked: str, host: str) -> list[str]:
    """Return a command that answers as the node did."""
    if not path.exists():
        raise AnsibleError(f"{host} asks for {asked}, and the node was asked for nothing then")
    known = json.loads(path.read_text())
    if known["asked"] != asked:
        raise AnsibleError(
            f"{host} asks for {asked}, and the node was asked for {known['asked']} then"
        )
    stem = path.with_suffix("")
    script = f"cat >/dev/null; sleep {known['seconds']:.3f}; cat {stem}.err >&2; cat {stem}.out; exit {known['status']}"
    return ["sh", "-c", script]


def _keep(path: Path, asked: str, seconds: float, answer: tuple[int, bytes, bytes]) -> None:
    status, out, err = answer
    path.write_text(json.dumps({"asked": asked, "seconds": seconds, "status": status}))
    path.with_suffix(".out").write_bytes(out)
    path.with_suffix(".err").write_bytes(err)
