# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's repository beside Debian's archive on a played Debian 13, made known by somebody else (cuda-keyring)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    InputError,
    NodeError,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages import presets
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.packages.apt_nodes import Repository
from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import Deb
from tests.fakes.played.rooted import V100

TRIXIE = KERNELS["trixie"]
DEBIANS, NVIDIAS = "550.163.01", "595.71.05"


def nvidia_packages(version: str) -> tuple[Deb, ...]:
    """Return NVIDIA's packages for Debian 13, which have names of Debian's with relations of their own.

    The relations are those of NVIDIA's repository for Ubuntu; those for Debian were not seen.
    """
    full = f"{version}-1"
    depends = {
        "nvidia-driver-cuda": f"libcuda1 (= {full}), nvidia-persistenced (= {full})",
        "nvidia-persistenced": f"libnvidia-cfg1 (= {full})",
        "nvidia-kernel-open-dkms": "dkms",
        "nvidia-kernel-dkms": "dkms",
        "libcuda1": "",
        "libnvidia-cfg1": "",
        "libnvidia-ml1": "",
    }
    return tuple(
        Deb(name, full, (("Depends", needs),), component="contrib", suite="noble")
        for name, needs in depends.items()
    )


@pytest.fixture
def node(debian: Machines) -> PlayedDebian:
    return debian((*archive(TRIXIE, DEBIANS), *nvidia_packages(NVIDIAS)), TRIXIE)


@pytest.mark.parametrize("options", [{}, {"source": "distribution"}, {"version": "550"}])
def test_persistence_daemon_follows_the_version_of_the_driver(
    node: PlayedDebian, options: dict[str, Any]
) -> None:
    before = node.installed()
    promised = planned(node, **options)
    assert f"nvidia-persistenced ({DEBIANS}-1)" in str(promised.steps)
    assert converge(node, **options).steps == ()
    installed = node.installed()
    assert installed["nvidia-persistenced"] == f"{DEBIANS}-1"
    assert installed["libcuda1"] == f"{DEBIANS}-1"
    assert node.works()
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


@pytest.fixture
def cuda(tmp_path: Path, key: Key) -> Repository:
    """Return NVIDIA's repository for Debian 13, with the names that it has of its own."""
    repository = Repository(tmp_path / "cuda", key)
    for package in nvidia_packages(NVIDIAS):
        relations = [f"{name}: {value}" for name, value in package.fields if value]
        repository.add(package.name, package.version, *relations)
    repository.publish()
    return repository


@pytest.fixture
def knowing(debian: Machines, cuda: Repository) -> PlayedDebian:
    """Return a machine with a file of cuda-keyring's."""
    machine = debian(archive(TRIXIE, DEBIANS), TRIXIE)
    key = "usr/share/keyrings/cuda-archive-keyring.asc"
    machine.put(key, cuda.key.armoured)
    entry = f"deb [signed-by={machine.root / key}] {cuda.url} /\n"
    machine.put("etc/apt/sources.list.d/cuda-debian13-x86_64.list", entry)
    machine.apt("update")
    return machine


def from_cuda(cuda: Repository) -> dict[str, Any]:
    values = {"url": cuda.url, "key": cuda.key.armoured, "key_fingerprints": [], "suite": "/"}
    flags = {"components": [], "plain_http": False, "signed_metadata": False}
    return {"source": "repository", "repository": {**values, **flags}, "load": False}


def test_repository_in_another_file_is_used_as_it_is(
    knowing: PlayedDebian, cuda: Repository
) -> None:
    before = knowing.installed()
    promised = planned(knowing, **from_cuda(cuda))
    assert promised.steps[0].summary.startswith("use the entry that apt has for the repository")
    assert converge(knowing, **from_cuda(cuda)).steps == ()
    assert knowing.installed()["nvidia-driver-cuda"] == f"{NVIDIAS}-1"
    assert [path for path in PLACE.paths if knowing.exists(path)] == [PLACE.preferences]
    assert reported(knowing)["source"] == "repository"
    assert converge(knowing, load=False).steps == ()
    converge(knowing, state="absent")
    assert knowing.installed() == before


