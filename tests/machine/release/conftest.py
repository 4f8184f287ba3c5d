# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The collection's tarball, and bare environments of each ansible-core that it is installed into."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments.environment import CORES
from tests.environments.needed import made
from tests.support.paths import REPOSITORY


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


@pytest.fixture(scope="module")
def installed(core: str, tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the tarball with a core as its user would."""
    home = tmp_path_factory.mktemp(core)
    there = Installed(home, made(core), "")
    (home / tarball.name).symlink_to(tarball)
    done = there.run("ansible-galaxy", "collection", "install", "--offline", tarball.name)
    return Installed(home, there.core, done.stdout + done.stderr)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test that takes a core run with the oldest, and with each in the long run."""
    if "core" in metafunc.fixturenames:
        oldest, *others = CORES
        later = [pytest.param(one, marks=pytest.mark.long) for one in others]
        metafunc.parametrize("core", [oldest, *later], scope="module")
