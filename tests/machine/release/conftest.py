# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The collection's tarball, and bare environments of each ansible-core that it is installed into."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments.environment import CORES, PythonMissingError, environment
from tests.support.paths import REPOSITORY

Install = Callable[[str], "Installed"]


def made(name: str) -> Path:
    """Return an environment; where its Python is not here that is an error in CI, and no more than said elsewhere."""
    try:
        return environment(name)
    except PythonMissingError as error:
        if os.environ.get("MATRIX_REQUIRED"):
            raise
        pytest.skip(str(error))


def bare(folder: Path, core: Path) -> dict[str, str]:
    """Return surroundings that know of nothing of this checkout."""
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{core / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
    }


@dataclass
class Installed:
    """A collection that was installed from the tarball, in a home of its own."""

    home: Path
    core: Path
    said: str

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment there."""
        env = bare(self.home, self.core)
        done = subprocess.run(
            words, cwd=self.home, env=env, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0 or not check, (words, done.stdout, done.stderr)
        return done


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tarball of what is here."""
    folder = tmp_path_factory.mktemp("tarball")
    words = [sys.executable, "-m", "tests.release.build", "--draft", "--to"]
    subprocess.run([*words, str(folder)], cwd=REPOSITORY, check=True, capture_output=True)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture
def install(tarball: Path, tmp_path: Path) -> Install:
    """Return a function that installs the tarball with a core as its user would."""

    def begin(core: str) -> Installed:
        there = Installed(tmp_path, made(core), "")
        (tmp_path / tarball.name).symlink_to(tarball)
        done = there.run("ansible-galaxy", "collection", "install", "--offline", tarball.name)
        return Installed(there.home, there.core, done.stdout + done.stderr)

    return begin


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that takes a core run with each."""
    if "core" in metafunc.fixturenames:
        metafunc.parametrize("core", CORES)
