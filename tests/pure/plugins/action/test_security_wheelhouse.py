# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""S4: a wheelhouse that somebody has been at is refused on the controller, by the name of the file."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import package as release

from tests.fakes.library.hostile_index import (
    BUILD_TOOL,
    GENUINE,
    GOOD,
    REPOSITORY,
    SDIST,
    WITH_BUILD_TAG,
    hostile,
)

PACKAGE = REPOSITORY / "files/gpu_plugin"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the daemon's tree, whose list names a wheel that is made here."""
    folder = tmp_path / "package"
    shutil.copytree(PACKAGE / "systemd", folder / "systemd")
    (folder / "pyproject.toml").touch()
    digest = hashlib.sha256(GOOD).hexdigest()
    (folder / "requirements.txt").write_text(f"tomlkit==0.15.2 \\\n    --hash=sha256:{digest}\n")
    return folder


def sent(package: Path, wheelhouse: Path) -> set[str]:
    """Return which wheels the action would send."""
    files = release(str(package), str(wheelhouse)).files
    return {name for name in files if name.startswith("wheels/")}


def folder(tmp_path: Path, **files: bytes) -> Path:
    found = tmp_path / "wheelhouse"
    found.mkdir()
    for name, data in files.items():
        (found / name).write_bytes(data)
    return found


@pytest.mark.attack("wheel-replaced")
def test_a_wheelhouse_of_listed_wheels_is_sent(package: Path, tmp_path: Path) -> None:
    wheelhouse = folder(tmp_path, **{GENUINE: GOOD, "stamp": b"", "README": b"ours"})
    assert sent(package, wheelhouse) == {f"wheels/{GENUINE}"}


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (WITH_BUILD_TAG, "has a build tag (9), and no wheel that is listed has one"),
        (GENUINE, "has another content (sha256 "),
        (SDIST, "is not a wheel, and nothing is built on a node"),
        ("tomlkit-0.15.2.zip", "is not a wheel, and nothing is built on a node"),
        (BUILD_TOOL, "is of a package that the device plugin does not need"),
        ("tomlkit-0.15.3-py3-none-any.whl", "is not of the version that is listed, 0.15.2"),
        ("tomlkit.whl", "is not the name of a wheel"),
    ],
)
def test_a_file_that_is_not_listed_is_refused_by_name(
    package: Path, tmp_path: Path, name: str, said: str
) -> None:
    data = hostile(name if name.endswith(".whl") and "-" in name else SDIST, tmp_path / "marker")
    wheelhouse = folder(tmp_path, **{GENUINE: GOOD, name: data})
    with pytest.raises(NodeError) as caught:
        sent(package, wheelhouse)
    assert f"wheelhouse: '{wheelhouse}' is not valid: {name} {said}" in str(caught.value)
    assert "Next step: recreate the folder with 'pip download --require-hashes" in str(caught.value)


@pytest.mark.attack("wheel-replaced")
def test_a_listed_wheel_under_another_name_is_refused(package: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="has a build tag"):
        sent(package, folder(tmp_path, **{WITH_BUILD_TAG: GOOD}))


@pytest.mark.attack("wheel-replaced")
def test_each_refused_file_is_named_but_no_long_list(package: Path, tmp_path: Path) -> None:
    bad = {f"evil{n}-1-py3-none-any.whl": b"" for n in range(9)}
    with pytest.raises(NodeError) as caught:
        sent(package, folder(tmp_path, **bad))
    assert str(caught.value).count("does not need") == 5
    assert "and 4 more" in str(caught.value)


@pytest.mark.attack("wheel-replaced")
def test_a_daemons_tree_without_its_list_is_refused(package: Path, tmp_path: Path) -> None:
    (package / "requirements.txt").unlink()
    with pytest.raises(NodeError, match="expected the device plugin's source tree"):
        sent(package, folder(tmp_path, **{GENUINE: GOOD}))


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_folder_without_wheels_is_refused(package: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NodeError, match="expected a folder with wheels"):
        sent(package, tmp_path / name)


@pytest.mark.attack("wheel-replaced")
def test_the_wheelhouse_that_make_makes_is_accepted() -> None:
    made = REPOSITORY / ".cache/wheelhouse"
    if not (made / "stamp").exists():
        pytest.skip("no wheelhouse here; make one with make .cache/wheelhouse/stamp")
    assert len(sent(PACKAGE, made)) > 30
