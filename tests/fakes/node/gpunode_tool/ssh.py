# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a node is reached by SSH: the key, the port, and the connection that Ansible keeps open."""

from __future__ import annotations

import glob
import secrets
import subprocess
import tempfile
from pathlib import Path

from .inside import container
from .paths import KEY
from .podman import podman

LABEL = "gpunode-ssh"
OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
KEPT = "-o ControlMaster=auto -o ControlPersist=60s -o ControlPath="


def public_key() -> Path:
    """Return the key that nodes let in, made once."""
    if not KEY.exists():
        KEY.parent.mkdir(parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpunode", "-f", str(KEY)]
        subprocess.run(command, check=True)
    return KEY.with_suffix(".pub")


def new_control() -> str:
    """Return a path for a node's kept connection: a port comes again with another node while one is still open."""
    return f"{tempfile.gettempdir()}/gpunode-{secrets.token_hex(6)}"


def control(of: str) -> str:
    """Return the path of a container's kept connection."""
    template = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    told = podman("inspect", "--type=container", "--format", template, of, check=False)
    return told.replace("<no value>", "")


def port(name: str) -> int:
    """Return the local port that leads to a node's SSH server."""
    return int(podman("port", container(name), "22").rsplit(":", 1)[1])


def run(name: str, *words: str, capture: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command on a node over SSH, or open a shell."""
    command = ["ssh", *OPTIONS.split(), "-i", str(KEY), "-p", str(port(name)), "root@127.0.0.1"]
    return subprocess.run([*command, *words], check=False, capture_output=capture, text=True)


def end(path: str) -> None:
    """End a kept connection, also one whose process was killed."""
    if path:
        words = ["ssh", "-O", "exit", "-o", f"ControlPath={path}", "root@127.0.0.1"]
        subprocess.run(words, check=False, capture_output=True)
        for left in glob.glob(f"{path}*"):
            Path(left).unlink(missing_ok=True)
