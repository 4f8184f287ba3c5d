# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node in a folder: simulated driver, stand-in kubelet and the daemon, each its own process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._device_plugin import resources
from nvsim import testing
from nvsim.testing import Sim
from standin_kubelet import control

from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

HERE = Path(__file__).resolve().parent
GPU = "nvidia.com/gpu"
BY_ANSWERS = (str(HERE / "by_answers.py"),)
WATCHDOG = 3_000_000  # microseconds, of which the daemon says six times that it is well
MakeNode = Callable[..., "Node"]


def fill(folder: Path) -> Path:
    """Leave no byte free in a file system; return the file that has taken them."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space left"):
        all(stream.write(b"x" * 4096) for _page in range(1 << 20))
    return path


@contextlib.contextmanager
def plugin_channel(node: Node) -> Iterator[Callable[[str], str]]:
    """Ask the plugin of nvidia.com/gpu for a device, as a kubelet; returns why it refused."""
    import grpc
    from gpu_plugin.proto.v1beta1 import api_pb2, rpc

    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        allocate = channel.unary_unary(
            rpc.ALLOCATE,
            request_serializer=api_pb2.AllocateRequest.SerializeToString,
            response_deserializer=api_pb2.AllocateResponse.FromString,
        )

        def ask(device: str) -> str:
            request = api_pb2.AllocateRequest()
            request.container_requests.add(devices_ids=[device])
            try:
                allocate(request, timeout=LIMIT)
            except grpc.RpcError as refusal:
                return str(refusal)
            return ""

        yield ask


@contextlib.contextmanager
def nodes() -> Iterator[MakeNode]:
    """Make nodes: GPUs of a product, and a driver unless it is None. Nothing is left of them."""
    with contextlib.ExitStack() as stack:

        def make(
            gpus: int = 2, *, product: str = "h100-80", driver: str | None = testing.VERSION
        ) -> Node:
            folder = Path(tempfile.mkdtemp(prefix="gp-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            sim = stack.enter_context(testing.start(product, gpus, driver=driver))
            node = Node(folder, sim)
            stack.callback(node.stop)
            return node

        yield make


class Node:
    """The processes of a node; ``folder`` must have a short path, for the sockets' sake, and is removed at the end."""

    def __init__(self, folder: Path, sim: Sim) -> None:
        self.folder, self.sim = folder, sim
        self.plugins = folder / "k"
        self.control = folder / "c.sock"
        self.pods = folder / "pod-resources/kubelet.sock"
        self.config = folder / "config.yaml"
        self.status_file = folder / "run/status.json"
        self.log = folder / "log"
        self.kubelet: subprocess.Popen[bytes] | None = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        self._told = ""
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(folder / "n.sock"))
        self._manager = threading.Thread(target=self._listen, name="systemd", daemon=True)
        self._manager.start()
        self.program = ("-m", "gpu_plugin")
        self.env = {**sim.env, "NOTIFY_SOCKET": str(folder / "n.sock")}
        self.env["WATCHDOG_USEC"] = str(WATCHDOG)
        self.env["GPU_PLUGIN_METRICS_ADDRESS"] = "off"  # nodes of other tests run beside this one
        self.env["PYTHONDONTWRITEBYTECODE"] = ""  # what is installed is compiled, so this is too

    # --- processes ---

    def python(
        self, *words: object, ready: helper_process.Ready = helper_process.executed, **more: str
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [sys.executable, *map(str, words)]
            process = helper_process.start(
                command,
                env={**self.env, **more},
                stderr=log,
                stdout=log,
                ready=ready,
            )
        self._started.append(process)
        return process

    def start_kubelet(self) -> None:
        words = ("serve", "--dir", self.plugins, "--control", self.control)
        ready = helper_process.exists(self.control)
        self.kubelet = self.python("-m", "standin_kubelet", *words, ready=ready, NOTIFY_SOCKET="")

    def start_daemon(self, config: str = "", *flags: str, **env: str) -> None:
        self.config.write_text(config)
        self.run_daemon(*self.program, flags=flags, **env)

    def run_daemon(self, *program: str, flags: Sequence[str] = (), **env: str) -> None:
        """Start the daemon with the configuration as it is, by the words that an interpreter gets for it.

        The kubelet has noticed the end of one before, so that what it has is of this one.
        """
        self.plugins.mkdir(exist_ok=True)
        before, kubelet = self.daemon, self.kubelet
        if before and before.poll() is not None and kubelet and kubelet.poll() is None:
            eventually(lambda: not any(self.resources().values()))
        words: list[object] = ["--config", self.config, "--status-file", self.status_file]
        words += ["--kubelet-socket", self.plugins / "kubelet.sock"]
        words += ["--host-root", self.sim.root, "--rescan", "0.3"]
        words += [
            "--recovery-period",
            "0.3",
            "--nvml-timeout",
            f"{10 * LIMIT:g}s",
            "--lock-timeout",
            LIMIT,
        ]
        self.daemon = self.python(*program, "run", *words, *flags, **env)

    def serve(self, count: int, config: str = "", *flags: str, **env: str) -> list[str]:
        """Start the kubelet and the daemon; return the UUIDs of the GPUs when the kubelet has so many of them."""
        self.start_kubelet()
        self.start_daemon(config, *flags, **env)
        self.wait(GPU, count)
        return self.uuids()

    def signal(self, number: signal.Signals) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(number)

    def ended(self) -> int:
        assert self.daemon is not None
        return self.daemon.wait(LIMIT)

    def kill(self) -> None:
        """End the daemon without a word."""
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> None:
        """End all that was started, and leave nothing."""
        for process in self._started:
            process.kill()
        with contextlib.suppress(OSError):  # it was stopped before
            self.notified.shutdown(socket.SHUT_RDWR)
        self._manager.join()
        self.notified.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _listen(self) -> None:
        """Hear what systemd is told, at once: who speaks would wait, and not for long."""
        with contextlib.suppress(OSError):
            while data := self.notified.recv(4096):
                self._told += data.decode() + "\n"

    # --- what they say ---

    def status(self) -> dict[str, Any]:
        """Return what the daemon that runs, or ran last, has told; one before it is not asked."""
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(self.status_file.read_text())
            if self.daemon is None or found["pid"] == self.daemon.pid:
                return found
        return {"state": "", "resources": {}}

    def problems(self, resource: str) -> dict[str, str]:
        """Return why devices of a resource must not be used, by UUID."""
        return dict(self.status()["resources"].get(resource, {}).get("problems", {}))

    def ask(self, verb: str, **arguments: Any) -> Any:
        return control.ask(self.control, verb=verb, **arguments)

    def wait(self, resource: str, count: int) -> Any:
        """Wait until the kubelet has so many devices that it may give, and the status, which is written later, too."""
        found = self.allocatable(resource, count)
        if self.daemon is not None and self.daemon.poll() is None:
            eventually(lambda: self._healthy(resource), count)
        return found

    def allocatable(self, resource: str, count: int) -> Any:
        """Wait until the kubelet has so many devices that it may give, whatever the status says."""
        try:
            return self.ask("wait", resource=resource, count=count, timeout=LIMIT).get(resource)
        except ValueError as error:
            error.add_note(self.logged()[-4000:])
            raise

    def _healthy(self, resource: str) -> int:
        told = self.status()["resources"].get(resource)
        return resources.count(told, resources.HEALTHY) if told else 0

    def registered(self, resource: str = GPU) -> None:
        """Wait until the daemon says that the kubelet knows of a resource."""
        eventually(lambda: self.status()["resources"].get(resource, {}).get("registered"))

    def resources(self) -> dict[str, int]:
        return {name: one["allocatable"] for name, one in self.ask("resources").items()}

    def health(self, resource: str) -> dict[str, str]:
        found = self.ask("resources")[resource]["devices"]
        return {name: one["health"] for name, one in found.items()}

    def admit(self, pod: str, **requests: int) -> Any:
        names = {f"nvidia.com/{name}": n for name, n in requests.items()}
        return self.ask("admit", pod=pod, requests=names)

    def notifications(self) -> str:
        """Everything that systemd was told so far."""
        return self._told

    def uuids(self) -> list[str]:
        """The UUIDs of the GPUs that the driver has."""
        return [one["uuid"] for one in self.sim.ctl("status")["gpus"]]

    # --- what to wait by ---

    def looks(self) -> int:
        """How often the daemon has asked the driver for the number of GPUs since its start, or found none to ask."""
        assert self.daemon is not None
        return self.sim.looks(self.daemon.pid)

    def heard(self) -> int:
        """How many events the daemon has taken from the driver since its start."""
        assert self.daemon is not None
        answered = self.sim.ctl("answered", pid=self.daemon.pid)
        return int(answered.get("nvmlEventSetWait_v2", {}).get("0", 0))

    def fed(self) -> int:
        """How often the watchdog was fed, by a main loop that goes round."""
        return self._told.count("WATCHDOG=1")

    def logged(self) -> str:
        return self.log.read_text()

    def layout(self, gpu: int, *profiles: str) -> None:
        words = [sys.executable, str(HERE / "mig_layout.py"), str(gpu), *profiles]
        subprocess.run(words, env=self.env, check=True, timeout=LIMIT)

    def cli(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpu_plugin", *map(str, words)]
        env = {**os.environ, **self.env}
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False
        )
