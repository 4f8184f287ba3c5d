# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A user names the cgroups below his own: his process is not taken for a pod's, nor for the driver's."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.pods import uid_of

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
OTHER = "11111111-2222-3333-4444-555555555555"
SLICE = (
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
)
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
    made: list[Path] = []

    def make(path: str) -> Path:
        for part in (*[*Path(path).parents][-2::-1], Path(path)):
            if not (root / part).exists():
                (root / part).mkdir()
                made.append(root / part)
        return root / path

    yield make
    for folder in reversed(made):
        for inner in sorted(folder.rglob("*"), reverse=True):
            if inner.is_dir():
                inner.rmdir()
        folder.rmdir()


@contextlib.contextmanager
def process(cgroup: Path, script: str, user: int) -> Iterator[int]:
    """Have a process that starts in a cgroup run a script; yield its number."""
    entered = f"echo $$ > {cgroup}/cgroup.procs && exec setpriv --reuid {user} --clear-groups sh -c '{script}'"
    running = subprocess.Popen(["sh", "-c", entered], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        yield running.pid
    finally:
        running.kill()
        running.communicate()


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize(
    "path",
    [
        f"/user.slice/user-1000.slice/user@1000.service/{SLICE}/x.scope",
        f"/user.slice/user-1000.slice/kubepods/burstable/pod{UID}/1",
        f"/system.slice/mine.service/{SLICE}",
        f"/system.slice/mine.service/kubepods-burstable-pod{UID.replace('-', '_')}.slice:cri-containerd:1",
        f"/machine.slice/libpod-1.scope/kubepods/pod{UID}/1",
        f"/kubepods-mine/pod{UID}/1",
        f"/my-kubepods/pod{UID}",
        f"/kubepods/pod{UID}x/1",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        f"/../../{SLICE}",
    ],
)
@pytest.mark.parametrize("line", ["0::{}", "4:memory:{}", "1:name=systemd:{}\n0::/"])
def test_path_that_no_kubelet_makes_is_no_pod(path: str, line: str) -> None:
    assert uid_of(line.format(path), "0::/init.scope") == ""


GUARANTEED = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-1.scope"
KIND = SLICE.replace("kubepods", "kubelet-kubepods")


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize(
    ("path", "init"),
    [
        (f"/{SLICE}/cri-containerd-1.scope", "/init.scope"),
        (f"/{SLICE}/cri-containerd-1.scope/kubepods/pod{OTHER}", "/init.scope"),
        (f"/{GUARANTEED}", "/"),
        (f"/kubepods/besteffort/pod{UID}/1", "/init.scope"),
        (f"/kubepods/pod{UID}/1", ""),
        (f"/kubelet.slice/{KIND}/cri-containerd-1.scope", "/init.scope"),
        (f"/kubelet/kubepods/burstable/pod{UID}/1", "/init.scope"),
        (f"/docker/5ca1e/kubelet/kubepods/burstable/pod{UID}/1", "/docker/5ca1e"),
        (
            f"/system.slice/docker-5ca1e.scope/{SLICE}/x",
            "/system.slice/docker-5ca1e.scope/init.scope",
        ),
        (f"/docker/5ca1e/kubepods/pod{UID}/1", "/docker/5ca1e/init"),
        (
            "/system.slice/containerd.service/"
            f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice:cri-containerd:5ca1e",
            "/init.scope",
        ),
    ],
)
def test_pods_of_every_kubelet_are_found(path: str, init: str) -> None:
    assert uid_of(f"0::{path}\n", f"0::{init}\n") == UID
    lines = f"12:cpuset:/\n4:memory:{path}\n1:name=systemd:{path}\n0::/\n"
    assert uid_of(lines, f"12:cpuset:/\n4:memory:{init}\n1:name=systemd:{init}\n0::/\n") == UID
