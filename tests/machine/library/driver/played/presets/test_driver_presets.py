# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A preset on a mirror with NVIDIA's layout, through the genuine apt, dnf and zypper, in a folder.

The mirror is signed by a key of the test, whose fingerprint takes the place of NVIDIA's by the user's own word.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages import presets
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE

from tests.fakes.packages.apt_nodes import AptNode, Repository
from tests.fakes.packages.apt_nodes import missing as missing_apt
from tests.fakes.packages.driver_runs import capability, converge, planned, reported
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import RpmNode, repository
from tests.fakes.packages.rpm_nodes import missing as missing_rpm

VERSION = "580.95.05"
# The system: what os-release says, the folder, and the manager and the name of the kernel modules' package.
OS_RELEASE = 'ID="{}"\nVERSION_ID="{}"\nVERSION_CODENAME={}\nPRETTY_NAME="played"\n'
SYSTEMS = {
    "debian12": (OS_RELEASE.format("debian", "12", "bookworm"), "apt-get"),
    "ubuntu2404": (OS_RELEASE.format("ubuntu", "24.04", "noble"), "apt-get"),
    "rhel9": (OS_RELEASE.format("rocky", "9.6", "none"), "dnf"),
    "sles15": (OS_RELEASE.format("sles", "15.6", "none"), "zypper"),
}
KEYS = {"debian12": "3bf863cc", "ubuntu2404": "3bf863cc", "rhel9": "D42D0685", "sles15": "D42D0685"}
DEBIAN = ("nvidia-driver-cuda", "libcuda1", "libnvidia-ml1", "nvidia-persistenced")
UBUNTU = tuple(
    f"{one}-580" for one in ("libnvidia-compute", "nvidia-utils", "nvidia-compute-utils")
)
KERNEL = {"debian12": ("nvidia-kernel{}-dkms", DEBIAN), "ubuntu2404": ("nvidia-dkms-580{}", UBUNTU)}


