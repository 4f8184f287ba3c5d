# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hostile tenants: root in a genuine runc container with what a pod was given, and a user of the node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import helper_process
from tests.support.folder import elsewhere
from tests.support.waiting import LIMIT

NOBODY = 65534
PYTHON = "/usr/bin/python3"  # of the distribution, whose libraries are below /usr and /lib
# What containerd leaves to root in a container.
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD"]
CAPABILITIES += ["CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP"]
CAPABILITIES += ["CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"]


class Container:
    """A container with the mounts that the kubelet passes on, as it passes them on."""

    def __init__(self, mounts: Sequence[dict[str, Any]], *, user: int = 0) -> None:
        self.folder = elsewhere("/var/lib", "c-")
        self.name = f"tenant-{uuid.uuid4().hex[:8]}"
        self._user = user
        self._mounts = mounts

    def start(self, script: str) -> subprocess.Popen[str]:
        """Run a Python script in the container."""
        (self.folder / "rootfs").mkdir(exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(self._spec(script)))
        words = ["runc", "run", "--bundle", str(self.folder), self.name]
        return helper_process.start(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            ready=helper_process.executed,
        )

    def run(self, script: str) -> str:
        """Run a Python script without input to its end and return what it says."""
        told, _nothing = self.start(script).communicate(timeout=LIMIT)
        return told

    def end(self) -> None:
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spec(self, script: str) -> dict[str, Any]:
        bind = [_bind(path, path, "ro") for path in ("/usr", "/lib", "/lib64", "/bin")]
        given = [
            _bind(one["host"], one["container"], "ro" if one["read_only"] else "rw")
            for one in self._mounts
        ]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": self._user, "gid": self._user},
                "args": [PYTHON, "-c", script],
                "cwd": "/",
                "env": ["PATH=/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps"],
                "noNewPrivileges": True,
                "capabilities": {
                    kind: [] if self._user else CAPABILITIES
                    for kind in ("bounding", "effective", "permitted")
                },
            },
            "root": {"path": "rootfs", "readonly": False},
            "hostname": "tenant",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                *(one for one in bind if Path(one["source"]).exists()),
                *given,
            ],
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")]
            },
        }


def _bind(outside: str, inside: str, access: str) -> dict[str, Any]:
    options = ["rbind", "rprivate", access]
    return {"destination": inside, "type": "bind", "source": outside, "options": options}


def as_nobody(script: str, *words: str) -> subprocess.Popen[str]:
    """Run a Python script as a user of the node who has no rights."""
    return helper_process.start(
        [PYTHON, "-c", script, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={"PATH": os.environ["PATH"]},
        ready=helper_process.executed,
    )
