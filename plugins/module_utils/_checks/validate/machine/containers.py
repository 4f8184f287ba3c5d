# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container of each runtime that asks the driver for its GPUs. Nothing is pulled, and nothing of it is left."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import typing as t

from ...._base.errors import NodeError
from ...._base.text import json_data
from ...._cdi import boot
from ...._machine.host import Host
from ...._runtime.machine.containerd import Containerd
from ...._runtime.machine.crio import Crio
from ...._runtime.machine.engine import Runtime
from ...._runtime.machine.engines import KINDS
from .. import containers
from ..containers import Answer, NotTried, answer
from ..daemon import Share
from ..pods import NAME
from . import program
from .pods import PodTrial

FOLDER = "/run/gpu-node/validate"
LOCK = "/run/gpu-node/locks/validate.lock"
SECONDS, CLEANING_SECONDS, LOCK_SECONDS = 40.0, 15.0, 120
ROOT = f"{FOLDER}/root"
CONFIG = f"{FOLDER}/config.json"
SOCKETS = {make.kind.name: make.kind.socket for make in KINDS if issubclass(make, Containerd)}
SHM = "/dev/shm"  # of a client of MPS, which is that of its server
# On the node a client has the memory of its server for its own time alone.
WITH_SHM = f'mount --bind "$1" {SHM} && shift && exec "$@"'
EMPTY_ARCHIVE = "\0" * 10240  # a tar archive without a file
Words = t.List[str]


class Job(t.NamedTuple):
    """What a container does: add vectors on a device, if any, as a client of MPS if there is a share of it."""

    device: str = ""
    share: t.Optional[Share] = None


