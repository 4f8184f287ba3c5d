# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt refuses is refused before anything is changed, in check mode too, with apt's words and whose it is."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import (
    OLD_LISTS,
    InputError,
    NodeError,
)

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEWER, OLD

PIN = "Package: dkms\nPin: version *\nPin-Priority: -1\n"
FIRMWARE = "nvidia-firmware-570-server-570.195.03"


def broken() -> tuple[Deb, ...]:
    """Return an archive whose user space needs what nobody has."""
    return tuple(one for one in archive.A if not one.name.startswith("nvidia-firmware"))


def test_what_apt_refuses_is_refused_in_the_plan(ubuntu: Machines) -> None:
    node = ubuntu(broken(), K85)
    node.enable()
    before = node.installed()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"(?s)apt finds no way.*nvidia-firmware-580-server"):
            planned(node, check_mode=check_mode)
    assert node.installed() == before


def test_pin_that_is_in_the_way_is_named_with_its_file(ubuntu: Machines) -> None:
    node = ubuntu(archive.C, K85)
    node.enable()
    for path in ("/etc/apt/preferences.d/house", "/etc/apt/preferences"):
        node.put(path[1:], PIN)
        with pytest.raises(NodeError, match=rf"{path} pins dkms"):
            planned(node)
        node.remove(path)


def test_pin_that_keeps_the_firmware_away_is_not_overruled(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    node.enable()
    path = "/etc/apt/preferences.d/house"
    node.put(path[1:], PIN.replace("dkms", "nvidia-firmware-*"))
    before = node.installed()
    firmware = f"nvidia-firmware-580-server-{OLD}"
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match=rf"need {firmware}.* keep away.*{path} pins {firmware}"
        ):
            planned(node, check_mode=check_mode)
    node.put(path[1:], PIN.replace("dkms", "nvidia-firmware-570-*"))
    assert converge(node).steps == ()
    assert set(node.installed()) > set(before)


def test_complaints_about_the_lists_are_told_where_the_driver_is_not_offered(
    ubuntu: Machines,
) -> None:
    node = ubuntu((archive.DKMS, *archive.kernel(K85)), K85)
    text = node.read("/etc/apt/sources.list") or ""
    node.put("etc/apt/sources.list", f"{text}deb file:/nowhere noble main\n")
    words = r"sources have no libnvidia-cfg1-<branch>-server.* Failed to fetch file:/nowhere"
    with pytest.raises(NodeError, match=words):
        converge(node)


def test_hold_of_another_that_is_in_the_way_is_named(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.H, K85, version="570")
    node.run(["apt-mark", "hold", FIRMWARE])
    assert planned(node, version="570").steps == ()
    node.apt("install", "libnvidia-gl-570-server")
    node.run(["apt-mark", "hold", "libnvidia-gl-570-server"])
    with pytest.raises(NodeError, match=r"while libnvidia-gl-570-server is on hold"):
        planned(node, version="580")


@pytest.mark.parametrize("enabled", [True, False])
def test_check_mode_knows_what_comes_of_components_that_are_not_enabled_yet(
    ubuntu: Machines, enabled: bool
) -> None:
    node = ubuntu(archive.A, K85)
    if enabled:
        node.enable()
    before, marks = node.files(), node.held()
    found = planned(node)
    assert [step.action for step in found.steps][-6:-3] == ["install", "hold", "load"]
    assert [argv for argv in node.ran if "--simulate" in argv]
    assert found.after["packages"]["nvidia-utils-580-server"].startswith(OLD)
    assert (node.files(), node.held()) == (before, marks)


def test_preview_finds_a_version_that_only_fresh_lists_have(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.G2, lists=False)
    before = node.files()
    (install, *_rest) = planned(node, version=NEWER).steps
    assert archive.full(NEWER) in install.summary
    assert node.files() == before
    for version, words in (("580.1.1", f": {NEWER}, {OLD}"), ("999", "open kernel modules: 580")):
        with pytest.raises(InputError, match=rf"'{version}' .*{words}") as caught:
            planned(node, version=version)
        assert caught.value.until == ""


def test_preview_without_a_mirror_judges_by_the_lists_that_are_there(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    node.enable()
    node.mirror.folder.rename(node.mirror.folder.with_name("gone"))
    with pytest.raises(InputError, match=rf"'{NEWER}' .*: {OLD}") as caught:
        planned(node, version=NEWER)
    assert caught.value.until == OLD_LISTS  # a run may reach it by then


def test_advice_does_not_name_a_command_that_is_not_there(ubuntu: Machines) -> None:
    packages = (
        dataclasses.replace(one, files=()) if one.name.startswith("linux-modules-nvidia") else one
        for one in archive.A
    )
    node = ubuntu(packages, K85)
    with pytest.raises(NodeError, match=r"Module nvidia not found.*journalctl -k") as caught:
        converge(node)
    assert "dkms" not in str(caught.value)
    node.put("usr/sbin/dkms", "")
    with pytest.raises(NodeError, match=r"Module nvidia not found.*dkms status"):
        converge(node)
