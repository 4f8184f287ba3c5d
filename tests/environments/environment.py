# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Virtual environments from the lists of wheels beside this file, each made once.

``environment.py NAME`` prints the folder of one, and ``environment.py NAME PYTHON`` that of one with such a Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LISTS = Path(__file__).resolve().parent
CACHE = LISTS.parents[1] / ".cache/environments"
# The Pythons that run each list; the first where none is named.
PYTHONS = {
    "core-2.19": ("3.11", "3.12", "3.13"),
    "core-2.20": ("3.12", "3.13", "3.14"),
    "core-2.21": ("3.13", "3.12", "3.14"),
    "galaxy": ("3.12", "3.13"),
    "prose": ("3.11", "3.12", "3.13"),
    "release": ("3.11", "3.12", "3.13"),
    "target": ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14"),
}
CORES = tuple(name for name in PYTHONS if name.startswith("core-"))


class PythonMissingError(Exception):
    """No Python of a version is here."""


def places(version: str) -> Iterator[str]:
    """Yield where a Python may be: on the path, and where pyenv keeps those that are not."""
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True))


def interpreter(version: str) -> str:
    """Return a Python of a version, as 3.12; raises PythonMissingError."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    for one in places(version):
        done = subprocess.run([one, "-c", ask], check=False, capture_output=True, text=True)
        if done.stdout.strip() == version:
            return one
    raise PythonMissingError(
        f"there is no Python {version} here. Next step: pyenv install {version}"
    )


def environment(name: str, version: str = "") -> Path:
    """Return the folder of a list's environment, which is made where it is not there or not of this list."""
    python = interpreter(version or PYTHONS[name][0])
    lists = [one for one in (LISTS / f"{name}.txt", LISTS / f"{name}-sources.txt") if one.exists()]
    folder = CACHE / f"{name}-python{version or PYTHONS[name][0]}"
    made_from = hashlib.sha256(b"".join(one.read_bytes() for one in lists)).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(f"{folder.suffix}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "made-from"
        if not stamp.exists() or stamp.read_text() != made_from:
            make(folder, python, *lists)
            stamp.write_text(made_from)
    return folder


def make(folder: Path, python: str, wheels: Path, *sources: Path) -> None:
    """Make an environment anew; sources are built by what the wheels have installed."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    words = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    words += ["--disable-pip-version-check", "--require-hashes", "--no-deps"]
    subprocess.run([*words, "--only-binary=:all:", "--requirement", str(wheels)], check=True)
    for one in sources:
        subprocess.run([*words, "--no-build-isolation", "--requirement", str(one)], check=True)


def main() -> None:
    """Print the folder of the environment that is named."""
    if sys.argv[1:2] == [] or sys.argv[1] not in PYTHONS:
        sys.exit(f"environment: name one of {', '.join(PYTHONS)}")
    try:
        print(environment(*sys.argv[1:3]))
    except PythonMissingError as error:
        sys.exit(f"environment: {error}")


if __name__ == "__main__":
    main()
