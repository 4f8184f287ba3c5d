# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container toolkit from a repository that the user names, through the genuine apt and gpg, in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    OLD_LISTS,
    InputError,
    NodeError,
)
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi.boot import Options
from ansible_collections.gpu.node.plugins.module_utils._generated.container_toolkit import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import OWN_PREFERENCES
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import (
    Records,
    Written,
)
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import (
    HOOK,
    RECORD,
    RUNTIME,
    ToolkitCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.plan import (
    ALL,
    BASE,
    DROP_IN,
    DROP_IN_TEXT,
    PLACE,
    VENDOR_FILE,
)

from tests.fakes.packages.apt_nodes import AptNode, Repository, missing
from tests.fakes.packages.pgp_keys import Key

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing() or "-")]

UNSAFE, SAFE, NEWEST, CANDIDATE = "1.18.2", "1.19.1", "1.20.1", "1.21.0~rc.1"
RELATIONS = {
    BASE: [],
    "libnvidia-container1": [],
    "libnvidia-container-tools": ["Depends: libnvidia-container1 (>= {})"],
    "nvidia-container-toolkit": [
        f"Depends: {BASE} (= {{}}), libnvidia-container-tools (>= {{}}), libnvidia-container-tools (<< 2)"
    ],
}


class ToolkitNode(AptNode):
    """A node whose apt reads the toolkit's files as well."""

    def __init__(self, root: Path, distribution: Repository) -> None:
        super().__init__(root, distribution)
        self.commands[("systemctl", "daemon-reload")] = ""

    def _below(self, path: str) -> str | None:
        return f"{self.root}{path}" if path in (*PLACE.paths, OWN_PREFERENCES) else None

    def versions(self) -> dict[str, str]:
        return {name: one.split("-")[0] for name, one in self.installed().items()}

    def held(self) -> set[str]:
        return set(self._genuine(("apt-mark", "showhold")).out.split())


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory, stranger: Key) -> Repository:
    found = Repository(tmp_path_factory.mktemp("distribution") / "repo", stranger)
    found.add("monitor", "1", f"Depends: {BASE}")
    found.publish()
    return found


def offer(folder: Path, key: Key, *versions: str) -> Repository:
    found = Repository(folder, key)
    for version in versions:
        for name, relations in RELATIONS.items():
            full = f"{version}-1"
            found.add(name, full, *(one.replace("{}", full) for one in relations))
    found.publish()
    return found


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("vendor") / "repo"
    found = offer(folder, key, UNSAFE, SAFE, NEWEST, CANDIDATE)
    with found.served():
        yield found


@pytest.fixture
def node(tmp_path: Path, distribution: Repository) -> ToolkitNode:
    return ToolkitNode(tmp_path / "node", distribution)


def named(vendor: Repository, **changes: Any) -> dict[str, Any]:
    return {
        "url": vendor.url,
        "key": vendor.key.armoured,
        "key_fingerprints": [vendor.key.fingerprint],
        "suite": "/",
        "components": [],
        "signed_metadata": False,
        "signed_packages": True,
        **changes,
    }


def capability(node: AptNode, *, check_mode: bool = False, **values: Any) -> ToolkitCapability:
    defaults = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    return ToolkitCapability(node, {**defaults, **values}, check_mode=check_mode)


def converge(node: AptNode, **values: Any) -> Plan:
    """Run to the end and return what is left to do."""
    one = capability(node, **values)
    for _round in range(5):
        plan = one.plan(one.observe())
        if not plan.steps:
            break
        for step in plan.steps:
            one.apply(step)
    return plan


