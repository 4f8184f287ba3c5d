# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the controller sends to the node."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpu.node.plugins.action.device_plugin import ActionModule
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import (
    collect,
    fingerprint,
    pack,
    package,
)

from tests.support.paths import REPOSITORY


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in (
        "pyproject.toml",
        "src/gpu_plugin/main.py",
        "src/gpu_plugin/__pycache__/main.pyc",
        "src/gpu_plugin.egg-info/PKG-INFO",
        "build/lib/main.py",
        ".mypy_cache/x",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (tmp_path / "shared.py").write_text("# shared\n")
    (root / "src/gpu_plugin/shared.py").symlink_to(tmp_path / "shared.py")
    return root


def test_sources_are_collected_and_leavings_are_not(tree: Path) -> None:
    assert sorted(collect(str(tree), "package")) == [
        "package/pyproject.toml",
        "package/src/gpu_plugin/main.py",
        "package/src/gpu_plugin/shared.py",
    ]


def test_archive_depends_on_names_and_contents_alone(tree: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.tar.gz", tmp_path / "2.tar.gz"
    files = collect(str(tree), "package")
    pack(files, str(first))
    before = fingerprint(files, "1")
    for path in files.values():
        os.utime(path, (1, 1))
        Path(path).chmod(0o600)
    pack(collect(str(tree), "package"), str(second))
    assert first.read_bytes() == second.read_bytes()
    assert fingerprint(collect(str(tree), "package"), "1") == before


def test_archive_holds_files_in_place_of_links(tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "payload.tar.gz"
    pack(collect(str(tree), "package"), str(path))
    with tarfile.open(path) as archive:
        assert all(entry.isreg() and entry.mode == 0o644 for entry in archive)
        member = archive.extractfile("package/src/gpu_plugin/shared.py")
        assert member is not None
        assert member.read() == b"# shared\n"


@pytest.mark.parametrize("change", ["content", "name", "release"])
def test_every_change_has_its_own_fingerprint(tree: Path, change: str) -> None:
    before = fingerprint(collect(str(tree), "package"), "1")
    source = tree / "src/gpu_plugin/main.py"
    if change == "content":
        source.write_text("# other\n")
    elif change == "name":
        source.rename(source.with_name("other.py"))
    after = fingerprint(collect(str(tree), "package"), "2" if change == "release" else "1")
    assert after != before


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a copy of the packages of nodes and cluster."""
    for name in ("gpu_plugin", "gpu_cluster"):
        shutil.copytree(REPOSITORY / "files" / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "gpu_plugin/README.md",
        "gpu_plugin/Containerfile",
        "gpu_plugin/pyproject.toml",
        "gpu_plugin/tests/test_daemon.py",
        "gpu_plugin/src/gpu_plugin/proto/v1beta1/api.proto",
        "gpu_plugin/src/gpu_plugin/proto/v1beta1/api_pb2.pyi",
        "gpu_cluster/requirements.txt",
        "gpu_cluster/src/gpu_cluster/webhook/limits.py",
    ],
)
def test_what_does_not_run_on_a_node_makes_no_other_release(files: Path, name: str) -> None:
    before = package(str(files / "gpu_plugin"))
    (files / name).parent.mkdir(exist_ok=True)
    with (files / name).open("a") as stream:
        stream.write("# one line more\n")
    after = package(str(files / "gpu_plugin"))
    assert (after.digest, after.units) == (before.digest, before.units)


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "src/gpu_plugin/daemon.py",
        "src/gpu_plugin/_shared/_base/errors.py",
        "src/gpu_plugin/proto/v1beta1/api.binpb",
        "systemd/gpu-mps.service",
    ],
)
def test_what_runs_on_a_node_makes_another_release(files: Path, name: str) -> None:
    root = files / "gpu_plugin"
    before = package(str(root))
    with (root / name).open("a") as stream:
        stream.write("# one line more\n")
    after = package(str(root))
    assert after.digest != before.digest
    assert {unit for unit in after.units if after.units[unit] != before.units[unit]} == set(
        before.units
    )


def test_a_node_is_sent_what_runs_there_alone() -> None:
    sent = package(str(REPOSITORY / "files/gpu_plugin")).files
    kinds = {Path(name).suffix for name in sent if name.startswith("package/src/gpu_plugin/")}
    assert kinds == {".py", ".binpb"}
    others = {name for name in sent if not name.startswith("package/src/gpu_plugin/")}
    assert others == {"package/requirements.txt"}


def asked_of_the_node(**args: str) -> dict[str, Any]:
    """Return what the module is given by the action on a node that has the release already."""
    action, asked = object.__new__(ActionModule), {}
    action._task = SimpleNamespace(args=args)

    def module(args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        asked.update(args)
        return {"changed": False}

    action._module = module
    action.run(None, {})
    return asked


def test_where_wheels_come_from_makes_no_other_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newcomer 1.4: two colleagues, one with a wheelhouse and one without, must not undo each other's work."""
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    data = b"a wheel"
    wheel = tmp_path / "wheels/tomlkit-0.15.2-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(data)
    package = tmp_path / "package"
    shutil.copytree(REPOSITORY / "files/gpu_plugin/systemd", package / "systemd")
    (package / "pyproject.toml").touch()
    listed = package / "requirements.txt"
    listed.write_text(f"tomlkit==0.15.2 --hash=sha256:{hashlib.sha256(data).hexdigest()}\n")
    without = asked_of_the_node(package=str(package))
    given = asked_of_the_node(package=str(package), wheelhouse=str(wheel.parent))
    assert given["digest"] == without["digest"]
    assert given["units"] == without["units"]
    listed.write_text(f"{listed.read_text()}# other libraries make another release\n")
    assert asked_of_the_node(package=str(package))["digest"] != without["digest"]


ANY, STABLE = (
    "requests-2.34.2-py3-none-any.whl",
    "protobuf-7.36.2-cp310-abi3-manylinux2014_x86_64.whl",
)
LINUX = "manylinux2014_{0}.manylinux_2_17_{0}"
OWN = f"pyyaml-6.0.3-cp313-cp313-{LINUX.format('x86_64')}.whl"
OTHERS = (
    f"pyyaml-6.0.3-cp311-cp311-{LINUX.format('x86_64')}.whl",
    f"pyyaml-6.0.3-cp313-cp313t-{LINUX.format('x86_64')}.whl",
    f"pyyaml-6.0.3-cp313-cp313-{LINUX.format('aarch64')}.whl",
    "protobuf-7.36.2-cp314-abi3-manylinux2014_x86_64.whl",
    "protobuf-7.36.2-cp310-abi3-manylinux2014_aarch64.whl",
)


def sent_to_the_node(folder: Path, wheels: tuple[str, ...], **python: str) -> set[str]:
    """Return which wheels the action sends where the module answers that the release is missing."""
    lines: dict[str, str] = {}
    (folder / "wheels").mkdir()
    for name in wheels:
        (folder / "wheels" / name).write_text(name)
        project, version = name.split("-")[:2]
        digest = hashlib.sha256(name.encode()).hexdigest()
        start = lines.get(project, f"{project}=={version}")
        lines[project] = f"{start} --hash=sha256:{digest}"
    root = folder / "package"
    shutil.copytree(REPOSITORY / "files/gpu_plugin/systemd", root / "systemd")
    (root / "pyproject.toml").touch()
    (root / "requirements.txt").write_text("\n".join(lines.values()) + "\n")
    action, sent = object.__new__(ActionModule), set()
    args = {"package": str(root), "wheelhouse": str(folder / "wheels")}
    action._task = SimpleNamespace(args=args)
    action._module = lambda *_given: {"failed": True, "payload_needed": python}
    action._send = lambda files, *_given: sent.update(files)
    action.run(None, {})
    return {Path(name).name for name in sent if name.startswith("wheels/")}


def test_a_node_is_sent_the_wheels_of_its_own_python_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    sent = sent_to_the_node(tmp_path, (ANY, STABLE, OWN, *OTHERS), python="3.13", machine="x86_64")
    assert sent == {ANY, STABLE, OWN}


def test_a_wheelhouse_without_a_wheel_for_the_nodes_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing sent, the node would ask an index."""
    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    with pytest.raises(AnsibleActionFail, match=r"no wheel for Python 3\.13 on x86_64") as caught:
        sent_to_the_node(tmp_path, OTHERS, python="3.13", machine="x86_64")
    assert "Next step: " in str(caught.value)
