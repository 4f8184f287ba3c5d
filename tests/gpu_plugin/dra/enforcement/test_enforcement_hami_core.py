# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi-core: the user's library, what it reads, and the folder that tenants write to."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._core.errors import InputError, NodeError
from gpu_plugin.dra.enforcement.hami_core import MIB, HamiCore, environment
from gpu_plugin.dra.enforcement.library import HEADER, MACHINES, header_problem
from gpu_plugin.dra.values import Share
from hypothesis import given
from hypothesis import strategies as st
from mps_running import ROOTS_ALONE
from nvsim.testing import PROJECT

GPU = "GPU-00000000-0000-0000-0000-000000000000"
OTHER = "GPU-11111111-0000-0000-0000-000000000000"
GENUINE = PROJECT / "build/libnvidia-ml.so.1"  # a shared library for this machine
CLAIM = "5d8c6b1e-2a8b-4f43-a0f5-0f6c8f4ed0aa"
NOBODY = 65534


def share(claim: str = CLAIM, gpu: str = GPU, memory: int = 3000 * MIB, **more: int) -> Share:
    return Share(claim, gpu, 0, memory, **{"cores": 0, **more})


@pytest.fixture
def place() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("file systems can be mounted by root only")
    found = Path(tempfile.mkdtemp(prefix="h-", dir=ROOTS_ALONE))
    found.chmod(0o755)
    shutil.copy(GENUINE, found / "libvgpu.so")
    (found / "libvgpu.so").chmod(0o644)
    yield found
    for one in (found / "run").glob("*"):
        if one.is_mount():
            subprocess.run(["umount", "-l", one], check=True)
    shutil.rmtree(found)


def made(place: Path, *, scaled: bool = False) -> HamiCore:
    return HamiCore(str(place / "libvgpu.so"), place / "run", scaled=scaled)


def test_issue_17_4_hami_core_gets_the_variables_that_it_reads(place: Path) -> None:
    found = made(place, scaled=True).prepare([share(cores=30, priority=1)])
    assert found.env == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"/usr/local/vgpu/cache/{CLAIM}.cache",
        "CUDA_TASK_PRIORITY": "1",
        "CUDA_OVERSUBSCRIBE": "true",
    }
    mounts = {one.container_path: one for one in found.mounts}
    assert mounts.keys() == {
        "/usr/local/vgpu/libvgpu.so",
        "/usr/local/vgpu/cache",
        "/tmp/vgpulock",
        "/etc/ld.so.preload",
    }
    for path in ("/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload"):
        assert "ro" in mounts[path].options
    preload = Path(mounts["/etc/ld.so.preload"].host_path)
    assert preload.read_text() == "/usr/local/vgpu/libvgpu.so\n"
    for path in ("/usr/local/vgpu/cache", "/tmp/vgpulock"):
        assert Path(mounts[path].host_path).stat().st_mode & 0o7777 == 0o1777
        assert {"rw", "nosuid", "nodev", "noexec"} < set(mounts[path].options)


def test_what_a_tenant_may_fill_is_bounded_and_holds_no_program(place: Path) -> None:
    hami = made(place)
    cache = Path(hami.prepare([share()]).mounts[0].host_path)
    with pytest.raises(OSError, match="No space left"):
        (cache / "full").write_bytes(bytes(40 * MIB))
    (cache / "full").unlink()
    with pytest.raises(OSError, match="No space left"):
        touch(cache, 400)
    program = cache / "0"
    program.chmod(0o755)
    with pytest.raises(PermissionError):
        subprocess.run([program], check=False)


def touch(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / str(number)).touch()


def test_links_of_a_tenant_lead_root_nowhere(place: Path) -> None:
    """What a tenant puts there is never followed, and goes with its file system."""
    hami, kept = made(place), place / "kept"
    kept.mkdir()
    (kept / "file").write_text("root's")
    for mount in hami.prepare([share()]).mounts[:2]:
        inside = Path(mount.host_path)
        (inside / f"{CLAIM}.cache").symlink_to(kept / "file")
        (inside / "up").symlink_to(kept)
    assert hami.prepare([share()]).mounts
    hami.unprepare([share()])
    assert (kept / "file").read_text() == "root's"
    assert not (place / "run" / CLAIM).exists()
    with pytest.raises(PermissionError):  # its own folder is not beside what it may write
        _as_nobody(lambda: (place / "run").iterdir().__next__())


def _as_nobody(what: object) -> None:
    os.seteuid(NOBODY)
    try:
        what()  # type: ignore[operator]
    finally:
        os.seteuid(0)


