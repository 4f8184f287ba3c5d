# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's image: Debian in one layer, the simulated hardware and the stand-in kubelet in another.

Each layer's name holds a digest of what it is made from, so that it is made once and never stale.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from .paths import CUDA, DAEMON, KUBELET, NODE, NVSIM, REPOSITORY, place
from .podman import label, podman

SUITES = {"trixie": "3.13", "bookworm": "3.11"}  # and the Python of each
PACKAGES = (
    "ca-certificates",
    "containerd",
    "dbus",
    "iproute2",
    "kmod",
    "openssh-server",
    "pciutils",
    "python3",
    "python3-apt",
    "runc",
    "systemd",
    "systemd-sysv",
    "udev",
)
DIVERTED = ("lsmod", "modprobe", "rmmod")
ENABLED = {
    "sysinit.target.wants": ["nvsimd.service"],
    "multi-user.target.wants": ["kubelet.service", "ssh.service", "containerd.service"],
}


def digest(files: Iterable[Path], *texts: str) -> str:
    """Return a short digest of texts, and of files and their places."""
    total = hashlib.sha256("\0".join(texts).encode())
    for path in sorted(files):
        place = str(path.relative_to(REPOSITORY)).encode()
        total.update(place + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def mirror() -> str:
    """Return the Debian mirror that this machine itself uses."""
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for path in places:
        if path.is_file():
            found = re.search(
                r"^\s*(?:URIs:|deb(?: \[[^]]*\])?)\s*(https?://\S+/debian)/?\s",
                path.read_text(),
                re.M,
            )
            if found:
                return found[1]
    sys.exit(
        "gpunode: no Debian mirror in the apt sources of this machine. Next step: run on Debian."
    )


def sources() -> list[Path]:
    """Return the files that the upper layer is made from."""
    trees = [
        NODE / "overlay",
        CUDA,
        NVSIM / "nvsim",
        NVSIM / "bin",
        NVSIM / "shim",
        KUBELET / "standin_kubelet",
        DAEMON / "proto",
    ]
    files = [
        path
        for tree in trees
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return [*files, NODE / "site-requirements.txt", Path(__file__)]


def build(suite: str) -> str:
    """Make a suite's image unless it is there, and return its name."""
    name = f"localhost/gpunode:{suite}-{digest(sources(), mirror())}"
    if podman("images", "--quiet", name):
        return name
    with building() as folder:
        if not podman("images", "--quiet", name):
            _build(folder, suite, name)
    return name


@contextlib.contextmanager
def building() -> Iterator[Path]:
    """Return a folder to build an image in, while nobody else builds one: two of one name would leave the first."""
    place().mkdir(parents=True, exist_ok=True)
    images = os.open(podman("info", "--format", "{{.Store.GraphRoot}}"), os.O_RDONLY)
    try:
        fcntl.flock(images, fcntl.LOCK_EX)
        with tempfile.TemporaryDirectory(dir=place()) as folder:
            yield Path(folder)
    finally:
        os.close(images)


def _build(folder: Path, suite: str, name: str) -> None:
    base = _base(folder, suite)
    print("gpunode: adding the simulated hardware", file=sys.stderr, flush=True)
    subprocess.run(["make", "--silent", "-C", str(NVSIM), "shim"], check=True)
    tree = folder / "tree"
    _overlay(tree, suite)
    container = podman("create", "--label", label(), base, "/sbin/init")
    podman("cp", f"{tree}/.", f"{container}:/")
    podman("commit", "--quiet", container, name)
    podman("rm", container)


def _base(folder: Path, suite: str) -> str:
    """Make Debian's layer unless it is there."""
    name = f"localhost/gpunode-base:{digest([], suite, *PACKAGES, *DIVERTED)}"
    if podman("images", "--quiet", name):
        return name
    print(
        f"gpunode: building Debian {suite} (once, about two minutes)", file=sys.stderr, flush=True
    )
    root = folder / "root"
    include = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", include, suite, str(root), mirror()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("gpunode: debootstrap failed:\n" + "\n".join(done.stdout.splitlines()[-15:]))
    for module in DIVERTED:
        divert = ["dpkg-divert", "--quiet", "--local", "--rename", "--add", f"/usr/sbin/{module}"]
        subprocess.run(["chroot", str(root), *divert], check=True)
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    piped = f"tar -C '{root}' -c . | podman import --quiet - {name}"
    subprocess.run(piped, shell=True, check=True)
    shutil.rmtree(root)
    return name


def _overlay(tree: Path, suite: str) -> None:
    """Lay out the upper layer."""
    shutil.copytree(NODE / "overlay", tree, dirs_exist_ok=True)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(NVSIM / "nvsim", tree / "opt/nvsim/nvsim", ignore=ignore)
    shutil.copytree(NVSIM / "bin", tree / "opt/nvsim/bin", ignore=ignore)
    (tree / "opt/nvsim/lib").mkdir()
    shutil.copyfile(NVSIM / "build/libnvidia-ml.so.1", tree / "opt/nvsim/lib/libnvidia-ml.so")
    build = f"BUILD={tree}/opt/nvsim/lib"
    subprocess.run(["make", "--silent", "-C", str(CUDA), build], check=True)
    (tree / "opt/nvsim/lib/libcuda.so.1").rename(tree / "opt/nvsim/lib/libcuda.so")
    shutil.copytree(
        KUBELET / "standin_kubelet", tree / "opt/standin/standin_kubelet", ignore=ignore
    )
    shutil.copytree(DAEMON / "proto", tree / "opt/standin/gpu_plugin/proto", ignore=ignore)
    shutil.copyfile(DAEMON / "__init__.py", tree / "opt/standin/gpu_plugin/__init__.py")
    _libraries(tree, SUITES[suite])
    for target, units in ENABLED.items():
        wants = tree / "etc/systemd/system" / target
        wants.mkdir(parents=True)
        for unit in units:
            own = (tree / "etc/systemd/system" / unit).exists()
            (wants / unit).symlink_to(f"{'/etc' if own else '/usr/lib'}/systemd/system/{unit}")
    apt = tree / "etc/apt"
    apt.mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(f"deb {mirror()} {suite} main\n")


def _libraries(tree: Path, python: str) -> None:
    """Put what nvsim and the stand-in kubelet import beside them."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--quiet"),
            *("--disable-pip-version-check", "--no-deps", "--only-binary=:all:"),
            *("--require-hashes", "--requirement", str(NODE / "site-requirements.txt")),
            *("--python-version", python, "--target", str(tree / "opt/nvsim/site")),
        ],
        check=True,
    )
