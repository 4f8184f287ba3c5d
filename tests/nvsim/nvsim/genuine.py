# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The genuine nvidia-smi, from Debian's package, as a client of the simulated driver."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

APT = Path(__file__).resolve().parents[1] / "build/apt"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MISSING = "the package nvidia-smi cannot be downloaded from this machine's Debian mirror"


def nvidia_smi() -> Path | None:
    """Return the program, from this machine's mirror the first time; None where that has it not."""
    found = list(APT.glob("root/usr/lib/nvidia/*/nvidia-smi"))
    if not found:
        _download()
        found = list(APT.glob("root/usr/lib/nvidia/*/nvidia-smi"))
    return found[0] if found else None


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