def test_version_of_the_repository_is_had_by_what_the_refusal_says(
    knowing: PlayedDebian, cuda: Repository
) -> None:
    with pytest.raises(InputError, match=r"version: '595'.*nvidia_driver_source: repository"):
        converge(knowing, source="distribution", version="595")
    assert converge(knowing, version="595", **from_cuda(cuda)).steps == ()
    assert knowing.installed()["nvidia-driver-cuda"] == f"{NVIDIAS}-1"


def test_sources_that_do_not_answer_keep_their_lists_in_check_mode(
    debian: Machines, cuda: Repository
) -> None:
    node = debian(archive(TRIXIE, DEBIANS), TRIXIE)
    node.apt("update")
    (node.root / "var/lib/apt/lists/auxfiles").mkdir(exist_ok=True)
    node.put("etc/apt/sources.list.d/site.list", "deb [trusted=yes] http://127.0.0.1:9/none ./\n")
    before = node.files()
    promised = planned(node, **from_cuda(cuda))
    assert f"nvidia-driver-cuda ({NVIDIAS}-1)" in str(promised.steps)
    assert node.files() == before
    assert converge(node, **from_cuda(cuda)).steps == ()


@pytest.fixture
def volta(
    debian: Machines, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> PlayedDebian:
    """Return a machine with a V100, for which NVIDIA's repository has later branches only."""
    machine = debian(archive(TRIXIE, DEBIANS), TRIXIE, gpu=V100)
    release = machine.read("/etc/os-release") or ""
    machine.put("etc/os-release", f'{release}VERSION_ID="13"\n')
    machine.answers["uname"] = Completed(0, "x86_64\n", "")
    repository = Repository(tmp_path / "debian13/x86_64", key)
    for package in nvidia_packages(NVIDIAS):
        repository.add(package.name, package.version)
    repository.publish()
    monkeypatch.setattr(presets, "CUDA", f"file://{tmp_path}")
    name, _machines = presets.FOLDERS["debian13"]
    monkeypatch.setitem(presets.PINNED, name, key.fingerprint)
    (repository.folder / f"{name}.pub").write_text(key.armoured)
    return machine


ENDED = {
    "as_of": "2026-01-01",
    "branches": {"550": {"end_of_support": "2020-01"}, "580": {"end_of_support": "2999-01"}},
    "bulletins": [],
}


def test_distributions_driver_is_taken_where_nvidias_repository_has_none_for_the_gpus(
    volta: PlayedDebian,
) -> None:
    before = volta.installed()
    promised = planned(volta, releases=ENDED)
    assert f"libcuda1 ({DEBIANS}-1)" in str(promised.steps)
    assert "source: auto has chosen branch 580" in str(promised.warnings)
    left = converge(volta, releases=ENDED)
    assert left.steps == ()
    assert volta.works()
    assert volta.installed()["libcuda1"] == f"{DEBIANS}-1"
    assert not [path for path in PLACE.paths if volta.exists(path)]
    (warning,) = [text for text in left.warnings if "source: auto" in text]
    assert "branch 580" in warning
    assert "595.71.05" in warning
    assert converge(volta, releases=ENDED).steps == ()
    converge(volta, state="absent")
    assert volta.installed() == before
    assert not [path for path in (OWN_SOURCES, RECORD) if volta.exists(path)]


def test_repository_goes_again_where_it_lacks_the_version_that_it_was_written_for(
    volta: PlayedDebian,
) -> None:
    before = volta.installed()
    for run in (planned, converge):
        with pytest.raises(InputError, match=r"version: '580'.*595\.71\.05"):
            run(volta, version="580", releases=ENDED)
    assert not [path for path in (*PLACE.paths, OWN_SOURCES, RECORD) if volta.exists(path)]
    assert volta.installed() == before


def test_repository_goes_again_where_it_has_no_driver_at_all(
    debian: Machines, tmp_path: Path, key: Key
) -> None:
    machine = debian(archive(TRIXIE, DEBIANS), TRIXIE)
    repository = Repository(tmp_path / "other", key)
    repository.add("something", "1")
    repository.publish()
    before = machine.installed()
    for run in (planned, converge):
        with pytest.raises(NodeError, match=r"package sources have no .*nvidia-driver-cuda"):
            run(machine, **from_cuda(repository))
    assert not [path for path in (*PLACE.paths, OWN_SOURCES, RECORD) if machine.exists(path)]
    assert machine.installed() == before
    assert converge(machine, source="distribution").steps == ()
