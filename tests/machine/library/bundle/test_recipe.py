# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The recipe of the page and of a bundle's README.md, followed word for word where somebody has been at the bundle."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._bundle.machine import tarball
from ansible_collections.gpu.node.plugins.module_utils._bundle.manifest import SUMS

from tests.docs.tables import pages
from tests.fakes.library.bundles_made import GENUINE, Bundle, release
from tests.machine.library.bundle.test_tampered import PACKAGES, forged
from tests.support.paths import DOCS

AIR_GAP = (DOCS / "operations/air-gap.md").read_text()
EVIL = "collections/gpu-two-0.3.0.tar.gz"


def of_page() -> str:
    """Return what the page has typed on the machine inside."""
    (console,) = (one for one in pages.blocks(AIR_GAP, "console") if "sha256sum" in one)
    return "\n".join(one[2:] for one in console.splitlines() if one[:2] in ("$ ", "> "))


def of_readme(made: Bundle) -> str:
    """Return what a bundle says itself."""
    (lines,) = pages.blocks((made.path / "README.md").read_text(), "")
    return lines


class Inside:
    """The machine that runs Ansible inside: ansible-galaxy is the genuine one, ansible-playbook keeps its words."""

    def __init__(self, tmp_path: Path, made: Bundle, proof: str, source: str) -> None:
        self._bundle, self._proof, self._source = made, proof, source
        self._home, self._said = tmp_path / "inside", tmp_path / "inside/said"
        program = self._home / "bin/ansible-playbook"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {self._said}\n')
        program.chmod(0o755)

    def _typed(self) -> str:
        return of_page() if self._source == "page" else of_readme(self._bundle)

    def follow(self) -> bool:
        """Follow the recipe as it is written now, and tell whether it came to its end."""
        first, *others = self._typed().splitlines()
        assert first.startswith("BUNDLE=")
        told = f"BUNDLE={self._bundle.path} DIGEST={self._proof}"
        there = {
            "PATH": f"{self._home}/bin:{os.environ['PATH']}",
            "HOME": str(self._home),
            "ANSIBLE_COLLECTIONS_PATH": str(self._home / "collections"),
        }
        done = subprocess.run(
            ["bash", "-c", "\n".join([told, *others])],
            cwd=self._home,
            env={**os.environ, **there},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode == 0

    def installed(self) -> set[str]:
        found = self._home.glob("collections/ansible_collections/*/*")
        return {f"{one.parent.name}.{one.name}" for one in found if one.is_dir()}

    def asked(self) -> list[str]:
        """Return what the playbook was given."""
        return self._said.read_text().split() if self._said.exists() else []


@pytest.fixture
def proof(made: Bundle) -> str:
    return str(made.make()["sha256"])


@pytest.fixture(params=["page", "README"])
def inside(tmp_path: Path, made: Bundle, proof: str, request: pytest.FixtureRequest) -> Inside:
    return Inside(tmp_path, made, proof, request.param)


def test_the_page_and_the_readme_say_the_same(made: Bundle) -> None:
    made.make()
    assert of_readme(made).splitlines()[1:] == of_page().splitlines()[1:]


def test_a_bundle_as_it_was_made_is_installed_and_verified_by_its_digest(
    made: Bundle, inside: Inside, proof: str
) -> None:
    assert inside.follow()
    assert inside.installed() == {"gpu.node"}
    given = ("bundle_state=verified", f"bundle_path={made.path}", f"bundle_sha256={proof}")
    assert inside.asked() == ["gpu.node.bundle", *(word for one in given for word in ("-e", one))]


CHANGES: dict[str, Callable[[Path], object]] = {
    "tampered": lambda path: (path / f"wheels/{GENUINE}").write_bytes(b"evil"),
    "tampered with its lists": lambda path: forged(path, PACKAGES, b"evil\n"),
    "missing": lambda path: (path / PACKAGES).unlink(),
    "no sums": lambda path: (path / SUMS).unlink(),
    "a line that is none": lambda path: (path / SUMS).write_text("evil\n"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.attack("bundle-runs-before-its-digest")
def test_nothing_of_a_bundle_is_used_that_was_changed(
    made: Bundle, inside: Inside, name: str
) -> None:
    CHANGES[name](made.path)
    assert not inside.follow()
    assert (inside.installed(), inside.asked()) == (set(), [])


@pytest.mark.attack("bundle-runs-before-its-digest")
def test_what_was_added_is_not_used_and_then_refused_by_its_name(
    made: Bundle, inside: Inside, proof: str, tmp_path: Path
) -> None:
    tarball.pack(tarball.read(str(release(tmp_path / "two", name="two"))), str(made.path / EVIL))
    # Ansible obeys the one of the folder that it runs in.
    (made.path / "ansible.cfg").write_text(f"[defaults]\nlog_path={tmp_path}/obeyed\n")
    assert inside.follow()
    assert inside.installed() == {"gpu.node"}
    assert not (tmp_path / "obeyed").exists()
    with pytest.raises(NodeError, match=rf"ansible\.cfg is not in .*; {EVIL} is not in"):
        made.verify(sha256=proof)
