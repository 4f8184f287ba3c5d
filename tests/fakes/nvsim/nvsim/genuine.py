# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine programs from Debian's packages: NVIDIA's, as clients of the simulated driver, promtool, and others."""

from __future__ import annotations

import fcntl
import re
import subprocess
from pathlib import Path

import pytest

APT = Path(__file__).resolve().parents[1] / "build/apt"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def nvidia_smi() -> Path:
    """Return the program, from this machine's mirror the first time; where that has it not, the test is skipped."""
    return program("nvidia-smi", "nvidia-smi")


def mps_control() -> Path:
    """Return nvidia-cuda-mps-control, or skip as above."""
    return program("nvidia-cuda-mps", "nvidia-cuda-mps-control")


def nvml() -> Path:
    """Return libnvidia-ml.so of the same package's version, or skip as above."""
    return program("libnvidia-ml1", "libnvidia-ml.so.*.*")


def promtool() -> Path:
    """Return Prometheus' promtool, or skip as above."""
    return program("promtool", "promtool")


def lib64_glibc() -> Path:
    """Return glibc's loader as built for /lib64 and /usr/lib64, with its libraries beside it; skip as above."""
    return program("libc6-amd64-i386-cross", "ld-linux-x86-64.so.2")


def program(package: str, name: str, suite: str = "trixie") -> Path:
    """Return a file of a package of a release of Debian, or skip as above."""
    folder = APT if suite == "trixie" else APT / suite
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # tests run beside each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _there(folder, name)) is None:
            _download(folder, suite, package)
            found = _there(folder, name)
    if found is None:
        pytest.skip(f"the package {package} cannot be downloaded from this machine's Debian mirror")
    return found


def _there(base: Path, name: str) -> Path | None:
    for folder in (
        "usr/lib/nvidia",
        "usr/lib",
        "usr/bin",
        "usr/sbin",
        "usr/libexec",
        "usr/i686-linux-gnu",
        "bin",
    ):
        for path in base.glob(f"root/{folder}/**/{name}"):
            if path.is_file():
                return path
    return None


def _download(base: Path, suite: str, package: str) -> None:
    sources = "\n".join(
        path.read_text()
        for path in Path("/etc/apt").rglob("*")
        if path.suffix in (".list", ".sources")
    )
    mirror = re.search(r"https?://\S+/debian(?=/?\s)", sources)
    if mirror is None:
        return
    for folder in ("lists/partial", "archives/partial", "root"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    line = (
        f"deb [signed-by={KEYRING}] {mirror[0]} {suite} main contrib non-free non-free-firmware\n"
    )
    (base / "sources.list").write_text(line)
    options = [
        "-q",
        "-o",
        f"Dir::Etc::SourceList={base}/sources.list",
        "-o",
        "Dir::Etc::SourceParts=/dev/null",
    ]
    options += [
        "-o",
        f"Dir::State::Lists={base}/lists",
        "-o",
        f"Dir::Cache={base}",
        "-o",
        "Dir::State::status=/dev/null",
    ]
    options += ["-o", "APT::Sandbox::User=root"]
    for words in (["update"], ["download", package]):
        if subprocess.run(
            ["apt-get", *options, *words], cwd=base, capture_output=True, check=False
        ).returncode:
            return
    for archive in base.glob(f"{package}_*.deb"):
        subprocess.run(["dpkg", "-x", archive, base / "root"], check=True)
