# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes: containers that boot systemd, with simulated hardware."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import archives
from .image import build
from .paths import CACHE, CHECKOUT, KEY, NVSIM
from .podman import podman

LABEL = f"gpunode={CHECKOUT}"
PREFIX = f"gpunode-{CHECKOUT}-"
BOOT_SECONDS = 60
# Where the host has the old cgroup hierarchy, podman lays all of it over the node's own part, and the nodes'
# systemds would remove each other's groups. Of machines with one identity, udev gives all the same MAC address.
INIT = """\
md5sum </proc/sys/kernel/hostname | cut -c 1-32 >/etc/machine-id
if [ "$(grep -c ' /sys/fs/cgroup/systemd ' /proc/self/mountinfo)" -gt 1 ]; then
  umount --lazy /sys/fs/cgroup/systemd
fi
exec /sbin/init "$@"
"""
SSH_OPTIONS = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ControlMaster=auto -o ControlPersist=60s"
)


def up(name: str, product: str, gpus: int, suite: str, volumes: Sequence[str] = ()) -> None:
    """Start a bare node and wait until it has booted."""
    image = build(suite)
    shutil.rmtree(board(name), ignore_errors=True)
    command = [sys.executable, "-m", "nvsim.ctl", "board", "create", "--dir", str(board(name))]
    command += ["--product", product, "--gpus", str(gpus)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(NVSIM)})
    boot(name, image, volumes)


def board(name: str) -> Path:
    """Return the folder of a node's hardware."""
    return CACHE / "boards" / name


def boot(name: str, image: str, volumes: Sequence[str] = ()) -> None:
    """Start a container with the node's hardware from an image, and wait until it has booted."""
    words = ["run", "--detach", "--name", PREFIX + name, "--hostname", name, "--label", LABEL]
    # Pods of the node's containerd need paths of cgroups that begin at the node.
    words += [
        "--privileged",
        "--systemd=always",
        "--cgroupns=private",
        "--publish",
        "127.0.0.1::22",
        "--stop-timeout",
        "5",
        "--restart",  # a node that reboots itself leaves the container
        "on-failure",
    ]
    words += ["--volume", f"{board(name)}:/var/lib/nvsim", "--volume", "/var/lib/containerd"]
    words += ["--volume", f"{archives.lend(name)}:/var/cache/apt/archives"]
    words += ["--volume", f"{_public_key()}:/root/.ssh/authorized_keys:ro"]
    words += [f"--volume={one}" for one in volumes]
    # systemd 257 needs the word where the host has the old cgroup hierarchy; elsewhere it is ignored.
    podman(*words, image, "sh", "-c", INIT, "init", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")
    wait(name)


def wait(name: str, fine: tuple[str, ...] = ("running",)) -> None:
    """Wait until a node has booted and answers over SSH, with a state of systemd's that is fine."""
    deadline = time.monotonic() + BOOT_SECONDS
    state, answers = "", False
    while time.monotonic() < deadline and not answers:
        time.sleep(0.3)
        state = podman("exec", PREFIX + name, "systemctl", "is-system-running", check=False)
        answers = state in ("running", "degraded") and ssh(name, "true").returncode == 0
    if state not in fine or not answers:
        failed = podman("exec", PREFIX + name, "systemctl", "--failed", "--no-legend", check=False)
        reason = state if answers or state not in fine else "SSH does not answer"
        sys.exit(f"gpunode: {name} did not boot: {reason or 'no answer'} {failed}")


def _public_key() -> Path:
    """Return the key that nodes let in, made once."""
    if not KEY.exists():
        KEY.parent.mkdir(parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpunode", "-f", str(KEY)]
        subprocess.run(command, check=True)
    return KEY.with_suffix(".pub")


def port(name: str) -> int:
    """Return the local port that leads to a node's SSH server."""
    return int(podman("port", PREFIX + name, "22").rsplit(":", 1)[1])


def _control_path(name: str) -> str:
    """Return a path of the node's own: a port comes again with another node while SSH still keeps it open."""
    identity = podman("inspect", "--format", "{{.Id}}", PREFIX + name)[:12]
    return f"{tempfile.gettempdir()}/gpunode-{identity}"


def ssh(name: str, *words: str, capture: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command on a node over SSH, or open a shell."""
    command = [
        "ssh",
        *SSH_OPTIONS.replace("auto", "no").split(),
        "-i",
        str(KEY),
        "-p",
        str(port(name)),
    ]
    return subprocess.run(
        [*command, "root@127.0.0.1", *words], check=False, capture_output=capture, text=True
    )


def execute(name: str, words: list[str]) -> int:
    """Run a command on a node and return its status."""
    command = ["podman", "exec", PREFIX + name, *words]
    return subprocess.run(command, check=False).returncode


def reboot(name: str) -> None:
    """Reboot a node; that a unit fails may be what somebody wants to see."""
    podman("restart", "--time", "5", PREFIX + name)
    wait(name, ("running", "degraded"))


def down(name: str) -> None:
    """Remove a node."""
    podman("rm", "--force", "--volumes", "--time", "2", PREFIX + name, check=False)
    archives.take_back(name)
    shutil.rmtree(board(name), ignore_errors=True)


def names() -> list[str]:
    """Return the nodes that are there."""
    found = podman("ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}")
    return [name.removeprefix(PREFIX) for name in found.splitlines()]


def inventory(wanted: list[str]) -> dict[str, Any]:
    """Return an Ansible inventory of nodes, all in the group gpu_nodes."""
    hosts = {
        name: {
            "ansible_host": "127.0.0.1",
            "ansible_port": port(name),
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(KEY),
            "ansible_ssh_common_args": f"{SSH_OPTIONS} -o ControlPath={_control_path(name)}",
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        for name in wanted
    }
    return {"gpu_nodes": {"hosts": hosts}}


def clean() -> None:
    """Remove every node, image, volume and file that this tool has made."""
    for name in names():
        down(name)
    images = podman("images", "--format", "{{.Repository}}:{{.Tag}}")
    ours = [one for one in images.splitlines() if one.startswith("localhost/gpunode")]
    for image in sorted(ours, reverse=True):
        podman("rmi", image, check=False)  # fails for one that another checkout's node runs from
    shutil.rmtree(Path(CACHE), ignore_errors=True)