class Served(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what was asked for."""

    asked: ClassVar[list[str]] = []

    def log_request(self, *_values: object) -> None:
        self.asked.append(self.path)

    def log_message(self, *_values: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Path:
    """Return a folder with NVIDIA's layout, each repository with its key beside it."""
    base = tmp_path_factory.mktemp("repos")
    for system, (kernel, others) in KERNEL.items():
        found = Repository(base / system / "x86_64", key)
        for name in (kernel.format("-open"), kernel.format("")):
            found.add(name, f"{VERSION}-1", "Depends: dkms")
        for name in others:
            needs = ["Depends: libcuda1"] if name == "nvidia-driver-cuda" else []
            found.add(name, f"{VERSION}-1", *needs)
        found.add("dkms", "99")
        found.publish()
    if not missing_rpm("rpm"):
        packages = repository(tmp_path_factory.mktemp("rpms"), key)
        for system in ("rhel9", "sles15"):
            (base / system).mkdir()
            (base / system / "x86_64").symlink_to(packages)
    for system, name in KEYS.items():
        if (base / system).exists():
            (base / system / f"x86_64/{name}.pub").write_text(key.armoured)
    return base


@pytest.fixture(scope="module")
def server(layout: Path) -> Iterator[str]:
    handler = functools.partial(Served, directory=str(layout))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{one.server_port}"
        one.shutdown()


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Repository:
    found = Repository(tmp_path_factory.mktemp("distribution") / "repo", key)
    found.add("dkms", "3.2")
    found.add("libcuda1", "999.1-1")
    found.publish()
    return found


def node_of(system: str, root: Path, distribution: Repository, layout: Path) -> Any:
    release, manager = SYSTEMS[system]
    lacking = missing_apt() if manager == "apt-get" else missing_rpm(manager)
    if lacking:
        pytest.skip(lacking)
    if manager == "apt-get":
        node: Any = AptNode(root / "node", distribution)
        node.files["/etc/os-release"] = release
    else:
        node = RpmNode(root, (layout / system / "x86_64").resolve(), release)
        for path in root.glob("etc/**/test.repo"):
            path.unlink()
    node.commands["uname", "-m"] = "x86_64\n"
    return node


@pytest.fixture
def node(
    request: pytest.FixtureRequest, tmp_path: Path, distribution: Repository, layout: Path
) -> Any:
    return node_of(getattr(request, "param", "debian12"), tmp_path, distribution, layout)


def named(base: str, pinned: Key | None = None, **said: Any) -> dict[str, Any]:
    marks = {"key_fingerprints": [pinned.fingerprint] if pinned else []}
    flat = {"suite": "/", "components": [], "plain_http": False, "signed_metadata": None}
    values = {"preset": "nvidia", "base_url": base, **flat, **marks, **said}
    return {"source": "repository", "repository": values, "manage_sources": False}


def files(node: Any) -> dict[str, str]:
    found = {path: node.read(path) for path in PLACE.paths}
    return {path: text for path, text in found.items() if text is not None}


EACH = [
    *("debian12", "sles15"),
    *(pytest.param(one, marks=pytest.mark.long) for one in ("ubuntu2404", "rhel9")),
]
every = pytest.mark.parametrize("node", EACH, indirect=True)


@every
def test_preset_brings_the_driver_from_a_mirror_without_a_network_and_goes(
    node: Any, layout: Path, key: Key
) -> None:
    wanted = named(f"file://{layout}", key)
    left = converge(node, **wanted)
    assert (left.steps, left.reboot_required) == ((), ())
    drivers = {name: one for name, one in node.installed().items() if "nvidia" in name}
    assert {one.split("-")[0].split("_")[0] for one in drivers.values()} == {VERSION}
    there = files(node)
    assert len(drivers) >= 3
    node.ran.clear()
    assert converge(node, **wanted).steps == ()
    changing = {"install", "update", "shell", "refresh", "makecache"}
    assert not [words for words in node.ran if changing & {*words}]
    assert files(node) == there
    converge(node, state="absent", **wanted)
    assert node.installed() == {}
    assert files(node) == {}
    assert RECORD not in node.files


@every
def test_key_that_is_not_the_pinned_one_is_refused_before_anything_changes(
    node: Any, layout: Path, key: Key
) -> None:
    with pytest.raises(NodeError) as caught:
        converge(node, **named(f"file://{layout}"))
    message = str(caught.value)
    assert "is not the one that is pinned, and nothing was changed" in message
    assert key.fingerprint in message
    assert any(one in message for one in presets.PINNED.values() if one)
    assert files(node) == {}
    assert RECORD not in node.files


@every
def test_check_mode_on_a_fresh_node_shows_what_would_be_written(
    node: Any, server: str, key: Key
) -> None:
    Served.asked.clear()
    one = capability(node, check_mode=True, **named(server, key, plain_http=True))
    found = one.plan(one.observe())
    assert [step.action for step in found.steps][:2] == ["repository", "refresh"]
    assert f"fetch the key {server}/" in found.steps[0].summary
    assert f".pub, which must be {key.fingerprint}" in found.steps[0].summary
    written = found.after["repository"]
    assert [path for path, text in written.items() if text == "a key"] != []
    assert any(server in text for text in written.values())
    assert any(path.endswith(".pub") for path in Served.asked)
    assert files(node) == {}


@pytest.mark.parametrize("node", ["debian12", "sles15"], indirect=True)
def test_drift_is_repaired_and_only_a_key_that_is_lost_is_fetched_again(
    node: Any, server: str, key: Key
) -> None:
    wanted = named(server, key, plain_http=True)
    assert converge(node, **wanted).steps == ()
    there = files(node)
    for path in there:
        is_key = path in (*PLACE.apt_keys, PLACE.rpm_key)
        Served.asked.clear()
        node.remove(path)
        if is_key:
            node.write(path, "# emptied\n")
        assert converge(node, **wanted).steps == ()
        assert files(node) == there
        assert len([one for one in Served.asked if one.endswith(".pub")]) == is_key


@pytest.mark.parametrize("node", ["debian12", "ubuntu2404"], indirect=True)
def test_only_the_driver_comes_from_the_preset_s_repository(
    node: Any, server: str, key: Key
) -> None:
    assert converge(node, **named(server, key)).steps == ()
    there = node.installed()
    assert there.pop("dkms") == "3.2"
    assert set(there.values()) == {f"{VERSION}-1"}


@pytest.mark.parametrize(
    ("node", "system"), [("debian12", "debian12"), ("sles15", "sles15")], indirect=["node"]
)
def test_preset_and_own_dict_and_none_follow_each_other(
    node: Any, system: str, layout: Path, key: Key
) -> None:
    base = f"file://{layout}"
    own = {"url": f"{base}/{system}/x86_64", "key": key.armoured, "preset": None, "base_url": None}
    assert converge(node, **named(base, key)).steps == ()
    there = files(node)
    assert converge(node, **named(base, key, **own)).steps == ()
    assert files(node) == there, "they say the same"
    assert converge(node, **named(base, key)).steps == ()
    with contextlib.suppress(NodeError):  # nothing offers what is installed any more
        converge(node, source="distribution")
    assert files(node) == {}
    assert converge(node, **named(base, key)).steps == ()
    assert files(node) == there


def test_mirror_without_the_key_is_told_and_the_key_can_be_given(
    node: Any, layout: Path, key: Key, tmp_path: Path
) -> None:
    folder = tmp_path / "bare/debian12/x86_64"
    folder.mkdir(parents=True)
    for path in (layout / "debian12/x86_64").iterdir():
        if path.suffix != ".pub":
            (folder / path.name).symlink_to(path)
    base = f"file://{tmp_path}/bare"
    with pytest.raises(
        NodeError, match=r"cannot fetch file:.*3bf863cc\.pub.*give the repository's"
    ):
        converge(node, **named(base, key))
    assert files(node) == {}
    assert RECORD not in node.files
    assert converge(node, **named(base, key, key=key.armoured)).steps == ()


def test_system_without_a_preset_is_refused_and_absent_works_there(
    node: Any, layout: Path, key: Key
) -> None:
    node.files["/etc/os-release"] = OS_RELEASE.format("debian", "11", "bullseye")
    with pytest.raises(
        NodeError, match=r"repository\.preset: 'nvidia'.*debian12.*leave preset out"
    ):
        converge(node, **named(f"file://{layout}", key))
    assert converge(node, state="absent", **named(f"file://{layout}", key)).steps == ()


@pytest.fixture
def nvidias(layout: Path, key: Key, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the layout in the place of NVIDIA's address, and the test's key in that of its key."""
    monkeypatch.setattr(presets, "CUDA", f"file://{layout}")
    monkeypatch.setitem(presets.PINNED, KEYS["debian12"], key.fingerprint)
    return layout


def releases(end: str) -> dict[str, Any]:
    """Return a table where Debian 12's branch ends, and the repository's stays."""
    branches = {"535": {"end_of_support": end}, "580": {"end_of_support": "2999-01"}}
    return {"as_of": "2026-01-01", "branches": branches, "bulletins": []}


PAST, FUTURE = releases("2020-01"), releases("2998-01")


def test_bare_node_whose_own_branch_has_ended_takes_nvidias_repository_and_stays_there(
    node: Any, nvidias: Path
) -> None:
    auto = {"manage_sources": False, "releases": PAST}
    look = reported(node, **auto)
    assert (look["source"], files(node)) == ("repository", {})
    assert "has branch 535, which NVIDIA does not support any more since 2020-01-31" in str(look)
    first = planned(node, **auto).steps[0]
    assert first.action == "repository"
    assert first.summary.endswith(look["source_reason"])

    left = converge(node, **auto)
    assert (left.steps, node.installed()["libcuda1"]) == ((), f"{VERSION}-1")
    node.ran.clear()
    for later in (PAST, FUTURE):
        there = reported(node, **{**auto, "releases": later})
        assert (there["source"], there["installed_version"]) == ("repository", VERSION)
        assert converge(node, **{**auto, "releases": later}).steps == ()
    assert "apt-get" not in {words[0] for words in node.ran if "--simulate" not in words}
    node.remove(PLACE.preferences)
    assert [one.action for one in planned(node, **auto).steps[:1]] == ["repository"]
    converge(node, **auto)
    assert PLACE.preferences in files(node)
    converge(node, state="absent")
    assert files(node) == {}


def test_repository_that_a_bare_node_does_not_reach_is_refused_with_what_to_set(
    node: Any, nvidias: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "CUDA", f"file://{nvidias}/nowhere")
    with pytest.raises(NodeError, match=r"cannot fetch .*nvidia_driver_source: distribution"):
        planned(node, releases=PAST)
    assert files(node) == {}


def test_bare_node_uses_nvidias_repository_of_another_file(
    node: Any, nvidias: Path, key: Key
) -> None:
    other, signed_by = "/etc/apt/sources.list.d/cuda.list", node.root / "cuda.asc"
    signed_by.write_text(key.armoured)
    node.files[other] = f"deb [signed-by={signed_by}] file://{nvidias}/debian12/x86_64/ /\n"
    use, *_others = planned(node, releases=PAST).steps
    assert use.summary.startswith("use the entry that apt has for the repository")
    assert use.params["files"].keys() == {PLACE.preferences}
    assert files(node) == {}


def test_mirror_of_a_driver_that_is_there_stays_where_nobody_names_it_any_more(
    node: Any, layout: Path, key: Key, nvidias: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "CUDA", "https://nvidias.example.com")
    converge(node, **named(f"file://{layout}", key))
    before = files(node)
    assert converge(node, manage_sources=False, releases=PAST).steps == ()
    assert files(node) == before


def test_preset_needs_the_source_to_be_a_repository(node: Any, layout: Path, key: Key) -> None:
    wanted = {**named(f"file://{layout}", key), "source": "distribution"}
    with pytest.raises(NodeError, match=r"repository: 'nvidia' .*source to be repository with it"):
        converge(node, **wanted)
