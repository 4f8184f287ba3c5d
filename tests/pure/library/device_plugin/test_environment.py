# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An environment that is not as it was made is seen by one look, and made anew; it comes back where that fails."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine import release
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.python import (
    RECORD,
    SAY,
    wheels,
)

from tests.fakes.library.agent_host import PREFIX, AgentHost, deploy, parameters
from tests.fakes.library.fakes import FakeHost

RELEASE = f"{PREFIX}/releases/r1"
LIBRARY = f"{RELEASE}/lib/python3.13/site-packages/grpc/_cython.so"


def deployed() -> AgentHost:
    """Return a machine whose environment has a library, and an interpreter that its Python leads to."""
    machine = AgentHost()
    deploy(machine, "r1")
    machine.files[LIBRARY] = "x" * 100
    machine.files[f"{RELEASE}/pyvenv.cfg"] = "home = /usr/bin\n"
    machine.links[f"{RELEASE}/bin/python3"] = "/usr/bin/python3.13"
    release.complete(t.cast("t.Any", machine), RELEASE)
    assert damage(machine) == ""
    return machine


def damage(machine: AgentHost) -> str:
    return release.damage(t.cast("t.Any", machine), RELEASE)


def gone(machine: AgentHost) -> None:
    del machine.files[LIBRARY]


def cut_off(machine: AgentHost) -> None:
    machine.files[LIBRARY] = "x" * 50


def edited(machine: AgentHost) -> None:
    """By hand, to a text of the same length."""
    machine.files[LIBRARY] = "y" * 100
    machine.times[LIBRARY] = 1.0


def added(machine: AgentHost) -> None:
    machine.files[f"{LIBRARY}.1"] = ""


def opened(machine: AgentHost) -> None:
    machine.opened.add(LIBRARY)


def no_environment(machine: AgentHost) -> None:
    del machine.files[f"{RELEASE}/pyvenv.cfg"]


def upgraded(machine: AgentHost) -> None:
    machine.links[f"{RELEASE}/bin/python3"] = "/usr/bin/python3.14"


def without_python(machine: AgentHost) -> None:
    machine.links[f"{RELEASE}/bin/python3"] = ""


def unfinished(machine: AgentHost) -> None:
    del machine.files[f"{RELEASE}/.complete"]


def torn(machine: AgentHost) -> None:
    machine.files[f"{RELEASE}/.complete"] = '{"python":'


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        (gone, "its files are others than it was made of"),
        (cut_off, "its files are others than it was made of"),
        (edited, "its files are others than it was made of"),
        (added, "its files are others than it was made of"),
        (opened, f"not only root can write to 1 file of it, such as {LIBRARY}"),
        (no_environment, "its files are others than it was made of"),
        (upgraded, "it was made for another Python than /usr/bin/python3.14"),
        (without_python, "it was made for another Python than there is"),
        (unfinished, "it was not finished"),
        (torn, "it was not finished"),
    ],
)
def test_what_is_damaged_is_made_anew(drift: t.Callable[[AgentHost], None], words: str) -> None:
    machine = deployed()
    drift(machine)
    assert damage(machine) == words
    made = machine.pid
    deploy(machine, "r1")
    assert damage(machine) == ""
    assert machine.pid == made + 1
    assert machine.listdir(f"{PREFIX}/releases") == ["r1"]


def test_a_torn_record_of_its_packages_is_refused_before_anything_changes() -> None:
    machine = deployed()
    machine.files[RECORD] = '{"packages": ["python3-v'
    with pytest.raises(NodeError, match=f"{RECORD} is damaged: .*remove the file"):
        deploy(machine, "r1")


def test_the_folder_of_mps_is_roots_alone() -> None:
    found = DevicePluginCapability(
        t.cast("t.Any", deployed()), parameters("r1", 0), check_mode=True
    )
    assert "/run/gpu-node/mps" in found.own(found.observe()).folders


def test_what_can_not_be_made_anew_stays_as_it_was() -> None:
    machine = deployed()
    cut_off(machine)
    before = {path: text for path, text in machine.files.items() if path.startswith(RELEASE)}
    machine.killed_at = "-m venv"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r1")
    after = {path: text for path, text in machine.files.items() if path.startswith(RELEASE)}
    assert after == before