def test_toolkit_comes_and_goes_with_its_repository(node: ToolkitNode, vendor: Repository) -> None:
    assert converge(node, repository=named(vendor)).steps == ()
    assert node.versions() == dict.fromkeys(ALL, NEWEST), "no release candidate, no older one"
    assert node.held() == set(ALL)
    assert f"Signed-By: {PLACE.apt_keys[1]}\n" in (node.read(PLACE.sources) or "")
    assert node.files[DROP_IN] == DROP_IN_TEXT
    node.ran.clear()
    assert converge(node, repository=named(vendor)).steps == ()
    assert not [words for words in node.ran if {"update", "install", "hold"} & set(words)]
    assert converge(node, state="absent").steps == ()
    assert node.installed() == {}
    assert node.held() == set()
    assert [path for path in PLACE.paths if node.read(path) is not None] == []
    assert RECORD not in node.files
    assert DROP_IN not in node.files


def test_version_is_asked_for_and_changed(node: ToolkitNode, vendor: Repository) -> None:
    converge(node, repository=named(vendor), version=SAFE, parts="base")
    assert node.versions() == {BASE: SAFE}
    converge(node, repository=named(vendor), parts="base")
    assert node.versions() == {BASE: SAFE}, "a safe version stays until another is asked for"
    converge(node, repository=named(vendor), version=f"{NEWEST}-1")
    assert node.versions() == dict.fromkeys(ALL, NEWEST)
    converge(node, repository=named(vendor), version=CANDIDATE)
    assert node.installed()[BASE] == f"{CANDIDATE}-1"
    converge(node, repository=named(vendor), version=SAFE)
    assert node.versions() == dict.fromkeys(ALL, SAFE)
    assert node.held() == set(ALL)
    converge(node, repository=named(vendor), parts="base", hold=False)
    assert (node.versions(), node.held()) == ({BASE: SAFE}, set())


def test_an_unsafe_version_is_never_installed_and_never_left(
    node: ToolkitNode, vendor: Repository, tmp_path: Path, key: Key
) -> None:
    with pytest.raises(InputError, match=r"version: '1\.18\.2' is not valid: expected 1\.19\.1 or"):
        capability(node, repository=named(vendor), version=UNSAFE)
    old = offer(tmp_path / "old", key, UNSAFE, "1.17.8")
    with pytest.raises(
        NodeError, match=r"no NVIDIA container toolkit that is safe.*1\.18\.2-1, 1\.17\.8-1"
    ):
        converge(node, repository=named(old))
    assert node.installed() == {}
    node._genuine(("apt-get", "-y", "-q", "install", *ALL))
    assert node.versions() == dict.fromkeys(ALL, UNSAFE), "somebody else has installed it"
    converge(node, repository=named(vendor))
    assert node.versions() == dict.fromkeys(ALL, NEWEST)
    converge(node, state="absent")
    assert node.versions() == dict.fromkeys(ALL, NEWEST), "what was not added stays"
    assert node.held() == set()


def test_lists_that_are_old_are_fetched_anew(node: ToolkitNode, tmp_path: Path, key: Key) -> None:
    folder = tmp_path / "growing"
    growing = offer(folder, key, SAFE)
    converge(node, repository=named(growing))
    for name, relations in RELATIONS.items():
        growing.add(name, f"{NEWEST}-1", *(one.replace("{}", f"{NEWEST}-1") for one in relations))
    growing.publish()
    assert converge(node, repository=named(growing), version=NEWEST).steps == ()
    assert node.versions() == dict.fromkeys(ALL, NEWEST)


def test_what_the_user_holds_is_not_moved(
    node: ToolkitNode, vendor: Repository, tmp_path: Path, key: Key
) -> None:
    old = offer(tmp_path / "old", key, UNSAFE)
    with pytest.raises(NodeError):
        converge(node, repository=named(old))
    node._genuine(("apt-get", "-y", "-q", "install", *ALL))
    node._genuine(("apt-mark", "hold", BASE))
    with pytest.raises(NodeError, match=f"can't become 1.20.1-1: {BASE} is on hold"):
        converge(node, repository=named(vendor))
    assert node.versions() == dict.fromkeys(ALL, UNSAFE)


