# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine programs from Debian's packages: NVIDIA's, as clients of the simulated driver, and promtool."""

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
    return _program("nvidia-smi", "nvidia-smi")


def mps_control() -> Path:
    """Return nvidia-cuda-mps-control, or skip as above."""
    return _program("nvidia-cuda-mps", "nvidia-cuda-mps-control")


def nvml() -> Path:
    """Return libnvidia-ml.so of the same package's version, or skip as above."""
    return _program("libnvidia-ml1", "libnvidia-ml.so.*.*")


def promtool() -> Path:
    """Return Prometheus' promtool, or skip as above."""
    return _program("promtool", "promtool")


def lib64_glibc() -> Path:
    """Return glibc's loader as built for /lib64 and /usr/lib64, with its libraries beside it; skip as above."""
    return _program("libc6-amd64-i386-cross", "ld-linux-x86-64.so.2")


def _program(package: str, name: str) -> Path:
    APT.mkdir(parents=True, exist_ok=True)
    with (APT / "lock").open("w") as lock:  # tests run beside each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _there(name)) is None:
            _download(package)
            found = _there(name)
    if found is None:
        pytest.skip(f"the package {package} cannot be downloaded from this machine's Debian mirror")
    return found


def _there(name: str) -> Path | None:
    for folder in ("usr/lib/nvidia", "usr/lib", "usr/bin", "usr/i686-linux-gnu"):
        for path in APT.glob(f"root/{folder}/**/{name}"):
            if path.is_file():
                return path
    return None


def _download(package: str) -> None:
    sources = "\n".join(
        path.read_text()
        for path in Path("/etc/apt").rglob("*")
        if path.suffix in (".list", ".sources")
    )
    mirror = re.search(r"https?://\S+/debian(?=/?\s)", sources)
    if mirror is None:
        return
    for folder in ("lists/partial", "archives/partial", "root"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    line = f"deb [signed-by={KEYRING}] {mirror[0]} trixie main contrib non-free non-free-firmware\n"
    (APT / "sources.list").write_text(line)
    options = [
        "-q",
        "-o",
        f"Dir::Etc::SourceList={APT}/sources.list",
        "-o",
        "Dir::Etc::SourceParts=/dev/null",
    ]
    options += [
        "-o",
        f"Dir::State::Lists={APT}/lists",
        "-o",
        f"Dir::Cache={APT}",
        "-o",
        "Dir::State::status=/dev/null",
    ]
    options += ["-o", "APT::Sandbox::User=root"]
    for words in (["update"], ["download", package]):
        if subprocess.run(
            ["apt-get", *options, *words], cwd=APT, capture_output=True, check=False
        ).returncode:
            return
    for archive in APT.glob(f"{package}_*.deb"):
        subprocess.run(["dpkg", "-x", archive, APT / "root"], check=True)