def test_done_twice_and_undone_twice_is_done_once(place: Path) -> None:
    hami = made(place)
    assert hami.prepare([share()]) == hami.prepare([share()])
    mounted = Path("/proc/self/mounts").read_text().count(CLAIM)
    assert mounted == 2  # once, as source and as folder
    hami.unprepare([share()])
    hami.unprepare([share()])
    assert CLAIM not in Path("/proc/self/mounts").read_text()


def test_start_takes_up_what_lives_and_removes_the_rest(place: Path) -> None:
    hami, gone = made(place), share("gone")
    hami.prepare([gone])
    hami.prepare([share()])
    written = place / "run" / CLAIM / "cache/written"
    written.touch()
    again = made(place)
    again.restore([share()])
    assert written.exists()
    assert not (place / "run/gone").exists()
    again.unprepare([share()])
    again.restore([share()])  # as after a boot
    assert (place / "run" / CLAIM / "lock").is_dir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.chmod(0o600), r"tenants may not read .*mode 600"),
        (lambda path: path.chmod(0o666), r"others may write .*mode 666"),
        (lambda path: os.chown(path, NOBODY, NOBODY), "belongs to user 65534"),
        (lambda path: path.parent.chmod(0o777), "others may write in .*mode 777"),
        (lambda path: path.write_text("#!/bin/sh"), "is no ELF file"),
        (lambda path: path.write_bytes(Path("/bin/true").read_bytes()[:18] + b"\xff\xff"), "is not built for"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/null")), "is not a file"),
    ],
)  # fmt: skip
def test_library_that_tenants_can_not_be_given_is_refused(
    place: Path, spoil: object, words: str
) -> None:
    hami = made(place)
    assert hami.problem(GPU) == ""
    spoil(place / "libvgpu.so")  # type: ignore[operator]
    with pytest.raises(NodeError, match=words):
        hami.prepare([share()])
    assert not (place / "run").exists()


@given(st.binary(max_size=64))
def test_any_bytes_are_a_library_or_not(data: bytes) -> None:
    machine = platform.machine()
    good = data[:6] == b"\x7fELF\x02\x01" and data[16:20] == bytes((3, 0)) + MACHINES[
        machine
    ].to_bytes(2, "little")
    assert (header_problem(data[: HEADER.size], machine) == "") == good


def test_this_machines_libraries_are_libraries_and_no_other_machines() -> None:
    header = GENUINE.read_bytes()[: HEADER.size]
    assert header_problem(header, platform.machine()) == ""
    assert header_problem(header, "riscv64") == "is not built for riscv64"


SHARES = st.builds(
    share, gpu=st.sampled_from((GPU, OTHER)), memory=st.integers(MIB, 1 << 45), cores=st.integers(0, 200)
)  # fmt: skip


@given(st.lists(SHARES, min_size=1, max_size=3))
def test_limits_are_never_more_than_the_shares(shares: list[Share]) -> None:
    alike = len({(one.memory, one.cores) for one in shares}) == 1
    if not alike or len({one.gpu_uuid for one in shares}) < len(shares):
        with pytest.raises(NodeError, match="HAMi-core can't limit"):
            environment(shares, scaled=False)
        return
    env = environment(shares, scaled=False)
    limits = [env[f"CUDA_DEVICE_MEMORY_LIMIT_{n}"] for n in range(len(shares))]
    for one, limit in zip(shares, limits, strict=True):
        assert int(limit.removesuffix("m")) * MIB <= one.memory
    assert int(env.get("CUDA_DEVICE_SM_LIMIT", 0)) == min(100, shares[0].cores)
    assert "CUDA_OVERSUBSCRIBE" not in env


def test_shares_whose_numbers_would_matter_are_refused() -> None:
    with pytest.raises(NodeError, match="2 shares of a claim differ"):
        environment([share(), share(gpu=OTHER, memory=MIB)], scaled=False)
    with pytest.raises(NodeError, match="2 shares of a claim are of one GPU"):
        environment([share(), share()], scaled=False)
    with pytest.raises(NodeError, match="a share of 5 bytes"):
        environment([share(memory=5)], scaled=False)


@pytest.mark.parametrize("uid", ["..", "a/b", "", "a" * 65, "ld.so.preload"])
def test_claim_that_is_no_uid_reaches_no_path(place: Path, uid: str) -> None:
    with pytest.raises(InputError, match=r"claim: .* is not valid"):
        made(place).prepare([share(uid)])
