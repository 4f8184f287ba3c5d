# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine containerd and dockerd that run on a machine of its own, with genuine containers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._machine.unix_http import _Connection
from nvsim import genuine

from tests.fakes.runtime.genuine_runtimes import GenuineRuntimes
from tests.support import helper_process
from tests.support.waiting import LIMIT

SOCKET = "/var/run/docker.sock"
IDLE = "98765"  # seconds that a container sleeps, by which its process is known
# Runs until its input ends, and all of its processes with it.
RUN = f"""
wait_for() {{ for _ in $(seq 1200); do [ -S "$1" ] && return; sleep 0.1; done; exit 1; }}
containerd >"$LOGS/containerd" 2>&1 & containerd=$!
wait_for /run/containerd/containerd.sock
dockerd --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs \\
    --containerd=/run/containerd/containerd.sock >"$LOGS/dockerd" 2>&1 & dockerd=$!
wait_for {SOCKET}
echo ready
while read -r word; do
    case "$word" in
    containerd) kill $containerd; wait $containerd ;;
    dockerd) kill $dockerd; wait $dockerd ;;
    esac
    pgrep -c -f "^/bin/sleep {IDLE}"
done
"""


class Daemons:
    """The daemons of a machine."""

    def __init__(self, node: GenuineRuntimes, process: subprocess.Popen[str]) -> None:
        self._node, self._process = node, process

    def alive(self, ended: str = "") -> bool:
        """End a daemon, and tell whether the container's process is there then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(ended, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip() == "1"

    def post(self, target: str, data: bytes, kind: str) -> Any:
        """Have dockerd do something."""
        connection = _Connection(self._node.at(SOCKET), LIMIT)
        connection.request("POST", target, data, {"Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status < 300, text
        connection.close()
        return text

    def start(self, name: str) -> None:
        """Start a container that sleeps."""
        program = genuine.program("busybox-static", "busybox").read_bytes()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo("bin/sleep")
            entry.size, entry.mode = len(program), 0o755
            archive.addfile(entry, io.BytesIO(program))
        self.post("/images/create?fromSrc=-&repo=idle", packed.getvalue(), "application/x-tar")
        wanted = {
            "Image": "idle",
            "Cmd": ["/bin/sleep", IDLE],
            "StopTimeout": 1,
            "HostConfig": {"NetworkMode": "none"},
        }
        self.post(
            f"/containers/create?name={name}", json.dumps(wanted).encode(), "application/json"
        )
        self.post(f"/containers/{name}/start", b"", "application/json")


@contextlib.contextmanager
def running(node: GenuineRuntimes, logs: Path) -> Iterator[Daemons]:
    """Run the machine's containerd and dockerd for the time of a with statement."""
    folders = [str(one.parent) for one in node.programs.values()]
    path = ":".join([*dict.fromkeys(folders), os.environ["PATH"], "/usr/sbin", "/sbin"])
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    process = helper_process.start(
        [*words, *node.inside(), "bash", "-c", RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": path, "LOGS": str(logs)},
        ready=helper_process.executed,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said == "ready\n", [one.read_text()[-2000:] for one in logs.iterdir()]
        yield Daemons(node, process)
    finally:
        process.kill()
