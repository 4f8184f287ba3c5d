# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""S4: what a hostile index or wheelhouse gets installed on a node, by the genuine pip."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.library.hostile_index import (
    BUILD_TOOL,
    GENUINE,
    GOOD,
    REPOSITORY,
    SDIST,
    WITH_BUILD_TAG,
    Index,
    Install,
    hostile,
    listed,
    wheel,
)

HELPER = "helper-1.0-py3-none-any.whl"


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran-as"


def works(prefix: Path) -> bool:
    command = [str(prefix / "bin/gpu-plugin"), "--version"]
    return (
        "gpu-plugin" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize("way", ["index", pytest.param("wheelhouse", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("served", "said"),
    [
        ((GENUINE, WITH_BUILD_TAG), WITH_BUILD_TAG),
        ((GENUINE,), GENUINE),
        ((SDIST,), "No matching distribution found for tomlkit==0.15.2"),
    ],
    ids=["build-tag", "tampered", "sdist"],
)
def test_what_is_not_listed_is_not_installed(
    install: Install, tmp_path: Path, marker: Path, served: t.Tuple[str, ...], said: str, way: str
) -> None:
    files = {name: hostile(name, marker) for name in served}
    if WITH_BUILD_TAG in files:
        files[GENUINE] = GOOD  # which is there as well, and would do
    with Index(files if way == "index" else {}) as index:
        with pytest.raises(NodeError) as caught:
            install(index.url, files if way == "wheelhouse" else None)
    assert not marker.exists()
    assert said in str(caught.value)
    assert not (tmp_path / "prefix/current").exists()


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize(
    "served",
    [(GENUINE, WITH_BUILD_TAG), (GENUINE,), (SDIST,)],
    ids=["build-tag", "tampered", "sdist"],
)
def test_a_list_without_hashes_is_no_list(
    install: Install, marker: Path, served: t.Tuple[str, ...]
) -> None:
    files = {name: hostile(name, marker) for name in served}
    with Index(files) as index:
        with pytest.raises(NodeError) as caught:
            install(index.url, requirements=listed())
    assert not marker.exists()
    said = "No matching distribution found" if SDIST in served else "Hashes are required in"
    assert said in str(caught.value)


@pytest.mark.attack("wheel-replaced")
def test_a_genuine_wheelhouse_with_one_wheel_changed_is_refused(install: Install) -> None:
    made = REPOSITORY / ".cache/wheelhouse"
    if not (made / "stamp").exists():
        pytest.skip("no wheelhouse here; make one with make .cache/wheelhouse/stamp")
    wheels = {path.name: path.read_bytes() for path in made.glob("*.whl")}
    (name,) = [one for one in wheels if one.startswith("typing_extensions-")]
    wheels[name] += b"\n"  # which is no harm to a zip archive
    wanted = (REPOSITORY / "files/gpu_plugin/requirements.txt").read_text()
    with pytest.raises(NodeError, match="DO NOT MATCH THE HASHES") as caught:
        install(None, wheels, wanted)
    assert name in str(caught.value)


@pytest.mark.attack("wheel-replaced")
def test_nothing_is_built_on_the_node(install: Install, tmp_path: Path, marker: Path) -> None:
    files = {GENUINE: GOOD, BUILD_TOOL: hostile(BUILD_TOOL, marker)}
    with Index(files) as index:
        install(index.url)
    assert not marker.exists()
    assert [path for path in index.asked if "setuptools" in path] == []
    assert works(tmp_path / "prefix")


@pytest.mark.attack("wheel-replaced")
def test_a_listed_wheel_brings_nothing_that_is_not(
    install: Install, tmp_path: Path, marker: Path
) -> None:
    needy = wheel(GENUINE, {}, needs="Requires-Dist: helper\n")
    with Index({GENUINE: needy, HELPER: hostile(HELPER, marker)}) as index:
        install(index.url, requirements=listed(needy))
    assert not marker.exists()
    assert [path for path in index.asked if "helper" in path] == []
    assert works(tmp_path / "prefix")


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize("place", ["global", "user", "file", "environment"])
def test_the_nodes_own_pip_configuration_is_not_obeyed(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with Index({GENUINE: GOOD}) as ours, Index({GENUINE: GOOD}) as theirs:
        settings = tmp_path / "configuration/pip/pip.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"[global]\nextra-index-url = {theirs.url}\n")
        folders = {"global": "XDG_CONFIG_DIRS", "user": "XDG_CONFIG_HOME"}
        if place in folders:
            monkeypatch.setenv(folders[place], str(settings.parent.parent))
        elif place == "file":
            monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
        else:
            monkeypatch.setenv("PIP_EXTRA_INDEX_URL", theirs.url)
        install(ours.url)
    assert ours.asked
    assert theirs.asked == []
    assert works(tmp_path / "prefix")
