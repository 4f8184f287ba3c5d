# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Bundles that are really made, by the genuine pip, and the collection's tarball that ansible-galaxy installs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import wheels_of

from tests.fakes.library.bundles_made import GENUINE, OLD, PLUGIN, X509, Bundle, release
from tests.fakes.library.hostile_index import Index


def test_a_bundle_has_wheels_collection_packages_and_how_to_use_it(
    made: Bundle,
) -> None:
    first = made.make()
    lists = {one for one in made.files() if one.startswith("packages/")}
    assert made.files() - lists == {
        *("README.md", "SHA256SUMS", "bundle.json", "collections/gpu-node-0.3.0.tar.gz"),
        *(f"wheels/{GENUINE}", f"webhook-wheels/{X509}"),
    }
    assert {"packages/debian-13.txt", "packages/rhel-family-9.txt"} <= lists
    words = ("sha256sum", "--check", "--strict", "SHA256SUMS")
    done = subprocess.run(words, cwd=made.path, check=True, capture_output=True, text=True)
    assert done.stdout.count(": OK\n") == len(made.files()) - 1
    made.verify(sha256=first["sha256"])
    assert first["files"] == len(made.files())


def test_its_wheels_are_a_wheelhouse(bundle: Bundle) -> None:
    bundle.make(pythons=["3.10", "3.13"])
    found = wheels_of(
        str(bundle.path / "wheels"), str(bundle.collection / PLUGIN / "requirements.txt")
    )
    assert set(found) == {f"wheels/{GENUINE}", f"wheels/{OLD}"}


@pytest.mark.parametrize(("python", "wanted"), [("3.10", True), ("3.11", False)])
def test_markers_are_those_of_the_nodes_python(bundle: Bundle, python: str, wanted: bool) -> None:
    """pip compares them with the Python that it runs on itself, whatever --python-version says."""
    bundle.make(pythons=[python], webhook=False)
    assert (f"wheels/{OLD}" in bundle.files()) == wanted


def test_a_second_run_asks_nobody_and_changes_nothing(made: Bundle, index: Index) -> None:
    made.make()
    before = {one: (made.path / one).stat().st_mtime_ns for one in made.files()}
    index.asked.clear()
    made.make()
    assert not index.asked
    assert before == {one: (made.path / one).stat().st_mtime_ns for one in made.files()}


def test_what_was_lost_is_made_again_and_said(made: Bundle) -> None:
    made.make()
    (made.path / f"wheels/{GENUINE}").unlink()
    assert f"wheels/{GENUINE} is missing" in made.plan().steps[0].summary
    made.make()
    made.verify()


@pytest.mark.long
def test_other_pythons_make_another_bundle(bundle: Bundle) -> None:
    first = bundle.make()
    assert bundle.make(pythons=["3.10"])["sha256"] != first["sha256"]


@pytest.mark.long
def test_a_run_that_was_killed_leaves_the_bundle_before_it(made: Bundle) -> None:
    first = made.make()
    late = made.capability(pythons=["3.10"])
    for step in late.plan(late.observe()).steps[:-1]:  # all but putting it in place
        late.apply(step)
    made.verify(sha256=first["sha256"])
    made.make(pythons=["3.10"])
    assert set(os.listdir(made.path.parent)) == {"bundle", "installed"}


@pytest.mark.attack("bundle-made-in-a-folder-of-others")
def test_a_bundle_is_made_where_nobody_else_can_write(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below /tmp others can make folders at any time, whose owners they stay."""
    before = set(bundle.path.parent.iterdir())
    one = bundle.capability()
    *steps, publish = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    (made,) = set(bundle.path.parent.iterdir()) - before
    assert (stat.S_IMODE(made.stat().st_mode), made.stat().st_uid) == (0o700, os.geteuid())
    assert stat.S_IMODE(next(made.iterdir()).stat().st_mode) == 0o755
    bundle.path.mkdir()
    (bundle.path / "evil").touch()
    monkeypatch.setattr(
        Host, "exists", lambda *_: False
    )  # when it was looked for, it was not there
    with pytest.raises(NodeError, match=r"can't be put in place as .*/bundle: .*not empty"):
        one.apply(publish)
    assert os.listdir(bundle.path) == ["evil"]


def test_no_folder_of_others_is_used_or_removed(bundle: Bundle) -> None:
    theirs = Path(f"{bundle.path}.new")
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    bundle.make()
    assert (theirs / "thesis.tex").read_text() == "years of work"


def test_the_tarball_is_one_that_ansible_galaxy_installs(made: Bundle, tmp_path: Path) -> None:
    made.make()
    galaxy = Path(sys.executable).parent / "ansible-galaxy"
    words = ("collection", "install", "--offline", "--collections-path", str(tmp_path / "there"))
    tarball = str(made.path / "collections/gpu-node-0.3.0.tar.gz")
    subprocess.run([galaxy, *words, tarball], check=True, capture_output=True)
    there = tmp_path / "there/ansible_collections/gpu/node"
    program = there / "plugins/run.sh"
    assert program.read_text() == "#!/bin/sh\n"
    assert os.access(program, os.X_OK)
    # What was installed from it can be bundled again, and is the same.
    again = Bundle(tmp_path / "again", there)
    again.make()
    assert (
        Path(tarball).read_bytes()
        == (again.path / "collections/gpu-node-0.3.0.tar.gz").read_bytes()
    )
    assert Bundle(made.path, Path(tarball)).plan().steps == ()


def test_collections_that_it_needs_come_along(bundle: Bundle, tmp_path: Path) -> None:
    own = release(tmp_path / "other/gpu/node", needs=("gpu.tools",))
    other = Bundle(tmp_path / "both", own)
    with pytest.raises(NodeError, match=r"collection: .*/other/gpu/tools' is not valid"):
        other.make()
    release(own.parent / "tools", name="tools")
    other.make()
    assert {
        "collections/gpu-node-0.3.0.tar.gz",
        "collections/gpu-tools-0.3.0.tar.gz",
    } <= other.files()


def test_a_collection_that_was_changed_is_not_bundled(bundle: Bundle) -> None:
    (bundle.collection / "plugins/run.sh").write_text("#!/bin/sh\nevil\n")
    with pytest.raises(NodeError, match=r"plugins/run.sh was changed after the release"):
        bundle.make()
    (bundle.collection / "plugins/run.sh").unlink()
    with pytest.raises(NodeError, match=r"plugins/run.sh is missing"):
        bundle.make()


def test_a_checkout_is_to_be_built_first(tmp_path: Path, index: Index) -> None:
    with pytest.raises(NodeError) as caught:
        Bundle(tmp_path / "bundle", tmp_path / "checkout").make()
    assert "expected an installed collection or the tarball of one" in str(caught.value)
    assert "Next step: build its tarball with 'ansible-galaxy collection build'" in str(
        caught.value
    )


def test_an_index_that_does_not_answer_is_said(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(NodeError) as caught:
        bundle.make()
    said = str(caught.value)
    assert said.startswith(
        "the wheels for Python 3.11 on x86_64 can't be fetched: the package index does not answer"
    )
    assert "PIP_INDEX_URL, HTTPS_PROXY and REQUESTS_CA_BUNDLE" in said
    assert not bundle.path.exists()


def test_a_wheel_with_another_hash_is_not_collected(bundle: Bundle, index: Index) -> None:
    index.files[GENUINE] = index.files[GENUINE] + b"tampered"
    with pytest.raises(NodeError, match="DO NOT MATCH THE HASHES"):
        bundle.make()
    assert not bundle.path.exists()
