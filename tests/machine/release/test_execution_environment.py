# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The execution environment: its definition makes a context, and what that asks for is there by the hashes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.environments.needed import made
from tests.machine.release.conftest import bare
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.long

WHEELS = REPOSITORY / "tests/environments/ee.txt"


@pytest.fixture
def context(tarball: Path, tmp_path: Path) -> Path:
    """Return the context that ansible-builder makes."""
    shutil.copy(REPOSITORY / "execution-environment.yml", tmp_path)
    for file in (WHEELS, REPOSITORY / ".cache/release" / tarball.name):
        target = tmp_path / file.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True)
        shutil.copy(tarball if file.suffix == ".gz" else file, target)
    run(tmp_path, "ansible-builder", "create", "--context", "made")
    return tmp_path / "made"


def run(folder: Path, *words: str) -> str:
    """Run a program of the environment with which releases are made."""
    env = bare(folder, made("release"))
    done = subprocess.run(words, cwd=folder, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def asked(context: Path, folder: Path) -> list[str]:
    """Return what the installed collection asks Python for, as the image's build finds it."""
    build = context / "_build"
    galaxy = ("ansible-galaxy", "collection", "install", "--offline")
    where = folder / "collections"
    run(build, *galaxy, "--requirements-file", "requirements.yml", "--collections-path", str(where))
    words = ["python3", str(build / "scripts/introspect.py"), "introspect", str(where)]
    run(folder, *words, "--write-pip", "pip.txt", "--write-bindep", "bindep.txt")
    assert "openssh-clients [platform:rpm]" in (folder / "bindep.txt").read_text()
    lines = (folder / "pip.txt").read_text().splitlines()
    return [line.partition("#")[0].strip() for line in lines]


def test_the_image_installs_nothing_without_a_hash(context: Path) -> None:
    steps = (context / "Containerfile").read_text()
    base, _as, later = steps.partition("AS galaxy")
    assert "pip install --no-cache-dir --require-hashes --only-binary :all:" in base
    assert (context / "_build/wheels/ee.txt").read_bytes() == WHEELS.read_bytes()
    final = later[later.index("AS final") :]
    for line in (one for one in final.splitlines() if "pip install" in one):
        name = line.split()[-1].strip("'")
        assert f"\n{name} \\\n    --hash=" in WHEELS.read_text(), line


def test_what_the_collection_asks_for_is_among_the_wheels(context: Path, tmp_path: Path) -> None:
    listed = dict(
        line.split()[0].split("==") for line in WHEELS.read_text().splitlines() if "==" in line
    )
    found = [Requirement(one) for one in asked(context, tmp_path)]
    assert [one.name for one in found] == ["kubernetes"]
    assert all(one.specifier.contains(listed[one.name]) for one in found)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_wheels_resolve_by_their_hashes(version: str, tmp_path: Path) -> None:
    environment = made("core-2.21" if version == "3.13" else "core-2.20")
    words = [str(environment / "bin/python"), "-m", "pip", "install", "--dry-run"]
    words += ["--ignore-installed", "--require-hashes", "--only-binary=:all:"]
    words += ["--report", str(tmp_path / "report.json"), "--requirement", str(WHEELS)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load((tmp_path / "report.json").read_text())["install"]
    names = {one["metadata"]["name"].lower() for one in found}
    assert {"ansible-core", "ansible-runner", "kubernetes"} <= names
    tampered = tmp_path / "tampered.txt"
    text = WHEELS.read_text()
    one = text.index("ansible-runner==")
    at = text.index("sha256:", one) + len("sha256:")
    tampered.write_text(f"{text[:at]}{'0' * 64}{text[at + 64 :]}")
    words[-1] = str(tampered)
    refused = subprocess.run(words, check=False, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in refused.stderr