class Trial:
    """Runs the program in containers of the runtimes on a node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._source = inspect.getsource(program)
        self._python = containers.python(
            os.path.realpath(sys.executable), sys.base_prefix, host.read("/proc/self/maps") or ""
        )
        self._runs: t.Dict[str, t.Callable[[Runtime, containers.Python, Job], Answer]] = {
            "podman": self._podman,
            "docker": self._docker,
            "cri-o": self._crio,
            **dict.fromkeys(SOCKETS, self._containerd),
        }

    def run(self, runtime: Runtime, device: str, share: t.Optional[Share] = None) -> Answer:
        """Run the program in a container of a runtime, with a device to add vectors on, if any, and a share of it."""
        if self._python is None:
            return Answer(unknown=f"{sys.executable} is not linked with glibc")
        try:
            with self._host.lock(LOCK, timeout=LOCK_SECONDS), self._folder():
                outcome = self._try(runtime, self._python, Job(device, share))
        except NodeError as error:
            return Answer(unknown=str(error))
        # Where it has none for the node itself, it has none for its containers.
        why = program.undriven() if outcome.problem else ""
        return Answer(unknown=why) if why else outcome

    def _try(self, runtime: Runtime, python: containers.Python, job: Job) -> Answer:
        try:
            return self._runs[runtime.kind.name](runtime, python, job)
        except NotTried:
            raise
        except NodeError as error:
            return Answer(problem=str(error))

    def beside(self, device: str, share: t.Optional[Share] = None) -> Answer:
        """Run the program on the machine itself, where a client of MPS gets its server's shared memory."""
        command = [sys.executable, "-S", "-c", self._source, device]
        if share is None:
            return self._answer(command)
        places = {mount.inside: mount.outside for mount in share.mounts}
        env = {**share.env, program.PIPE: places.get(share.env.get(program.PIPE, ""), "")}
        shell = ["unshare", "--mount", "sh", "-c", WITH_SHM, "sh", places.get(SHM, SHM)]
        return self._answer([*shell, *command], env)

    @contextlib.contextmanager
    def _folder(self) -> t.Iterator[None]:
        """Have an empty root for the time of a with statement. What is mounted below is never followed."""
        self._clear()
        for name in ("etc", "proc", "dev", "sys", "tmp", "usr/lib"):
            self._host.makedirs(f"{ROOT}/{name}")
        try:
            yield
        finally:
            self._clear()

    def _clear(self) -> None:
        if f" {FOLDER}/" in (self._host.read("/proc/self/mountinfo") or ""):
            hint = f"unmount it, then remove {FOLDER}"
            raise NodeError(f"something is mounted below {FOLDER}", hint=hint)
        self._host.remove(FOLDER)

    def _answer(self, argv: Words, env: t.Optional[t.Mapping[str, str]] = None) -> Answer:
        completed = self._host.run(argv, check=False, timeout=SECONDS, env=env)
        return answer(completed.out, completed.err, completed.rc)

    @contextlib.contextmanager
    def _gone(self, *commands: Words) -> t.Iterator[None]:
        """Have what a container was made of removed, and before it what a killed run has left."""
        try:
            self._quietly(commands)
            yield
        finally:
            self._quietly(commands)

    def _quietly(self, commands: t.Iterable[Words]) -> None:
        for command in commands:
            self._host.run(command, check=False, timeout=CLEANING_SECONDS)

    def _options(self, python: containers.Python, share: t.Optional[Share]) -> Words:
        options = ["--rm", f"--name={NAME}", "--network=none", "--security-opt=label=disable"]
        options += [f"--device={containers.ALL}"]
        variables = containers.variables(python, share)
        options += [f"--env={name}={text}" for name, text in variables.items()]
        for mount in share.mounts if share else ():
            access = "ro" if mount.read_only else "rw"
            options.append(f"--volume={mount.outside}:{mount.inside}:{access}")
        return options + [
            f"--volume={folder}:{containers.HOST}{folder}:ro" for folder in python.folders
        ]

    def _podman(self, _runtime: Runtime, python: containers.Python, job: Job) -> Answer:
        command = ["podman", "run", *self._options(python, job.share), "--rootfs", ROOT]
        with self._gone(["podman", "rm", "--force", "--ignore", NAME]):
            return self._answer([*command, *python.command(self._source, job.device)])

    def _docker(self, _runtime: Runtime, python: containers.Python, job: Job) -> Answer:
        if self._host.which("docker") is None:
            raise NotTried("the program docker is not on the node")
        command = ["docker", "run", "--pull=never", *self._options(python, job.share), NAME]
        with self._gone(["docker", "rm", "--force", NAME], ["docker", "rmi", "--force", NAME]):
            self._host.run(["docker", "import", "-", NAME], stdin=EMPTY_ARCHIVE, timeout=SECONDS)
            return self._answer([*command, *python.command(self._source, job.device)])

    def _crio(self, runtime: Runtime, python: containers.Python, job: Job) -> Answer:
        command = python.command(self._source, job.device)
        trial = PodTrial(self._host, t.cast(Crio, runtime), FOLDER)
        return trial.run(command, python, job.share)

    def _containerd(self, runtime: Runtime, python: containers.Python, job: Job) -> Answer:
        """Run a container outside of the kubelet's namespace; what its CRI plugin reads is checked by its dump."""
        ctr = os.path.join(os.path.dirname(runtime.kind.program), "ctr")
        if self._host.which(ctr) is None:
            raise NotTried(f"the program {ctr} is not on the node")
        everywhere = [ctr, f"--address={SOCKETS[runtime.kind.name]}"]
        command = [*everywhere, f"--namespace={NAME}"]
        self._host.write(CONFIG, json.dumps(self._config(python, job)), mode=0o600)
        gone = [
            [*command, "tasks", "delete", "--force", NAME],
            [*command, "containers", "delete", NAME],
            [*everywhere, "namespaces", "remove", NAME],
        ]
        with self._gone(*gone):
            return self._answer([*command, "run", "--rm", f"--config={CONFIG}", NAME])

    def _config(self, python: containers.Python, job: Job) -> t.Dict[str, t.Any]:
        path = boot.load(self._host.read(boot.CONFIG) or "", boot.CONFIG).path
        try:
            edits = containers.edits(json_data.loads(self._host.read(path) or ""))
            devices = {
                node_path: self._device(there)
                for node_path, there in containers.nodes(edits).items()
            }
            command = python.command(self._source, job.device)
            return containers.config(ROOT, command, python, edits, devices, job.share)
        except json_data.MISREAD as error:
            raise NodeError(f"{path} can't be given to a container", cause=str(error)) from error

    def _device(self, path: str) -> containers.Device:
        status = self._host.status(path)
        if status is None:
            raise NodeError(f"{path} is not there")
        return containers.Device(os.major(status.device), os.minor(status.device))
