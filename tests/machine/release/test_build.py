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

from tests.environments.environment import CORES
from tests.environments.needed import made
from tests.release.build import present
from tests.release.links import targets
from tests.release.ready import problems, version
from tests.support.paths import REPOSITORY

SHIPPED = {
    *("CHANGELOG.md", "FILES.json", "LICENSES", "MANIFEST.json", "README.md", "SECURITY.md"),
    *("bindep.txt", "changelogs", "docs", "execution-environment.yml", "files", "meta"),
    *("playbooks", "plugins", "requirements.txt", "roles"),
}
NEXT = "9.8.7"
OURS = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")


def make(checkout: Path, folder: Path, *words: str, core: str = "") -> str:
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose only commit has the files that are here."""
    folder = tmp_path_factory.mktemp("checkout")
    present(folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "everything")
    return folder


@pytest.fixture
def checkout(original: Path, tmp_path: Path) -> Path:
    """Return a clone of it."""
    git(original, "clone", "--quiet", ".", str(tmp_path / "checkout"))
    return tmp_path / "checkout"


@pytest.fixture
def released(checkout: Path) -> Path:
    """Return one in which a release was made as SECURITY and README describe: version, changelog, commit."""
    now = version(checkout)
    replace(checkout / "galaxy.yml", f"version: {now}", f"version: {NEXT}")
    for name in ("gpu_plugin", "gpu_cluster"):
        package = checkout / "files" / name
        replace(package / "pyproject.toml", f'version = "{now}"', f'version = "{NEXT}"')
        replace(package / "src" / name / "__init__.py", f'"{now}"', f'"{NEXT}"')
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


@pytest.mark.long
def test_a_release_is_the_same_bytes_with_each_core(tmp_path: Path) -> None:
    digests = {make(REPOSITORY, tmp_path / one, "--draft", core=one).split()[1] for one in CORES}
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
    assert [one for one in names if one.startswith(("docs/evidence", "changelogs/frag"))] == []
    assert [one for one in names if "images" in one] == ["docs/images/report-overview.png"]


def test_no_link_of_the_tarball_s_pages_leads_to_what_is_not_in_it(
    tarball: Path, tmp_path: Path
) -> None:
    subprocess.run(["tar", "--extract", "--file", tarball, "--directory", tmp_path], check=True)
    pages = [*tmp_path.glob("*.md"), *(tmp_path / "docs").rglob("*.md")]
    linked = {
        (str(page.relative_to(tmp_path)), name)
        for page in pages
        for _link, name in targets(page, page.read_text(), tmp_path)
    }
    assert len(linked) > 100
    assert [one for one in sorted(linked) if not (tmp_path / one[1]).exists()] == []


@pytest.mark.long
def test_a_release_that_is_ready_is_made(released: Path, tmp_path: Path) -> None:
    path, digest = make(released, tmp_path / "out").split()
    assert Path(path).name == f"gpu-node-{NEXT}.tar.gz"
    with tarfile.open(path) as archive:
        stream = archive.extractfile("CHANGELOG.md")
        assert stream is not None
        assert f"v{NEXT}".replace(".", "\\.") in stream.read().decode()
    assert digest == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def change_a_file(checkout: Path) -> None:
    (checkout / "README.md").write_text("changed")


def add_a_fragment(checkout: Path) -> None:
    folder = checkout / "changelogs/fragments"
    folder.mkdir(exist_ok=True)
    (folder / "0.yml").write_text("minor_changes: [late]\n")


def change_the_daemons_version(checkout: Path) -> None:
    project, now = checkout / "files/gpu_plugin/pyproject.toml", version(checkout)
    replace(project, f'version = "{now}"', 'version = "9.8.6"')


def change_the_version(checkout: Path) -> None:
    replace(checkout / "galaxy.yml", f"version: {version(checkout)}", "version: 9.9")


def tag_another_commit(checkout: Path) -> None:
    git(checkout, "tag", f"v{version(checkout)}")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "later")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (change_a_file, ["the tree is not clean, README.md first. Next step: commit or stash"]),
        (add_a_fragment, ["fragments are of no release, 0.yml first. Next step: antsibull-"]),
        (
            change_the_daemons_version,
            ["files/gpu_plugin/pyproject.toml: version 9.8.6 is not ", "galaxy.yml's. Next step"],
        ),
        (tag_another_commit, [" is a tag of another commit. Next step: raise version"]),
        (
            change_the_version,
            [
                "version 9.9 is not valid: expected MAJOR.MINOR.PATCH",
                "changelogs/changelog.yaml: there is no release 9.9. Next step: antsibull-",
                "CHANGELOG.md: there is no release 9.9",
            ],
        ),
    ],
)
def test_what_is_in_the_way_of_a_release_is_told_with_the_next_step(
    checkout: Path, spoil: Callable[[Path], None], told: list[str]
) -> None:
    before = "\n".join(problems(checkout))
    spoil(checkout)
    after = "\n".join(problems(checkout))
    assert [one for one in told if one in before or one not in after] == []


def test_a_release_that_is_not_ready_is_not_made(checkout: Path, tmp_path: Path) -> None:
    change_the_version(checkout)
    said = make(checkout, tmp_path / "out").splitlines()
    assert said == [f"release: {one}" for one in problems(checkout)]
    assert not (tmp_path / "out").exists()
