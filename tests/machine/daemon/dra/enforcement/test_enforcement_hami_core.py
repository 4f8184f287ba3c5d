# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi-core: the user's library, what it reads, and the folder that tenants write to."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.dra.enforcement.hami_core import MIB, HamiCore
from gpu_plugin.dra.values import Share
from nvsim.testing import PROJECT

from tests.fakes.mps.mps_running import ROOTS_ALONE
from tests.support.folder import elsewhere

GPU = "GPU-00000000-0000-0000-0000-000000000000"
GENUINE = PROJECT / "build/libnvidia-ml.so.1"  # a shared library for this machine
CLAIM = "5d8c6b1e-2a8b-4f43-a0f5-0f6c8f4ed0aa"
NOBODY = 65534


def share(claim: str = CLAIM, gpu: str = GPU, memory: int = 3000 * MIB, **more: int) -> Share:
    return Share(claim, gpu, 0, memory, **{"cores": 0, **more})


@pytest.fixture
def place() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("file systems can be mounted by root only")
    found = elsewhere(ROOTS_ALONE, "h-")
    found.chmod(0o755)
    provide(found / "libvgpu.so")
    yield found
    shutil.rmtree(found)


def provide(library: Path) -> None:
    library.unlink(missing_ok=True)
    shutil.copy(GENUINE, library)
    library.chmod(0o644)


def made(place: Path, *, scaled: bool = False, sha256: str = "") -> HamiCore:
    library = str(place / "libvgpu.so")
    return HamiCore(library, place / "run", scaled=scaled, sha256=sha256)


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


@pytest.mark.attack("library-of-a-tenant")
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


@pytest.mark.attack("library-of-a-tenant")
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


SPOILT: dict[str, Callable[[Path], object]] = {
    "No such file": Path.unlink,
    r"tenants may not read .*mode 600": lambda path: path.chmod(0o600),
    r"others may write .*mode 666": lambda path: path.chmod(0o666),
    "belongs to user 65534": lambda path: os.chown(path, NOBODY, NOBODY),
    "others may write in .*mode 777": lambda path: path.parent.chmod(0o777),
    "is no ELF file": lambda path: path.write_text("#!/bin/sh"),
    "is not built for": lambda path: path.write_bytes(GENUINE.read_bytes()[:18] + b"\xff\xff"),
    "libvgpu.so is not a file": lambda path: (path.unlink(), path.mkdir()),
    "is not a file": lambda path: (path.rmdir(), path.symlink_to("/dev/null")),
}


@pytest.mark.attack("library-of-a-tenant")
def test_library_that_tenants_can_not_be_given_is_refused(place: Path) -> None:
    library = place / "libvgpu.so"
    assert made(place).problem(GPU) == ""
    for words, spoil in SPOILT.items():
        place.chmod(0o755)
        if not library.is_dir():
            provide(library)
        spoil(library)
        with pytest.raises(NodeError, match=words):
            made(place).prepare([share()])
    assert not (place / "run").exists()


def test_a_library_with_another_digest_is_refused(place: Path) -> None:
    library = place / "libvgpu.so"
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert made(place, sha256=digest).problem(GPU) == ""
    other = made(place, sha256="0" * 64)
    assert other.problem(GPU) == f"{library} has the SHA-256 {digest}, and {'0' * 64} is expected"
    with pytest.raises(NodeError, match=r"HAMi-core can't limit shares.*has the SHA-256"):
        other.prepare([share()])
    assert not (place / "run").exists()


def test_a_library_that_was_replaced_is_refused_from_then_on(place: Path) -> None:
    library = place / "libvgpu.so"
    hami = made(place, sha256=hashlib.sha256(library.read_bytes()).hexdigest())
    hami.prepare([share()])
    with library.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(NodeError, match="has the SHA-256"):
        hami.prepare([share()])
    provide(library)
    hami.prepare([share()])


def test_the_digest_is_read_once_while_the_file_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for each GPU, again and again."""
    hami = made(place, sha256=hashlib.sha256((place / "libvgpu.so").read_bytes()).hexdigest())
    assert hami.problem(GPU) == ""
    monkeypatch.setattr(hashlib, "sha256", None)
    assert hami.problem(GPU) == ""
