# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A bundle that somebody has been at is refused by the name of the file; folders of others stay as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._bundle.manifest import (
    LIST,
    SUMS,
    File,
    Manifest,
    parse,
    render,
    sums,
)

from tests.fakes.library.bundles_made import GENUINE, Bundle, digest, release

WHEEL = f"wheels/{GENUINE}"
PACKAGES = "packages/debian-13.txt"
Change = Callable[[Path], object]


def forged(path: Path, name: str, data: bytes) -> None:
    """Change a file as somebody would who also changes the lists."""
    (path / name).write_bytes(data)
    made = parse((path / LIST).read_text(), "")
    made = Manifest(made.made_of, {**made.files, name: File(digest(data), len(data))})
    (path / LIST).write_text(render(made))
    (path / SUMS).write_text(sums(made))


def replaced_by_a_link(path: Path) -> None:
    shutil.move(path / WHEEL, path.parent / "elsewhere")
    (path / WHEEL).symlink_to(path.parent / "elsewhere")


CHANGES: dict[str, tuple[Change, str]] = {
    "content": (
        lambda p: (p / WHEEL).write_bytes(b"evil"),
        f"{WHEEL} has another content (sha256 ",
    ),
    "missing": (lambda p: (p / WHEEL).unlink(), f"{WHEEL} is missing"),
    "extra wheel": (
        lambda p: (p / "wheels/evil-1-py3-none-any.whl").write_bytes(b"evil"),
        "wheels/evil-1-py3-none-any.whl is not in bundle.json",
    ),
    "list of packages": (
        lambda p: (p / PACKAGES).write_text("evil\n"),
        f"{PACKAGES} has another content",
    ),
    "link": (replaced_by_a_link, f"{WHEEL} is a link, and a bundle has none"),
    "folder that is a link": (
        lambda p: (p / "more").symlink_to("/usr"),
        "more is not in bundle.json",
    ),
    "sums": (lambda p: (p / SUMS).write_text(""), "SHA256SUMS is not the one of bundle.json"),
    "no sums": (lambda p: (p / SUMS).unlink(), "SHA256SUMS is missing"),
    "lists too": (
        lambda p: forged(p, WHEEL, b"evil"),
        f"{GENUINE} has another content (sha256 ",
    ),
    "a wheel and the lists": (
        lambda p: forged(p, "wheels/evil-1-py3-none-any.whl", b"evil"),
        "evil-1-py3-none-any.whl is of a package that the device plugin does not need",
    ),
    "a source archive and the lists": (
        lambda p: forged(p, "wheels/tomlkit-0.15.2.tar.gz", b"evil"),
        "tomlkit-0.15.2.tar.gz is not a wheel, and nothing is built on a node",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_tampered_bundles_are_refused_by_the_files_name(made: Bundle, name: str) -> None:
    made.make()
    made.verify()
    change, said = CHANGES[name]
    change(made.path)
    with pytest.raises(NodeError) as caught:
        made.verify()
    assert said in str(caught.value)
    assert "Next step: fetch the bundle again" in str(caught.value)


def test_one_whose_lists_were_changed_too_is_not_the_one_that_was_asked_for(
    made: Bundle,
) -> None:
    proof = made.make()["sha256"]
    forged(made.path, PACKAGES, b"evil\n")
    made.verify()  # nothing here could tell
    with pytest.raises(NodeError, match="is not the one that was asked for"):
        made.verify(sha256=proof)


def test_a_bundle_of_another_release_is_told_from_a_tampered_one(
    made: Bundle, tmp_path: Path
) -> None:
    made.make()
    listed = {"files/gpu_plugin/requirements.txt": "tomlkit==0.16.0 --hash=sha256:" + "0" * 64}
    newer = Bundle(made.path, release(tmp_path / "newer/gpu/node", **listed))
    with pytest.raises(NodeError) as caught:
        newer.verify()
    assert "is for gpu.node 0.3.0, whose list of wheels is another" in str(caught.value)
    assert "Next step: install the collection that the bundle holds" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "made_of": {}, "files": 3}']
)
def test_a_damaged_manifest_is_said(made: Bundle, text: str) -> None:
    made.make()
    (made.path / LIST).write_text(text)
    with pytest.raises(NodeError, match=r"bundle.json is damaged"):
        made.verify()


def test_a_later_format_is_said(made: Bundle) -> None:
    made.make()
    whole = json.loads((made.path / LIST).read_text())
    (made.path / LIST).write_text(json.dumps({**whole, "format": 2}))
    with pytest.raises(NodeError, match="a bundle of format 2"):
        made.verify()


def test_nothing_is_taken_from_anybody(bundle: Bundle) -> None:
    bundle.path.mkdir()
    (bundle.path / "thesis.tex").write_text("years of work")
    with pytest.raises(NodeError) as caught:
        bundle.make()
    assert "has files that are not of a bundle: thesis.tex" in str(caught.value)
    (bundle.path / "thesis.tex").rename(bundle.path.parent / "thesis.tex")
    bundle.make()
    (bundle.path.parent / "thesis.tex").rename(bundle.path / "thesis.tex")
    with pytest.raises(NodeError, match=r"thesis\.tex"):
        bundle.make(pythons=["3.10"])
    assert (bundle.path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "path: '' is not valid: expected a folder on this machine"),
        ({"path": "/"}, "path: '/' is not valid"),
        ({"pythons": ["3.1"]}, "pythons[0]: '3.1' is not valid: expected one of 3.10, 3.11"),
        ({"pythons": ["3.11", "3.9"]}, "pythons[1]: '3.9' is not valid"),
        ({"pythons": []}, "pythons: [] is not valid"),
        (
            {"architectures": ["arm64"]},
            "architectures[0]: 'arm64' is not valid: expected one of x86_64, aarch64",
        ),
        ({"sha256": "abc"}, "sha256: 'abc' is not valid: expected 64 hexadecimal digits"),
    ],
)
def test_bad_options_are_refused_at_once(
    bundle: Bundle, options: dict[str, object], said: str
) -> None:
    with pytest.raises(NodeError) as caught:
        bundle.make(**options)
    assert said in str(caught.value)


def test_what_is_no_bundle_is_not_verified(bundle: Bundle) -> None:
    with pytest.raises(NodeError, match=r"is no bundle: it has no bundle\.json"):
        bundle.verify()


def test_an_image_that_is_not_there_is_refused_before_anything_is_fetched(
    made: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(NodeError) as caught:
        made.plan(images=["localhost/no-such-image"])
    assert "images: 'localhost/no-such-image' is not valid: expected the path of an archive" in str(
        caught.value
    )
    archive = tmp_path / "gpu-plugin.tar"
    archive.write_bytes(b"an image")
    made.make(images=[str(archive)])
    assert (made.path / "images/gpu-plugin.tar").read_bytes() == b"an image"
    archive.write_bytes(b"another")
    assert made.plan(images=[str(archive)]).steps
