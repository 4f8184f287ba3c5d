# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A user names the cgroups below his own: his process is not taken for a pod's, nor for the driver's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet.pods import uid_of

from tests.support import helper_process
from tests.support.folder import belonging

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
OTHER = "11111111-2222-3333-4444-555555555555"
SLICE = (
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
)
OWN = SLICE.replace(UID.replace("-", "_"), OTHER.replace("-", "_"))
NOBODY = 65534
PROC = Path("/proc")


def mounted() -> Path | None:
    """Return where cgroups of version 2 can be made, if that is so on this machine."""
    rows = (line.split() for line in (PROC / "mounts").read_text().splitlines())
    root = next((Path(row[1]) for row in rows if row[2] == "cgroup2"), None)
    return root if root and os.geteuid() == 0 and os.access(root, os.W_OK) else None


@pytest.fixture
def cgroup() -> Iterator[Callable[..., Path]]:
    """Return a function that makes genuine cgroups, which are gone afterwards."""
    root = mounted()
    if root is None:
        pytest.skip("needs root and writable cgroups of version 2")
    lock = os.open(root, os.O_RDONLY)  # the kubelet's are the same for all who run this
    fcntl.flock(lock, fcntl.LOCK_EX)
    made: list[Path] = []

    def make(path: str) -> Path:
        for part in (*[*Path(path).parents][-2::-1], Path(path)):
            if not (root / part).exists():
                (root / part).mkdir()
                made.append(belonging(root / part))
        return root / path

    yield make
    for folder in reversed(made):
        for inner in sorted(folder.rglob("*"), reverse=True):
            if inner.is_dir():
                inner.rmdir()
        folder.rmdir()
    os.close(lock)


@contextlib.contextmanager
def process(cgroup: Path, script: str, user: int) -> Iterator[int]:
    """Have a process that starts in a cgroup run a script; yield its number."""
    entered = f"echo $$ > {cgroup}/cgroup.procs && exec setpriv --reuid {user} --clear-groups sh -c '{script}'"
    running = helper_process.start(
        ["sh", "-c", entered],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        ready=helper_process.printed("there"),
    )
    try:
        yield running.pid
    finally:
        running.close()


def seen(pid: int) -> str:
    return uid_of((PROC / str(pid) / "cgroup").read_text(), (PROC / "1/cgroup").read_text())


@pytest.mark.attack("cgroup-taken-for-a-pod")
def test_users_own_cgroup_is_no_pod(cgroup: Callable[..., Path]) -> None:
    own = cgroup(f"user.slice/user-{NOBODY}.slice/{uuid.uuid4().hex}")
    for path in (own, own / "cgroup.procs"):
        os.chown(path, NOBODY, NOBODY)
    script = (
        f"mkdir -p {own}/{SLICE} && echo $$ > {own}/{SLICE}/cgroup.procs && echo there && read x"
    )
    with process(own, script, NOBODY) as pid:
        assert UID.replace("-", "_") in (PROC / str(pid) / "cgroup").read_text()
        assert seen(pid) == ""


@pytest.mark.attack("cgroup-taken-for-a-pod")
def test_the_kubelets_cgroup_is_a_pod(cgroup: Callable[..., Path]) -> None:
    with process(cgroup(f"{SLICE}/cri-containerd-1.scope"), "echo there && read x", 0) as pid:
        assert seen(pid) == UID


@pytest.mark.attack("cgroup-taken-for-a-pod")
def test_a_tenants_cgroup_below_his_pod_is_that_pod(cgroup: Callable[..., Path]) -> None:
    inner = f"{OWN}/cri-containerd-1.scope/{SLICE}/cri-containerd-2.scope"
    with process(cgroup(inner), "echo there && read x", 0) as pid:
        assert seen(pid) == OTHER
