# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The package that virtual environments need on Debian, by genuine apt and dpkg in a folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.device_plugin import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages import api

from tests.fakes.clock import Clock
from tests.fakes.packages.apt_nodes import AptNode, Repository, in_folder, missing
from tests.fakes.packages.pgp_keys import Key
from tests.support import helper_process
from tests.support.waiting import LIMIT

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing() or "-")]
PACKAGE, LIBRARY = "python3-venv", "python3-lib"
HOLD = """\
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""
HALF = """
Package: half
Status: install ok unpacked
Maintainer: test <t@t>
Architecture: all
Version: 1
Description: test
"""


@pytest.fixture
def distribution(tmp_path: Path, key: Key) -> Repository:
    found = Repository(tmp_path / "distribution", key)
    found.add(LIBRARY, "1")
    found.add(PACKAGE, "1", f"Depends: {LIBRARY} (= 1)")
    found.publish()
    return found


@pytest.fixture
def node(tmp_path: Path, distribution: Repository) -> AptNode:
    return AptNode(tmp_path / "node", distribution)


def module(node: AptNode, state: str, lock_timeout: int = 0) -> DevicePluginCapability:
    values = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}
    values.update(state=state, digest="r1", configs={}, lock_timeout=lock_timeout)
    values["dra"] = {"devices": [], "kubeconfig": "", "node_name": ""}
    return DevicePluginCapability(node, values, check_mode=False)


def install(node: AptNode, lock_timeout: int = 0) -> None:
    """Carry out the step of the module."""
    module(node, "installed", lock_timeout).apply(Step("venv_package", "install it"))


def remove(node: AptNode) -> tuple[list[str], list[str]]:
    """Bring the module to its end. Returns its steps and warnings."""
    found = module(node, "absent")
    first = found.plan(found.observe())
    for step in first.steps:
        found.apply(step)
    assert found.plan(found.observe()).steps == ()
    return [one.summary for one in first.steps], list(first.warnings)


@pytest.fixture
def lock(node: AptNode) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold the lock that apt and dpkg take before they change anything, until its input ends."""
    words = [sys.executable, "-c", HOLD, str(node.root / "var/lib/dpkg/lock-frontend")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with helper_process.start(
        words, text=True, **pipes, ready=helper_process.printed("locked")
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def renew(distribution: Repository) -> None:
    """Replace all packages of the repository by newer ones."""
    distribution.index = ""
    for file in distribution.folder.glob("*.deb"):
        file.unlink()
    distribution.add(LIBRARY, "2")
    distribution.add(PACKAGE, "2", f"Depends: {LIBRARY} (= 2)")
    (distribution.folder / "InRelease").unlink()
    distribution.publish()


def test_lists_are_fetched_where_there_are_none(node: AptNode) -> None:
    install(node)
    assert node.installed() == {LIBRARY: "1", PACKAGE: "1"}
    assert not (node.root / "var/lib/gpu-node/apt-preferences").exists()


def test_lists_are_fetched_where_the_mirror_is_newer(
    node: AptNode, distribution: Repository
) -> None:
    node._genuine(("apt-get", "update"))
    renew(distribution)
    install(node)
    assert node.installed() == {LIBRARY: "2", PACKAGE: "2"}


@pytest.mark.usefixtures("lock")
def test_lock_that_stays_is_told_by_the_option_that_waits_longer(node: AptNode) -> None:
    node._genuine(("apt-get", "update"))
    with pytest.raises(NodeError, match=r"(?s)another package manager.*lock_timeout"):
        install(node)
    assert node.installed() == {}
    assert ("apt-get", "-q", "update") not in node.ran


def test_apt_waits_for_the_lock(node: AptNode, lock: subprocess.Popen[str]) -> None:
    node._genuine(("apt-get", "update"))
    waited = []

    def apt(words: tuple[str, ...]) -> Completed:
        """Run apt, and have the lock given away as it says that it waits."""
        command = [words[0], *in_folder(words[0], node.root, signed=True), *words[1:]]
        with helper_process.start(
            command, stdout=subprocess.PIPE, text=True, ready=helper_process.executed
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not waited and "Waiting for cache lock" in line:
                    waited.append(lock.communicate())
            process.wait()
        return Completed(process.returncode, "", "")

    node.commands[("apt-get",)] = apt
    install(node, lock_timeout=int(LIMIT))
    assert waited
    assert node.installed().keys() == {LIBRARY, PACKAGE}


def test_lock_is_waited_for_where_dpkg_has_to_finish_something_first(
    node: AptNode, lock: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node._genuine(("apt-get", "update"))
    with (node.root / "var/lib/dpkg/status").open("a") as stream:
        stream.write(HALF)
    (node.root / "var/lib/dpkg/info/half.list").write_text("/.\n")
    clock = Clock(at=lambda _clock: lock.communicate())
    monkeypatch.setattr(api, "time", clock)
    install(node, lock_timeout=60)
    assert clock.slept == [api.RETRY_SECONDS]
    assert node.installed().keys() == {LIBRARY, PACKAGE, "half"}


def test_package_on_hold_is_not_changed(node: AptNode, distribution: Repository) -> None:
    node._genuine(("apt-get", "update"))
    node._genuine(("apt-get", "-y", "install", LIBRARY))
    node._genuine(("apt-mark", "hold", LIBRARY))
    renew(distribution)
    node._genuine(("apt-get", "update"))
    with pytest.raises(NodeError, match=LIBRARY):
        install(node)
    assert node.installed() == {LIBRARY: "1"}


def test_what_the_lists_complain_of_is_told(node: AptNode, distribution: Repository) -> None:
    (distribution.folder / "InRelease").unlink()
    (distribution.folder / "Release").unlink()
    with pytest.raises(
        NodeError, match=rf"(?s)no way to install {PACKAGE};.*not have a Release file"
    ):
        install(node)


def test_lock_timeout_cannot_be_negative(node: AptNode) -> None:
    with pytest.raises(InputError, match="lock_timeout: -1"):
        install(node, lock_timeout=-1)


def test_what_was_installed_goes_again(node: AptNode) -> None:
    install(node)
    steps, _warnings = remove(node)
    assert f"remove {LIBRARY}, {PACKAGE}" in steps
    assert node.installed() == {}
    assert not (node.root / "var/lib/gpu-node/device_plugin.json").exists()


def test_what_was_there_stays(node: AptNode) -> None:
    node._genuine(("apt-get", "update"))
    node._genuine(("apt-get", "-y", "install", LIBRARY))
    install(node)
    remove(node)
    assert node.installed() == {LIBRARY: "1"}


def test_what_others_need_by_now_stays(node: AptNode, distribution: Repository) -> None:
    install(node)
    distribution.add("theirs", "1", f"Depends: {PACKAGE}")
    (distribution.folder / "InRelease").unlink()
    distribution.publish()
    node._genuine(("apt-get", "update"))
    node._genuine(("apt-get", "-y", "install", "theirs"))
    _steps, warnings = remove(node)
    assert node.installed() == {LIBRARY: "1", PACKAGE: "1", "theirs": "1"}
    assert warnings == [f"{LIBRARY}, {PACKAGE} stays, as theirs needs it"]


def test_what_a_killed_installation_left_goes_too(node: AptNode) -> None:
    node._genuine(("apt-get", "update"))
    found = module(node, "installed")
    found._packages._added.remember(packages=frozenset({PACKAGE, LIBRARY}))
    remove(node)
    assert not (node.root / "var/lib/gpu-node/device_plugin.json").exists()