def test_an_unknown_version_names_those_that_are_offered(
    node: ToolkitNode, vendor: Repository
) -> None:
    with pytest.raises(NodeError, match=r"do not have .* 9\.9\.9: they have .*1\.19\.1-1"):
        converge(node, repository=named(vendor), version="9.9.9")


def test_without_a_repository_the_node_s_own_sources_are_asked(node: ToolkitNode) -> None:
    with pytest.raises(NodeError, match=r"the sources do not have .*set repository to one that"):
        converge(node)


def test_check_mode_tells_the_whole_way_on_a_fresh_node(
    node: ToolkitNode, vendor: Repository
) -> None:
    one = capability(node, check_mode=True, repository=named(vendor))
    plan = one.plan(one.observe())
    assert [step.action for step in plan.steps] == [
        "repository",
        "refresh",
        "vendor",
        "install",
        "hold",
    ]
    assert plan.steps[3].summary == f"install {', '.join(ALL)} ({NEWEST}-1)"
    one = capability(node, check_mode=True, repository=named(vendor), version="9.9.9")
    with pytest.raises(NodeError, match=r"do not have .* 9\.9\.9: they have"):
        one.plan(one.observe())
    assert node.installed() == {}
    assert [path for path in PLACE.paths if node.exists(path)] == []
    assert RECORD not in node.files
    converge(node, repository=named(vendor), version=SAFE)
    one = capability(node, check_mode=True, repository=named(vendor), version=NEWEST)
    plan = one.plan(one.observe())
    assert [step.action for step in plan.steps] == ["install", "hold"]
    assert plan.before["packages"] == dict.fromkeys(ALL, f"{SAFE}-1")
    assert plan.after["packages"] == dict.fromkeys(ALL, f"{NEWEST}-1")
    one = capability(node, check_mode=True, repository=named(vendor), version="9.9.9")
    with pytest.raises(NodeError, match=r"do not have .* 9\.9\.9: they have") as caught:
        one.plan(one.observe())
    assert caught.value.until == OLD_LISTS  # a run fetches them first


def test_a_key_that_is_not_the_pinned_one_is_refused(
    node: ToolkitNode, vendor: Repository, stranger: Key
) -> None:
    for key in (stranger.armoured, vendor.key.armoured + stranger.armoured):
        with pytest.raises(InputError, match=r"repository\.key_fingerprints"):
            converge(node, repository=named(vendor, key=key))
    assert node.read(PLACE.sources) is None
    with pytest.raises(InputError, match=r"repository\.signed_packages: False"):
        capability(node, repository=named(vendor, signed_packages=False))


def test_lists_that_another_key_has_signed_are_not_used(
    node: ToolkitNode, vendor: Repository, stranger: Key
) -> None:
    wanted = named(vendor, key=stranger.armoured, key_fingerprints=[stranger.fingerprint])
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"do not have .*NO_PUBKEY|do not have .*not signed"):
            converge(node, check_mode=check_mode, repository=wanted)
    assert node.installed() == {}


def test_drift_is_repaired(node: ToolkitNode, vendor: Repository) -> None:
    converge(node, repository=named(vendor))
    files = {path: node.read(path) for path in (PLACE.sources, PLACE.apt_keys[1], DROP_IN)}
    for path in files:
        node.write(path, "# changed\n")
    node._genuine(("apt-mark", "unhold", BASE))
    node.files[VENDOR_FILE] = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"
    assert converge(node, repository=named(vendor)).steps == ()
    assert {path: node.read(path) for path in files} == files
    assert node.held() == set(ALL)
    assert VENDOR_FILE not in node.files
    node.files[VENDOR_FILE] = '{"cdiVersion": "0.5.0"}\n'
    assert converge(node, repository=named(vendor)).steps == ()
    assert VENDOR_FILE in node.files, "that one is of gpu.node.cdi"


