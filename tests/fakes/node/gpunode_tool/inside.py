# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Commands on a node, in the namespaces and cgroups of its first process: podman's own way takes half a second each."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support import helper_process
from tests.support.waiting import eventually

from .paths import CHECKOUT, run
from .podman import podman

CGROUPS = Path("/sys/fs/cgroup")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "TERM": "xterm",
    "container": "podman",
}
STOPPED = 125  # podman's status where a container does not run
_known: dict[str, tuple[str, int]] = {}


def container(name: str) -> str:
    """Return the name of a node's container."""
    return f"gpunode-{CHECKOUT}-{run()}-{name}"


def start(name: str, words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a command on a node. CalledProcessError: the node does not run."""
    pid = _first(name)
    entered = ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
    given = {"stdin": subprocess.DEVNULL, "text": True, "env": ENVIRONMENT, **options}
    return helper_process.start(
        [*entered, "--cgroup", "--root", "--wd", "--", *words],
        preexec_fn=_join(pid),
        **given,
        ready=helper_process.executed,
    )


def call(
    name: str, words: Sequence[str], *, check: bool = True, timeout: float | None = None
) -> str:
    """Run a command on a node and return what it prints. CalledProcessError: it failed."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(name, words, **pipes) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(words), out, err)
    return out


def processes(name: str, unit: str) -> Iterator[Path]:
    """Yield what /proc has of a node's processes that belong to a unit. CalledProcessError: the node does not run."""
    space = os.readlink(f"/proc/{_first(name)}/ns/pid")
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = os.readlink(folder / "ns/pid") == space
            if ours and f"/{unit}\n" in (folder / "cgroup").read_text():
                yield folder


def path(name: str, of: str) -> Path:
    """Return where a file of a node's is for this machine. CalledProcessError: the node does not run."""
    return Path(f"/proc/{_first(name)}/root{of}")


def _first(name: str) -> int:
    """Return the number of a node's first process, which changes with each boot."""
    identity, pid = _known.get(name, ("", 0))
    if not identity or identity not in _cgroups(pid):
        told = podman("inspect", "--type=container", container(name), check=False)
        found = (json.loads(told or "[]") or [{"Id": "", "State": {"Pid": 0}}])[0]
        identity, pid = found["Id"], found["State"]["Pid"]
        if not pid or identity not in _cgroups(pid):
            raise subprocess.CalledProcessError(STOPPED, container(name), "", "it does not run")
        _known[name] = identity, pid
    return pid


def _cgroups(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""


def _join(pid: int) -> Callable[[], None]:
    """Return what has the calling process belong to the cgroups of another one."""
    places = []
    for line in _cgroups(pid).splitlines():
        _number, controllers, path = line.split(":", 2)
        folder = controllers.removeprefix("name=") or ("unified" if _is_hybrid() else "")
        places.append(f"{CGROUPS / folder}{path}/cgroup.procs")

    def join() -> None:
        for one in places:
            with contextlib.suppress(OSError):
                file = os.open(one, os.O_WRONLY)
                os.write(file, b"0")
                os.close(file)

    return join


def remove_cgroups(identity: str) -> None:
    """Remove the cgroups of a container that is gone: where its processes die slowly, podman leaves them."""
    for place in ("libpod_parent", "*/libpod_parent"):
        for folder in CGROUPS.glob(f"{place}/libpod-{identity}"):
            eventually(lambda folder=folder: _is_removed(folder))


def _is_removed(folder: Path) -> bool:
    """Remove a cgroup with those below it; tell whether it is gone."""
    for one in (*sorted(filter(Path.is_dir, folder.rglob("*")), reverse=True), folder):
        with contextlib.suppress(OSError):  # a process of it has not ended, or podman was faster
            one.rmdir()
    return not folder.exists()


def _is_hybrid() -> bool:
    return (CGROUPS / "unified").is_dir()