@pytest.mark.parametrize("name", ["r1.damaged", "r1.damaged-0123456789abcdef"])
def test_a_release_that_a_killed_run_has_put_aside_is_restored_if_another_one_cannot_be_made(
    name: str,
) -> None:
    machine = deployed()
    cut_off(machine)
    before = {path: text for path, text in machine.files.items() if path.startswith(RELEASE)}
    machine.move(RELEASE, f"{PREFIX}/releases/{name}")
    machine.files[f"{RELEASE}/bin/half"] = ""
    machine.killed_at = "-m venv"
    with pytest.raises(KeyboardInterrupt):
        deploy(machine, "r1")
    after = {path: text for path, text in machine.files.items() if path.startswith(RELEASE)}
    assert after == before
    machine.killed_at = ""
    deploy(machine, "r1")
    assert machine.listdir(f"{PREFIX}/releases") == ["r1"]


def test_what_a_killed_run_has_put_aside_of_another_release_is_swept() -> None:
    machine = deployed()
    cut_off(machine)
    machine.files[f"{PREFIX}/releases/r0.damaged-0123456789abcdef/.complete"] = "{}"
    deploy(machine, "r1")
    assert machine.listdir(f"{PREFIX}/releases") == ["r1"]


def test_a_half_made_release_leaves_nothing() -> None:
    machine = AgentHost()
    machine.killed_at = "-m venv"
    with pytest.raises((KeyboardInterrupt, NodeError)):
        deploy(machine, "r1")
    assert machine.listdir(f"{PREFIX}/releases") == []


@pytest.mark.parametrize(
    ("program", "offered", "python"),
    [
        ("python3", "", "3.13"),
        ("", "python3.12", "3.12"),
        ("", "python311", "3.11"),
    ],
    ids=["there", "offered-by-dnf", "offered-by-zypper"],
)
def test_whose_wheels_an_environment_takes(program: str, offered: str, python: str) -> None:
    host = FakeHost(commands={("python3", "-c"): "3.13.5\n", ("uname", "-m"): "aarch64\n"})
    found = wheels(t.cast("t.Any", host), program, offered)
    assert found == {"python": python, "machine": "aarch64"}


def test_a_release_that_is_not_there_is_asked_for_with_whose_wheels_it_takes() -> None:
    machine = AgentHost()
    machine.commands["python3", "-c", SAY] = "3.13.5\n"
    machine.commands["uname",] = "x86_64\n"
    one = DevicePluginCapability(
        machine, {**parameters("r1", 0), "payload": None}, check_mode=False
    )
    with pytest.raises(NodeError) as caught:
        one.plan(one.observe())
    assert caught.value.details == {"payload_needed": {"python": "3.13", "machine": "x86_64"}}


@pytest.mark.attack("folder-of-a-user-above")
def test_programs_are_put_below_no_folder_of_a_user() -> None:
    """Root runs them."""
    machine = AgentHost()
    machine.writers[PREFIX] = "/opt belongs to user 1000"
    before = dict(machine.files)
    capability = DevicePluginCapability(
        t.cast("t.Any", machine), parameters("r1", 0), check_mode=False
    )
    with pytest.raises(InputError, match=r"prefix: .*/opt belongs to user 1000"):
        capability.observe()
    assert machine.files == before


@pytest.mark.parametrize(("folder", "refused"), [(PREFIX, False), ("/opt", True)])
def test_a_prefix_of_ours_that_anybody_writes_is_given_back_and_a_folder_above_is_refused(
    folder: str, refused: bool
) -> None:
    machine = deployed()
    machine.files["/etc/systemd/system/gpu-device-plugin.service"] += (
        f"ExecStart={PREFIX}/bin/gpu-plugin run\n"
    )
    machine.writers[folder] = f"others may write in {folder} (mode 777)"
    capability = DevicePluginCapability(
        t.cast("t.Any", machine), parameters("r1", 0), check_mode=False
    )
    if refused:
        with pytest.raises(InputError, match=r"others may write in /opt "):
            capability.observe()
    else:
        assert PREFIX in capability.own(capability.observe()).folders
