# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver through the genuine dnf and zypper, in a folder, from a repository of small packages."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError

from tests.fakes.packages.debian import capability, converge
from tests.fakes.packages.rpm_nodes import (
    BROKEN,
    KMP,
    OLD_KMP,
    STARTED,
    SYSTEMS,
    RpmNode,
    broken_repository,
    missing,
    repository,
    slow_repository,
)

KERNEL = {"dnf": ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"), "zypper": (KMP, OLD_KMP)}
LIBRARY = {"dnf": "nvidia-driver-cuda-libs", "zypper": "nvidia-compute-G06"}
USER = {"dnf": "torch-rhel", "zypper": "torch-suse"}
NEWEST, OLDER = "580.95.05", "580.82.07"
Make = Callable[[], RpmNode]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("d2-repo"))


@pytest.fixture(params=sorted(SYSTEMS))
def manager(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if missing(name):
        pytest.skip(missing(name))
    return name


@pytest.fixture
def node(manager: str, repo: Path, tmp_path: Path) -> RpmNode:
    return RpmNode(tmp_path, repo, SYSTEMS[manager])


def versions(node: RpmNode) -> set[str]:
    """Return the versions of all that belongs to the driver."""
    return {
        version.split("_k")[0] for name, version in node.installed().items() if "nvidia" in name
    }


def transactions(node: RpmNode) -> int:
    """Return how often packages were installed or removed."""
    words = [set(one) for one in node.ran]
    dnf = [one for one in words if "dnf" in one and "-y" in one]
    zypper = [one for one in words if {"zypper", "install"} <= one and "--dry-run" not in one]
    removed = [one for one in words if {"zypper", "remove"} <= one]
    return len(dnf) + len(zypper) + len(removed)


def test_driver_comes_stays_and_goes(node: RpmNode, manager: str) -> None:
    left = converge(node)
    assert (left.steps, left.reboot_required, left.warnings) == ((), (), ())
    assert versions(node) == {NEWEST}
    assert KERNEL[manager][0] in node.installed()
    one = capability(node)
    state = one.observe()
    assert one.result(state, left)["installed_version"] == NEWEST
    targets = {name for name in state.names.relevant if state.installed(name)}
    assert {name for name in targets if state.held(name)} == targets
    node.ran.clear()
    assert converge(node).steps == ()
    assert transactions(node) == 0
    gone = converge(node, state="absent")
    assert "still loaded" in gone.reboot_required[0]
    assert node.installed() == {}
    assert RECORD not in node.files
    assert not [name for name, one in capability(node).observe().packages.items() if one.held]


def test_downgrade_and_upgrade_change_all_at_once_and_lock_again(
    node: RpmNode, manager: str
) -> None:
    converge(node)
    node.ran.clear()
    left = converge(node, version=OLDER)
    assert versions(node) == {OLDER}
    assert transactions(node) == 1
    assert "580.95.05 of the driver is loaded" in left.reboot_required[0]
    state = capability(node).observe()
    assert state.held(KERNEL[manager][0])
    converge(node, version=NEWEST)
    assert versions(node) == {NEWEST}


def test_change_of_module_type_is_one_transaction(node: RpmNode, manager: str) -> None:
    converge(node)
    node.ran.clear()
    left = converge(node, kernel_modules="proprietary")
    assert left.steps == ()
    opened, proprietary = KERNEL[manager]
    assert proprietary in node.installed()
    assert opened not in node.installed()
    assert transactions(node) == 1
    assert opened not in json.loads(node.files[RECORD])["holds"]
    assert not capability(node).observe().held(opened)


def test_version_that_cannot_be_installed_is_undone(
    node: RpmNode, manager: str, tmp_path: Path
) -> None:
    converge(node)
    before, record = node.installed(), node.files[RECORD]
    node.add(broken_repository(tmp_path / "broken"))
    capability(node).observe()
    node._genuine({"dnf": ("dnf", "makecache"), "zypper": ("zypper", "-n", "refresh")}[manager])
    with pytest.raises(NodeError, match=r"(?i)prein|script") as caught:
        converge(node, version="590")
    assert caught.value.details["rolled_back"] is True
    assert "were restored" in str(caught.value)
    assert (node.installed(), node.files[RECORD]) == (before, record)
    assert BROKEN not in versions(node)
    state = capability(node).observe()
    assert state.held(KERNEL[manager][0])
    assert converge(node).steps == ()


def test_lock_of_another_process_is_waited_for(node: RpmNode, manager: str, tmp_path: Path) -> None:
    node.add(slow_repository(tmp_path / "slow"))
    node._genuine({"dnf": ("dnf", "makecache"), "zypper": ("zypper", "-n", "refresh")}[manager])
    install = {"dnf": ("dnf", "-y", "install"), "zypper": ("zypper", "-n", "install")}
    words = node.in_folder((*install[manager], "slow"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        deadline = time.monotonic() + 60
        while not (node.root / STARTED).exists() and time.monotonic() < deadline:
            assert other.poll() is None, other.communicate()[0]
            time.sleep(0.1)
        with pytest.raises(NodeError, match="another package manager is at work on the node"):
            converge(node, lock_timeout=0)
        assert other.poll() is None
        assert converge(node).steps == ()
    assert other.returncode == 0
    assert "slow" in node.installed()
    assert versions(node) == {NEWEST}


def test_unknown_branch_lists_the_versions_that_are_offered(node: RpmNode) -> None:
    with pytest.raises(InputError, match=r"'999'.*580\.95\.05, 580\.82\.07, 570\.195\.03"):
        converge(node, version="999")
    assert node.installed() == {}


def test_package_that_somebody_else_locks_is_named(node: RpmNode, manager: str) -> None:
    converge(node, hold=False)
    one = capability(node)
    one.observe()
    one._node.manager.hold([LIBRARY[manager]])
    before = node.installed()
    with pytest.raises(NodeError, match=f"{LIBRARY[manager]}.*(on hold|is locked)"):
        converge(node, version=OLDER, hold=False)
    assert node.installed() == before


def test_what_others_came_to_need_stays(node: RpmNode, manager: str) -> None:
    converge(node)
    genuine = {"dnf": ("dnf", "-q", "-y", "install"), "zypper": ("zypper", "-n", "install")}
    assert node._genuine((*genuine[manager], USER[manager])).rc == 0
    before = node.installed()
    if manager == "zypper":
        with pytest.raises(NodeError, match=f"{LIBRARY[manager]} cannot be removed: torch-suse"):
            converge(node, state="absent")
        assert node.installed() == before
        return
    converge(node, state="absent")
    # The libraries came as a dependency, and stay as one.
    assert set(node.installed()) == {LIBRARY[manager], USER[manager]}


def test_check_mode_tells_the_whole_set_and_installs_nothing(node: RpmNode, manager: str) -> None:
    one = capability(node, check_mode=True)
    found = one.plan(one.observe())
    assert found.after["packages"][KERNEL[manager][0]].startswith(
        {"dnf": f"3:{NEWEST}-1.el9", "zypper": f"{NEWEST}_k6.4.0"}[manager]
    )
    assert node.installed() == {}


def test_only_signed_modules_come_with_secure_boot(node: RpmNode, manager: str) -> None:
    node.files[SECURE_BOOT] = "\x06\0\0\0\x01"
    if manager == "zypper":
        assert converge(node).steps == ()
    with pytest.raises(NodeError, match="Secure Boot is on"):
        converge(node, kernel_modules="proprietary")


def test_repository_without_the_driver_is_reported(node: RpmNode, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    subprocess.run(["createrepo_c", "--quiet", str(empty)], check=True, capture_output=True)
    for path in tmp_path.glob("etc/*/test.repo"):
        path.write_text(f"[test]\nname=test\nbaseurl=file://{empty}\nenabled=1\ngpgcheck=0\n")
    for path in tmp_path.glob("etc/*/repos.d/test.repo"):
        path.write_text(f"[test]\nname=test\nbaseurl=file://{empty}\nenabled=1\ngpgcheck=0\n")
    with pytest.raises(NodeError, match=r"sources offer no .*nvidia.*no enabled repository"):
        converge(node)


def test_release_that_is_not_supported(node: RpmNode) -> None:
    text = node.files["/etc/os-release"]
    node.files["/etc/os-release"] = text.replace("9.5", "7.9").replace("15.6", "12.5")
    with pytest.raises(NodeError, match="RHEL family 8, RHEL family 9"):
        converge(node)
    assert node.ran == []


@pytest.mark.parametrize("version", [NEWEST, OLDER])
def test_transaction_that_was_killed_is_finished(
    node: RpmNode, manager: str, repo: Path, version: str
) -> None:
    """A killed upgrade leaves both versions of a package, and a killed downgrade as well."""
    converge(node, version=version)
    other = OLDER if version == NEWEST else NEWEST
    name = LIBRARY[manager]
    (file,) = repo.glob(f"*/{name}-{other}-*.rpm")
    words = ("rpm", "--install", "--nodeps", "--oldpackage", str(file))
    assert node._genuine(words).rc == 0
    assert converge(node, version=version).steps == ()
    assert versions(node) == {version}
    assert len(node._genuine(("rpm", "-q", name)).out.split()) == 1
