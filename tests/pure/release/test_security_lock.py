# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""S4: the lists of wheels as they are committed. `make lock-check` compares them with the index."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.lock_closure import Place, applies, pinned, unmet
from tests.lock_wheels import MACHINES, logical
from tests.support.paths import REPOSITORY

DAEMON, DEVELOPERS = "files/gpu_plugin/requirements.txt", "requirements-dev.txt"
SIMULATED, WEBHOOK = (
    "tests/fakes/node/site-requirements.txt",
    "files/gpu_cluster/requirements.txt",
)
BUILD = "files/gpu_cluster/requirements-build.txt"
PACKAGES = {"gpu_plugin": (DAEMON,), "gpu_cluster": (DAEMON, WEBHOOK, BUILD)}
PYTHONS = {DAEMON: range(10, 15), DEVELOPERS: range(11, 15), SIMULATED: range(11, 14)}
PYTHONS |= {WEBHOOK: PYTHONS[DAEMON], BUILD: PYTHONS[DAEMON]}
ENVIRONMENTS = {
    "core-2.19": range(11, 14),
    "core-2.20": range(12, 15),
    "core-2.21": range(12, 15),
    "prose": range(11, 14),
    "release": range(11, 14),
    "ee": range(12, 14),
    "target": range(9, 15),
}
PYTHONS |= {f"tests/environments/{name}.txt": one for name, one in ENVIRONMENTS.items()}
# Few of their packages need others, or are installed here at their version.
FEW = (
    SIMULATED,
    WEBHOOK,
    BUILD,
    *(name for name in PYTHONS if name.startswith("tests/environments/")),
)
HASHED = re.compile(r"[^#\s].*(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


def text(name: str) -> str:
    return (REPOSITORY / name).read_text()


def requirements(name: str) -> list[Requirement]:
    return [Requirement(line) for line in logical(text(name))]


def places(name: str) -> list[Place]:
    return [(minor, machine) for minor in PYTHONS[name] for machine in MACHINES]


def known(requirement: Requirement) -> list[Requirement]:
    """Return what a package needs, where the version that is listed is installed here."""
    try:
        found = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return []
    needed = found.requires or () if found.version == pinned(requirement) else ()
    return [Requirement(one) for one in needed]


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize("name", PYTHONS)
def test_each_package_is_listed_with_hashes_and_nothing_else_is(name: str) -> None:
    content = re.sub(r"^#.*\n", "", text(name), flags=re.MULTILINE)
    assert HASHED.sub("", content) == ""
    hashes = re.findall(r"sha256:(\w+)", content)
    assert len(hashes) == len(set(hashes))


@pytest.mark.attack("wheel-replaced")
@pytest.mark.parametrize("name", PYTHONS)
def test_the_list_is_complete_for_each_python_and_machine(name: str) -> None:
    listed = {one: known(one) for one in requirements(name)}
    known_needs = len([one for one in listed.values() if one])
    if name != BUILD and not name.endswith("target.txt"):  # whose one package needs none
        assert known_needs > (0 if name in FEW else 5)  # packages that need others
    assert list(unmet(listed, places(name))) == []


@pytest.mark.attack("wheel-replaced")
def test_a_list_that_lacks_something_is_told() -> None:
    listed = {one: known(one) for one in requirements(DAEMON) if one.name != "multidict"}
    wanting = list(unmet(listed, places(DAEMON)))
    assert {one.split(",")[0] for one in wanting} == {f"on Python 3.{n}" for n in PYTHONS[DAEMON]}
    assert any("aiohttp needs multidict" in one for one in wanting)


@pytest.mark.attack("wheel-replaced")
def test_what_the_packages_say_they_need_is_what_is_listed() -> None:
    for package, lists in PACKAGES.items():
        project = tomllib.loads(text(f"files/{package}/pyproject.toml"))["project"]
        given = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
        named = [one for one in map(Requirement, given) if one.name != "gpu-plugin"]
        wanted = {canonicalize_name(r.name): pinned(r) for r in named}
        for place in places(DAEMON):
            here = [one for name in lists for one in requirements(name) if applies(one, place)]
            assert wanted.items() <= {canonicalize_name(r.name): pinned(r) for r in here}.items()


@pytest.mark.attack("wheel-replaced")
def test_tests_run_what_nodes_run() -> None:
    ours = {canonicalize_name(r.name): pinned(r) for r in requirements(DEVELOPERS)}
    nodes = [one for one in requirements(DAEMON) if applies(one, (14, "x86_64"))]
    assert {n: v for n, v in ours.items() if n in {canonicalize_name(r.name) for r in nodes}} == {
        canonicalize_name(r.name): pinned(r) for r in nodes
    }
