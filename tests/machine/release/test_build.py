# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tarball, and what `make release` refuses."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine.release.conftest import CORES, REPOSITORY, made
from tests.release.build import present
from tests.release.ready import version

SHIPPED = {
    *("CHANGELOG.md", "FILES.json", "LICENSES", "MANIFEST.json", "README.md", "SECURITY.md"),
    *("bindep.txt", "changelogs", "docs", "execution-environment.yml", "files", "meta"),
    *("playbooks", "plugins", "requirements.txt", "roles"),
}
NEXT = "9.8.7"
OURS = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")


def build(checkout: Path, folder: Path, *words: str, core: str = "") -> str:
    """Run make release's program of a checkout and return what it prints."""
    path = f"{made(core) / 'bin'}:{os.environ['PATH']}" if core else os.environ["PATH"]
    command = [sys.executable, "-m", "tests.release.build", "--to", str(folder)]
    done = subprocess.run(
        [*command, *words],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout if done.returncode == 0 else done.stderr


def git(checkout: Path, *words: str) -> None:
    subprocess.run(["git", *OURS, *words], cwd=checkout, check=True, capture_output=True)


def replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository whose only commit has the files that are here."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    present(folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "everything")
    return folder


@pytest.fixture
def released(checkout: Path) -> Path:
    """Return one in which a release was made as SECURITY and README describe: version, changelog, commit."""
    package, now = checkout / "files/gpu_plugin", version(checkout)
    replace(checkout / "galaxy.yml", f"version: {now}", f"version: {NEXT}")
    replace(package / "pyproject.toml", f'version = "{now}"', f'version = "{NEXT}"')
    replace(package / "src/gpu_plugin/__init__.py", f'"{now}"', f'"{NEXT}"')
    execution = checkout / "execution-environment.yml"
    execution.write_text(execution.read_text().replace(f"node-{now}.tar", f"node-{NEXT}.tar"))
    (checkout / "changelogs/fragments/all.yml").write_text("release_summary: Everything.\n")
    tool = made("release") / "bin"
    subprocess.run(
        [tool / "antsibull-changelog", "release", "--date", "2026-01-01"],
        cwd=checkout,
        env={**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", NEXT)
    return checkout


def test_a_release_is_the_same_bytes_with_each_core(tmp_path: Path) -> None:
    digests = {build(REPOSITORY, tmp_path / one, "--draft", core=one).split()[1] for one in CORES}
    assert len(digests) == 1
    for one in CORES:
        (tarball,) = (tmp_path / one).glob("*.tar.gz")
        assert digests == {hashlib.sha256(tarball.read_bytes()).hexdigest()}
        assert Path(f"{tarball}.sha256").read_text() == f"{next(iter(digests))}  {tarball.name}\n"


def test_the_tarball_has_what_users_need_and_no_more(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = [one.name for one in archive if not one.isdir()]
    assert {one.partition("/")[0] for one in names} <= SHIPPED
    unwanted = re.compile(
        r"(^|/)(tests?|molecule|__pycache__|\.\w[^/]*)/|\.(pyc|whl|tar|img|gz|so)$"
    )
    assert [one for one in names if unwanted.search(one)] == []
    assert tarball.stat().st_size < 5_000_000
    assert {"playbooks/gpu_nodes.yml", "files/gpu_plugin/pyproject.toml"} <= set(names)


def test_a_release_that_is_ready_is_made(released: Path, tmp_path: Path) -> None:
    path, digest = build(released, tmp_path / "out").split()
    assert Path(path).name == f"gpu-node-{NEXT}.tar.gz"
    with tarfile.open(path) as archive:
        stream = archive.extractfile("CHANGELOG.md")
        assert stream is not None
        assert f"v{NEXT}".replace(".", "\\.") in stream.read().decode()
    assert digest == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def spoil_tree(checkout: Path) -> None:
    (checkout / "README.md").write_text("changed")


def spoil_fragments(checkout: Path) -> None:
    folder = checkout / "changelogs/fragments"
    folder.mkdir(exist_ok=True)
    (folder / "late.yml").write_text("minor_changes: [late]\n")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "late")


def spoil_version(checkout: Path) -> None:
    package = checkout / "files/gpu_plugin"
    replace(package / "pyproject.toml", f'version = "{NEXT}"', 'version = "9.8.6"')
    git(checkout, "commit", "--quiet", "--all", "--message", "another version")


def spoil_tag(checkout: Path) -> None:
    git(checkout, "tag", f"v{NEXT}", "HEAD~1")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_tree, "the tree is not clean, README.md first. Next step: commit or stash"),
        (spoil_fragments, "1 fragments are of no release, late.yml first. Next step: antsibull-"),
        (
            spoil_version,
            f"files/gpu_plugin/pyproject.toml: version 9.8.6 is not {NEXT}, galaxy.yml's. Next step",
        ),
        (spoil_tag, f"v{NEXT} is a tag of another commit. Next step: raise version"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(
    released: Path, tmp_path: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(released)
    assert told in build(released, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_version_without_a_changelog_is_refused(checkout: Path, tmp_path: Path) -> None:
    now = version(checkout)
    replace(checkout / "galaxy.yml", f"version: {now}", "version: 9.9")
    said = build(checkout, tmp_path / "out")
    assert "version 9.9 is not valid: expected MAJOR.MINOR.PATCH" in said
    assert "changelogs/changelog.yaml: there is no release 9.9. Next step: antsibull-" in said
    assert "CHANGELOG.md: there is no release 9.9" in said
