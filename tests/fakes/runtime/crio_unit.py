# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine CRI-O with genuine pods as the unit crio.service of a machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc

from tests.fakes.runtime import cri
from tests.fakes.runtime.daemon_unit import DaemonUnit

SOCKET = "/run/crio/crio.sock"
DROP_IN = "/etc/crio/crio.conf.d/10-crio.conf"
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
IMAGE = "registry.k8s.io/pause:3.10.1"  # that of CRI-O 1.36, which needs no other to begin a pod
TOOLS = "/run/tools"
HANDLER = f"{TOOLS}/nvidia-container-runtime"
# What a machine does not let a container have that is itself in one.
FORBIDDEN = ("oomScoreAdj", "rlimits")
RUNTIME = f"""\
#!/usr/bin/python3
import json, os, sys
args = sys.argv[1:]
bundles = [args[at + 1] for at, word in enumerate(args) if word in ("--bundle", "-b")]
for bundle in bundles if "create" in args else ():
    path = os.path.join(bundle, "config.json")
    with open(path) as stream:
        config = json.load(stream)
    for key in {FORBIDDEN!r}:
        config["process"].pop(key, None)
    with open(path, "w") as stream:
        json.dump(config, stream)
os.execv({{runc!r}}, ["runc", *args])
"""
# As upstream's packages have it; what systemd does for containers CRI-O does by itself here.
CONFIG = f"""\
[crio]
storage_driver = "vfs"

[crio.image]
signature_policy = "/etc/crio/policy.json"

[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
disable_hostport_mapping = true
pinns_path = "{TOOLS}/pinns"

[crio.runtime.runtimes.runc]
runtime_path = "{TOOLS}/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/bin/conmon"
"""


class CrioUnit(DaemonUnit):
    """A machine whose crio.service starts the CRI-O of a folder."""

    unit = "crio.service"
    command = "/usr/bin/crio"

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(root, "trixie", {DROP_IN: CONFIG})
        self.programs["crio"] = folder / "crio"
        self.programs["crictl"] = folder / "crictl"
        self.variables: dict[str, str] = {}  # of the unit
        for name in ("containers", "crio"):
            self.put(f"/etc/{name}/policy.json", POLICY)
        for path in ("/etc/passwd", "/etc/group"):
            self.put(path, Path(path).read_text())
        for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname", "/etc/localtime"):
            self.put(path, "")
        (root / "var/tmp").mkdir()
        (root / "var/run").symlink_to("/run")
        self.put(f"{TOOLS}/pinns", "")
        shutil.copy(folder / "pinns", root / TOOLS[1:])
        runc = shutil.which("runc", path="/usr/sbin:/usr/bin")
        for path in (f"{TOOLS}/runc", HANDLER):
            self.put(path, RUNTIME.format(runc=runc))
            (root / path[1:]).chmod(0o755)
        self.answers["runc"] = self.answers[f"{TOOLS}/runc"] = ""
        self.answers[HANDLER] = "NVIDIA Container Runtime version 1.20.0\n"
        self.pods = cri.Pods(root / SOCKET[1:], IMAGE)

    def which(self, name: str) -> str | None:
        return name if name == "/usr/bin/conmon" else super().which(name)

    def environment(self) -> dict[str, str]:
        return self.variables

    def _properties(self) -> Iterator[str]:
        yield from super()._properties()
        yield f"Environment={' '.join(f'{name}={text}' for name, text in self.variables.items())}"
        yield "KillMode=control-group"  # as upstream's unit, whose group has no monitor

    def answers_clients(self) -> bool:
        return self.listens(self.at(SOCKET))

    def prepare(self) -> None:
        command = ["podman", "--storage-driver=vfs", "import", "--quiet", "-", IMAGE]
        subprocess.run([*self.inside(), *command], input=cri.tree(), check=True)

    def end_containers(self) -> None:
        with contextlib.suppress(grpc.RpcError):  # what it has lost is killed below
            self.pods.end()
        assert self.daemon is not None
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid, mounts = int(folder.name), (folder / "mountinfo").read_text()
                if f"{self.root}/" in mounts and pid != self.daemon.pid:
                    os.kill(pid, signal.SIGKILL)
