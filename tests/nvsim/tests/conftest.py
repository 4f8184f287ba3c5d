# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulated machines and their clients."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvsim.testing import Sim, start

APT = Path(__file__).resolve().parents[1] / "build/apt"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.fixture
def h100() -> Iterator[Sim]:
    with start("h100-80", 8) as sim:
        yield sim


@pytest.fixture
def a100() -> Iterator[Sim]:
    with start("a100-40", 2) as sim:
        yield sim


@pytest.fixture(scope="session")
def nvidia_smi() -> Path:
    """Return the genuine nvidia-smi, from Debian's package; the mirror is the one of this machine."""
    found = list(APT.glob("root/usr/lib/nvidia/*/nvidia-smi"))
    if not found:
        _download()
        found = list(APT.glob("root/usr/lib/nvidia/*/nvidia-smi"))
    if not found:
        pytest.skip("the package nvidia-smi cannot be downloaded from this machine's Debian mirror")
    return found[0]


def _download() -> None:
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
    for words in (["update"], ["download", "nvidia-smi"]):
        if subprocess.run(
            ["apt-get", *options, *words], cwd=APT, capture_output=True, check=False
        ).returncode:
            return
    for package in APT.glob("nvidia-smi_*.deb"):
        subprocess.run(["dpkg", "-x", package, APT / "root"], check=True)


@pytest.fixture
def smi(nvidia_smi: Path) -> Callable[..., str]:
    """Return a function that runs nvidia-smi on a machine."""

    def run(sim: Sim, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [nvidia_smi, *words], env=sim.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run
