# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd does at boot, a kubelet that says who has which device, and one that has forgotten a container."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import PATH
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.support import helper_process
from tests.support.waiting import LIMIT

if TYPE_CHECKING:
    from nvsim.testing import Sim

Process = subprocess.Popen[str]
# A namespace of mounts with nothing in /var/lib but this.
ASIDE = """\
mount -t tmpfs none /var/lib
mkdir "$(dirname "$1")"
cp "$0" "$1"
shift
exec "$@"
"""
# A namespace of mounts in which a process is one of a pod.
IN_POD = 'mount --bind "$0" "$1"; shift; exec "$@"'
POD = "0f1e2d3c_aaaa_bbbb_cccc_0123456789ab"
CGROUP = f"0::/kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{'4b1d' * 16}.scope\n"
# A container with the first GPU, as its device node says.
CONTAINER = "mount -t tmpfs none /dev; mknod /dev/nvidia0 c 195 0; echo there; read x"
# A kubelet of a process of its own, which has started after the container and names nobody.
FORGETFUL = """\
import sys
from pathlib import Path
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources
PodResources(Path(sys.argv[1]), Ledger(Path(sys.argv[2]))).start()
print("there", flush=True)
sys.stdin.read()
"""


class Container(NamedTuple):
    """A file with the cgroup of a container's process, and where that process has it."""

    cgroup: Path
    place: str


def private(script: str) -> list[str]:
    """Return a command that runs a script in a namespace of mounts of its own."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]


class Commands:
    """Processes of ``gpu-plugin``, none of which outlives the test."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def begin(
        self,
        sim: Sim,
        *words: object,
        aside: Path | None = None,
        container: Container | None = None,
        **env: str,
    ) -> Process:
        """Start one, for which ``aside`` is what the node has of GPUs in quarantine, and ``container`` is of a pod."""
        command = [sys.executable, "-m", "gpu_plugin", *map(str, words)]
        if aside:
            command = [*private(ASIDE), str(aside), PATH, *command]
        if container:
            command = [*private(IN_POD), *map(str, container), *command]
        environment = {**sim.env, **env}
        self.started.append(
            helper_process.start(
                command,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
                ready=helper_process.executed,
            )
        )
        return self.started[-1]

    def end(self, process: Process) -> tuple[int, str]:
        """Wait for its end; return its exit status and its log."""
        _out, told = process.communicate(timeout=LIMIT)
        assert "Traceback" not in told
        return process.returncode, told


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Start commands."""
    made = Commands()
    yield made
    for one in made.started:
        one.close()


class Kubelet:
    """``ledger`` holds what ``socket`` answers, once ``service`` is started."""

    def __init__(self, folder: Path) -> None:
        self.socket, self.ledger = folder / "pods.sock", Ledger(folder / "checkpoint")
        self.service = PodResources(self.socket, self.ledger)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    """A kubelet that is not started yet."""
    made = Kubelet(tmp_path)
    yield made
    made.service.stop()


@contextmanager
def speaking(command: list[str]) -> Iterator[int]:
    """Run a process that has printed a line and waits."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with helper_process.start(command, ready=helper_process.printed("there"), **pipes) as running:
        yield running.pid


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    """A container of a pod that has the first GPU."""
    (cgroup := tmp_path / "cgroup").write_text(CGROUP)
    with speaking(private(CONTAINER)) as pid:
        yield Container(cgroup, f"/proc/{pid}/cgroup")


@pytest.fixture
def forgetful(container: Container, tmp_path: Path) -> Iterator[Path]:
    """The socket of a kubelet that has forgotten the container."""
    socket = tmp_path / "forgetful.sock"
    words = [sys.executable, "-c", FORGETFUL, str(socket), str(tmp_path / "forgotten")]
    with speaking(words):
        yield socket
