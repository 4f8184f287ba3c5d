# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that NVIDIA's installer has brought gives way to packages, where that is asked for."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.sources.runfile import (
    TRACES,
    UNINSTALLER,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, OLD

RUN = "580.65.06"
FILES = {
    UNINSTALLER[1:]: "",
    TRACES[1:]: f"1.0-5806506 ({RUN})\n",
    "usr/bin/nvidia-smi": "smi",
    f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{RUN}": "nvml",
    f"lib/modules/{K85}/kernel/video/nvidia.ko": f"{RUN} open\n",
}


@pytest.fixture
def node(ubuntu: Machines) -> Ubuntu:
    """Return a machine whose driver is from a .run file."""
    found = ubuntu(archive.A, K85)
    found.enable()
    for path, text in FILES.items():
        found.put(path, text)
    found.boot()
    assert (found.loaded(), found.works()) == (f"{RUN} open", True)

    def uninstall(_words: tuple[str, ...]) -> Completed:
        """Remove its own files, of which packages have not written one by then."""
        assert not [name for name in found.installed() if "nvidia" in name]
        for path in FILES:
            found.remove(f"/{path}")
        return Completed(0, "", "")

    found.answers[UNINSTALLER] = uninstall
    return found


def test_installers_driver_stays_unasked(node: Ubuntu) -> None:
    before = node.files()
    with pytest.raises(NodeError, match=r"source: preinstalled.*adopt: true"):
        converge(node, source="distribution")
    assert node.files() == before
    assert converge(node).steps == ()
    assert reported(node)["source"] == "preinstalled"
    assert node.works()


def test_installers_driver_gives_way_to_packages(node: Ubuntu) -> None:
    adopt, uninstall, install = planned(node, adopt=True).steps[:3]
    assert f"{RUN} from NVIDIA's installer" in adopt.summary
    assert (uninstall.action, install.action) == ("uninstall", "install")
    assert node.works()
    left = converge(node, adopt=True)
    assert left.steps == ()
    assert f"version {RUN} of the driver is loaded" in left.reboot_required[0]
    names = [words for words in node.ran if "--download-only" in words or words[0] == UNINSTALLER]
    assert ["--download-only" in words for words in names] == [True, False]
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert converge(node, adopt=True).steps == ()


def test_packages_stay_where_the_installers_driver_was(node: Ubuntu) -> None:
    converge(node, adopt=True)
    there = node.installed()
    remove = planned(node, state="absent").steps[-1]
    assert f"since the driver {RUN} was from NVIDIA's installer" in remove.summary
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (there, set())
    assert not node.exists(RECORD)
    assert converge(node, state="absent").steps == ()
    node.boot()
    assert node.works()


def test_change_that_was_killed_after_the_uninstaller_is_finished(node: Ubuntu) -> None:
    kill = 'test -f "$DPKG_ROOT/run/killed" || { touch "$DPKG_ROOT/run/killed"; kill -9 $PPID; }\n'
    scripts = (("postinst", kill),)
    node.archive(
        dataclasses.replace(one, scripts=scripts) if one.name == "nvidia-utils-580-server" else one
        for one in archive.A
    )
    with pytest.raises(NodeError):
        converge(node, adopt=True)
    assert converge(node, adopt=True).steps == ()
    node.boot()
    assert node.works()
    there = node.installed()
    converge(node, state="absent")
    assert node.installed() == there


def test_installers_driver_stays_where_packages_cannot_be_had(node: Ubuntu) -> None:
    node.archive(archive.A, gone=["nvidia-utils-580-server"])
    with pytest.raises(NodeError, match="nvidia-utils-580-server"):
        converge(node, adopt=True)
    converge(node, state="absent")
    assert node.works()
    assert not node.exists(RECORD)
