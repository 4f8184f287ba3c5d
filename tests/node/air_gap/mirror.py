# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node that is not cut off yet: mirrors packages, each with what it depends on, and makes it the only source.

Words: the folder, and the packages.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path("/etc/apt/sources.list")
ARCHIVES = Path("/var/cache/apt/archives")
COMPONENTS = "contrib non-free non-free-firmware"


def apt(*words: str) -> None:
    """Run apt-get; a failure shows what it said."""
    lock = "--option=DPkg::Lock::Timeout=300"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", lock, "--quiet=2", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"apt-get {' '.join(words)}: {done.stdout}{done.stderr}")


def entry(package: Path) -> str:
    """Return a package's entry in the repository's index."""
    told = subprocess.run(
        ["dpkg-deb", "--field", package], check=True, capture_output=True, text=True
    )
    data = package.read_bytes()
    about = (
        f"Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}"
    )
    return f"{told.stdout.rstrip()}\n{about}\n"


def main(folder: Path, packages: list[str]) -> None:
    """Fetch the packages into the folder, and leave no other source nor anything that was fetched."""
    SOURCES.write_text(SOURCES.read_text().replace(" main\n", f" main {COMPONENTS}\n"))
    apt("update")
    folder.mkdir(parents=True)
    for one in packages:
        words = ("--yes", "--download-only", "--no-install-recommends", "--reinstall")
        told = f"--option=Dir::Cache::archives={folder}"
        apt("install", *words, told, one)
    shutil.rmtree(folder / "partial")
    found = sorted(folder.glob("*.deb"))
    (folder / "Packages").write_text("\n".join(map(entry, found)))
    SOURCES.write_text(f"deb [trusted=yes] file:{folder} ./\n")
    for one in ARCHIVES.glob("*.deb"):
        one.unlink()
    shutil.rmtree("/var/lib/apt/lists")


main(Path(sys.argv[1]), sys.argv[2:])