def test_vendor_s_service_may_stay(node: ToolkitNode, vendor: Repository) -> None:
    converge(node, repository=named(vendor))
    converge(node, repository=named(vendor), vendor_refresh=True)
    assert DROP_IN not in node.files
    node.files[VENDOR_FILE] = "kind: nvidia.com/gpu\n"
    assert converge(node, repository=named(vendor), vendor_refresh=True).steps == ()
    assert VENDOR_FILE in node.files


def test_removal_waits_for_runtimes_that_use_it(node: ToolkitNode, vendor: Repository) -> None:
    converge(node, repository=named(vendor))
    config = "/etc/containerd/config.toml"
    Records(node).put(config, Written("containerd", None, "", ()))
    node.files[config] = f'BinaryName = "{RUNTIME}"\n'
    with pytest.raises(NodeError, match="in use: containerd starts containers through"):
        converge(node, state="absent")
    assert node.versions() == dict.fromkeys(ALL, NEWEST)
    node.files[config] = "version = 2\n"
    converge(node, state="absent")
    assert node.installed() == {}


def test_removal_waits_for_a_specification_that_needs_it(
    node: ToolkitNode, vendor: Repository
) -> None:
    converge(node, repository=named(vendor))
    options = Options("/etc/cdi/nvidia.yaml", generator="nvidia-ctk")
    node.files[cdi_boot.CONFIG] = cdi_boot.dump(options)
    with pytest.raises(NodeError, match=r"in use: nvidia-ctk writes .*generator to nvml"):
        converge(node, state="absent")
    del node.files[cdi_boot.CONFIG]
    node.files["/etc/cdi/nvidia.yaml"] = json.dumps({"path": HOOK})
    with pytest.raises(NodeError, match=r"in use: /etc/cdi/nvidia\.yaml names "):
        converge(node, state="absent")
    # It is written anew without the hook as soon as that is gone.
    node.files[cdi_boot.CONFIG] = cdi_boot.dump(options._replace(generator="nvml"))
    converge(node, state="absent")
    assert node.installed() == {}


def test_what_others_need_stays(node: ToolkitNode, vendor: Repository) -> None:
    converge(node, repository=named(vendor))
    node._genuine(("apt-get", "-y", "-q", "install", "monitor"))
    one = capability(node, state="absent")
    plan = one.plan(one.observe())
    assert plan.warnings == (f"{BASE} stays, as monitor needs it",)
    converge(node, state="absent")
    assert set(node.installed()) == {"monitor", BASE}


def test_a_run_that_was_cut_off_is_finished(node: ToolkitNode, vendor: Repository) -> None:
    one = capability(node, repository=named(vendor))
    for step in one.plan(one.observe()).steps[:1]:
        one.apply(step)  # the repository is named, and the lists were never fetched
    assert converge(node, repository=named(vendor)).steps == ()
    assert node.versions() == dict.fromkeys(ALL, NEWEST)
    node._genuine(("apt-mark", "unhold", *ALL))
    node._genuine(("dpkg", "--remove", "nvidia-container-toolkit"))
    assert converge(node, repository=named(vendor)).steps == ()
    assert node.versions() == dict.fromkeys(ALL, NEWEST)
    assert converge(node, state="absent").steps == ()
    assert node.installed() == {}


def test_a_system_is_known_by_what_it_is_like(node: ToolkitNode, vendor: Repository) -> None:
    node.files["/etc/os-release"] = 'ID=linuxmint\nID_LIKE="ubuntu debian"\n'
    converge(node, repository=named(vendor), parts="base")
    assert node.versions() == {BASE: NEWEST}


def test_an_unknown_system_is_refused_and_has_nothing_to_take_back(node: ToolkitNode) -> None:
    node.files["/etc/os-release"] = "ID=alpine\n"
    with pytest.raises(NodeError, match=r"can't be installed on this system: .*debian, ubuntu"):
        converge(node)
    assert converge(node, state="absent") == Plan()
