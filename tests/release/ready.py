# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a checkout is ready to be released, and what to do where it is not."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

EXECUTION = "execution-environment.yml"
PACKAGES = ("gpu_plugin", "gpu_cluster")
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def version(checkout: Path) -> str:
    """Return the collection's version."""
    return str(loaded(checkout / "galaxy.yml")["version"])


def loaded(path: Path) -> dict[str, Any]:
    """Return what a file of YAML has."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def git(checkout: Path, *words: str) -> str:
    """Return what git prints."""
    command = ["git", "-C", str(checkout), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def problems(checkout: Path) -> list[str]:
    """Return what is in the way of a release, each with the next step."""
    wanted = version(checkout)
    return [*versions(checkout, wanted), *changelog(checkout, wanted), *tree(checkout, wanted)]


def versions(checkout: Path, wanted: str) -> Iterator[str]:
    """Yield where versions are not the collection's."""
    if not SEMANTIC.fullmatch(wanted):
        yield f"galaxy.yml: version {wanted} is not valid: expected MAJOR.MINOR.PATCH"
    named = re.search(r"gpu-node-(\S+)\.tar\.gz", (checkout / EXECUTION).read_text())
    others = {EXECUTION: named and named[1]}
    for package in PACKAGES:
        project, source = (
            f"files/{package}/pyproject.toml",
            f"files/{package}/src/{package}/__init__.py",
        )
        others[project] = tomllib.loads((checkout / project).read_text())["project"]["version"]
        own = re.search(r'^__version__ = "(.*)"$', (checkout / source).read_text(), re.MULTILINE)
        others[source] = own and own[1]
    for name, found in others.items():
        if found != wanted:
            yield (
                f"{name}: version {found} is not {wanted}, galaxy.yml's. Next step: set it there too"
            )


def changelog(checkout: Path, wanted: str) -> Iterator[str]:
    """Yield what the changelog lacks."""
    listed = loaded(checkout / "changelogs/changelog.yaml")["releases"]
    waiting = sorted(one.name for one in (checkout / "changelogs/fragments").glob("*.y*ml"))
    step = "Next step: antsibull-changelog release, and commit what it writes"
    if waiting:
        yield (
            f"changelogs/fragments: {len(waiting)} fragments are of no release, {waiting[0]} first. {step}"
        )
    if wanted not in listed:
        yield f"changelogs/changelog.yaml: there is no release {wanted}. {step}"
    heading = f"## v{wanted}".replace(".", "\\.")
    if heading not in (checkout / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md: there is no release {wanted}. Next step: antsibull-changelog generate"


def tree(checkout: Path, wanted: str) -> Iterator[str]:
    """Yield where git has something else than the release."""
    if changed := git(checkout, "status", "--porcelain"):
        yield (
            f"the tree is not clean, {changed.split()[1]} first. Next step: commit or stash what is not committed"
        )
    for tag in git(checkout, "tag", "--list", wanted, f"v{wanted}").split():
        if git(checkout, "rev-list", "-n", "1", tag) != git(checkout, "rev-parse", "HEAD"):
            yield (
                f"{tag} is a tag of another commit. Next step: raise version in galaxy.yml, or check out the tag"
            )
