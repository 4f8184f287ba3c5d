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
from gpu_plugin._shared._core.errors import NodeError
from gpu_plugin.dra.enforcement.hami_core import MIB, HamiCore, environment
from gpu_plugin.dra.enforcement.library import HEADER, MACHINES, header_problem
from gpu_plugin.dra.values import Share
from hypothesis import given
from hypothesis import strategies as st
from nvsim.testing import PROJECT

from tests.fakes.mps.mps_running import ROOTS_ALONE

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
    shutil.rmtree(found)


def made(place: Path, *, scaled: bool = False) -> HamiCore:
    return HamiCore(str(place / "libvgpu.so"), place / "run", scaled=scaled)


def test_hami_core_gets_the_variables_that_it_reads(place: Path) -> None:
    found = made(place, scaled=True).prepare([share(cores=30, priority=1)])
    assert found.env == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/cache/gpu.cache",
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
        assert (mounts[path].type, mounts[path].host_path) == ("tmpfs", "tmpfs")
        bounds = {"nosuid", "nodev", "noexec", "size=32m", "nr_inodes=256"}
        assert bounds < set(mounts[path].options)


def test_what_a_tenant_may_fill_is_bounded_and_holds_no_program(place: Path) -> None:
    """Mounted with these options, as a runtime does; nothing of it is on the host."""
    mounts = [one for one in made(place).prepare([share()]).mounts if one.type]
    assert [path.name for path in (place / "run").iterdir()] == ["ld.so.preload"]
    box = place / "box"
    box.mkdir()
    script = """
    mount -t "$1" -o "$2" "$1" "$3" && cd "$3" && ! head -c 40000000 /dev/zero 2>&1 >full &&
    rm full && ! touch $(seq 400) 2>&1 && cp /bin/true 1 2>&1 && ! ./1 2>&1
    """
    for one in mounts:
        words = [script, "sh", one.type, ",".join(one.options), str(box)]
        command = ["unshare", "--mount", "sh", "-c", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("No space left on device") > 2
        assert "Permission denied" in done.stdout


def test_done_twice_undone_and_taken_up_again_it_is_the_same(place: Path) -> None:
    hami, preload = made(place), place / "run/ld.so.preload"
    assert hami.prepare([share()]) == hami.prepare([share("other")]) == hami.prepare([share()])
    inode = preload.stat().st_ino
    made(place).restore([share()])
    hami.tick()
    hami.unprepare([share()])
    assert preload.stat().st_ino == inode  # which containers have
    preload.unlink()  # as after a boot
    made(place).restore([share()])
    assert preload.read_text() == "/usr/local/vgpu/libvgpu.so\n"


def test_what_is_in_the_way_is_not_followed(place: Path) -> None:
    (place / "kept").write_text("root's")
    (place / "run").mkdir()
    (place / "run/ld.so.preload").symlink_to(place / "kept")
    made(place).prepare([share()])
    assert (place / "kept").read_text() == "root's"
    shutil.rmtree(place / "run")
    (place / "run").symlink_to(place)
    with pytest.raises(NodeError, match="is not a folder"):
        made(place).prepare([share()])


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
