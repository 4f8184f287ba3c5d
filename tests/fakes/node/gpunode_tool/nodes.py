# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes: containers that boot systemd, with simulated hardware."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

from . import archives, inside, limits, ssh
from .image import build
from .inside import container
from .paths import CACHE, CHECKOUT, KEY, NVSIM, RUNS, place, was_killed
from .podman import images, label, ours, podman, tag

CHECKOUTS = f"gpunode={CHECKOUT}"  # the label of all that this checkout has made
LIMIT = 600.0  # seconds; it ends a boot that hangs
BOOTED = ("running", "degraded")
# Where the host has the old cgroup hierarchy, podman lays all of it over the node's own part, and the nodes'
# systemds would remove each other's groups. Of machines with one identity, udev gives all the same MAC address, also
# where two runs have a node of the same name.
INIT = """\
printf %s "$GPUNODE" | md5sum | cut -c 1-32 >/etc/machine-id
if [ "$(grep -c ' /sys/fs/cgroup/systemd ' /proc/self/mountinfo)" -gt 1 ]; then
  umount --lazy /sys/fs/cgroup/systemd
fi
exec /sbin/init "$@"
"""


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
    return place() / "boards" / name


def boot(name: str, image: str, volumes: Sequence[str] = ()) -> None:
    """Start a container with the node's hardware from an image, and wait until it has booted."""
    limits.check()
    words = ["run", "--detach", "--replace", "--name", container(name), "--hostname", name]
    words += ["--env", f"GPUNODE={container(name)}", "--label", CHECKOUTS, "--label", label()]
    words += ["--label", f"{ssh.LABEL}={ssh.new_control()}"]
    # Pods of the node's containerd need paths of cgroups that begin at the node.
    words += [
        "--privileged",
        "--systemd=always",
        "--cgroupns=private",
        "--publish",
        "127.0.0.1::22",
        "--restart",  # a node that reboots itself leaves the container
        "on-failure",
    ]
    words += ["--volume", f"{board(name)}:/var/lib/nvsim", "--volume", "/var/lib/containerd"]
    words += ["--volume", f"{archives.lend(name)}:/var/cache/apt/archives"]
    words += ["--volume", f"{ssh.public_key()}:/root/.ssh/authorized_keys:ro"]
    words += [f"--volume={one}" for one in volumes]
    # systemd 257 needs the word where the host has the old cgroup hierarchy; elsewhere it is ignored.
    podman(*words, image, "sh", "-c", INIT, "init", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")
    wait(name)


def wait(name: str, fine: Sequence[str] = ("running",)) -> None:
    """Wait until a node has booted and answers over SSH, with a state of systemd's that is fine."""
    try:
        state = eventually(lambda: _booted(name), limit=LIMIT)
        if state not in fine:
            sys.exit(f"gpunode: {name} has booted and is {state}: {_failures(name)}")
        eventually(lambda: ssh.run(name, "true").returncode == 0, limit=LIMIT)
    except (AssertionError, subprocess.TimeoutExpired):
        words = ssh.run(name, "true").stderr.strip()
        sys.exit(
            f"gpunode: {name} has not booted within {LIMIT:.0f} s: {_failures(name)}; SSH: {words}"
        )


def _booted(name: str) -> str:
    """Return systemd's state once its boot has ended, nothing as long as it can't be asked."""
    words = ("systemctl", "is-system-running", "--wait")
    state = inside.call(name, words, check=False, timeout=LIMIT).strip()
    return state if state in BOOTED else ""


def _failures(name: str) -> str:
    """Return which units have failed, what others wait for, and the last errors of the journal."""
    asked = {
        "failed": ("systemctl", "--failed", "--no-legend", "--plain"),
        "waiting": ("systemctl", "list-jobs", "--no-legend", "--plain"),
        "journal": ("journalctl", "--boot", "--priority=err", "--lines=20", "--output=cat"),
    }
    try:
        told = {
            what: inside.call(name, words, check=False, timeout=60) for what, words in asked.items()
        }
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{error}; {podman('logs', '--tail', '20', container(name), check=False)}"
    return "; ".join(f"{what}: {' | '.join(text.splitlines())}" for what, text in told.items())


def execute(name: str, words: list[str]) -> int:
    """Run a command on a node and return its status."""
    with inside.start(name, words, stdin=None) as process:
        return process.wait(None)  # as long as the command takes


def reboot(name: str) -> None:
    """Reboot a node; that a unit fails may be what somebody wants to see."""
    podman("restart", "--time", str(int(LIMIT)), container(name))
    wait(name, BOOTED)


def down(name: str) -> None:
    """Remove a node."""
    _remove([container(name)])
    archives.take_back(name)
    shutil.rmtree(board(name), ignore_errors=True)


def _remove(containers: list[str]) -> None:
    """Remove containers with their volumes and cgroups, and end the connections that SSH keeps to them."""
    for path in map(ssh.control, containers):
        ssh.end(path)
    if containers:
        asked = ("--type=container", "--format", "{{.Id}}")
        identities = podman("inspect", *asked, *containers, check=False).split()
        podman("rm", "--force", "--volumes", "--time", "0", *containers, check=False)
        for identity in identities:
            inside.remove_cgroups(identity)


def names() -> list[str]:
    """Return the nodes of this run that are there."""
    found = podman("ps", "--all", "--filter", f"label={label()}", "--format", "{{.Names}}")
    prefix = container("")
    return [name.removeprefix(prefix) for name in found.splitlines() if name.startswith(prefix)]


def inventory(wanted: list[str]) -> dict[str, Any]:
    """Return an Ansible inventory of nodes, all in the group gpu_nodes."""
    hosts = {
        name: {
            "ansible_host": "127.0.0.1",
            "ansible_port": ssh.port(name),
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(KEY),
            "ansible_ssh_common_args": f"{ssh.OPTIONS} {ssh.KEPT}{ssh.control(container(name))}",
            "ansible_python_interpreter": "/usr/bin/python3",
            "nvidia_driver_source": "distribution",  # a node has Debian's archive, and not NVIDIA's
        }
        for name in wanted
    }
    return {"gpu_nodes": {"hosts": hosts}}


def forget(run: str = "") -> None:
    """Remove all of a run, or of each: nodes and other containers, snapshots and other images, files."""
    for one in [run] if run else runs():
        _remove(ours(one))
        for image in images(tag(one)):
            podman("rmi", "--force", image, check=False)
        for folder in (place(one) / "archives").glob("*"):
            archives.take_back(folder.name, one)
        shutil.rmtree(place(one), ignore_errors=True)


def forget_killed() -> None:
    """Remove all of the runs that were killed, and so did not remove it themselves."""
    for one in filter(was_killed, runs()):
        forget(one)


def runs() -> list[str]:
    """Return the runs that have left anything."""
    template = '{{index .Labels "gpunode-run"}}'
    told = podman("ps", "--all", "--filter", f"label={CHECKOUTS}", "--format", template).split()
    of_containers = {one.partition(".")[2] for one in told}
    of_images = {one.rpartition(":")[2].split("-")[1] for one in images(f"{CHECKOUT}-")}
    of_files = {one.name for one in RUNS.glob("*")}
    return sorted(of_containers | of_images | of_files)


def clean() -> None:
    """Remove every node, image, volume and file that this tool has made."""
    forget()
    for image in sorted(images(""), reverse=True):
        podman("rmi", image, check=False)  # fails for one that another checkout's node runs from
    shutil.rmtree(CACHE, ignore_errors=True)
