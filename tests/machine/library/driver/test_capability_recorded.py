# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages are found in lists that were recorded on Ubuntu and the RHEL family."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.driver.debian import branches

from tests.fakes.packages.debian import converge
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, missing, recorded_repository
from tests.fakes.packages.ubuntu import Ubuntu
from tests.fakes.played import recorded_packages as recorded

PARTS = {
    "libnvidia-cfg1-570-server",
    "libnvidia-compute-570-server",
    "nvidia-compute-utils-570-server",
    "nvidia-kernel-common-570-server",
    "nvidia-utils-570-server",
}


def ubuntu(names: tuple[str, ...], version: str, kernel: str) -> Ubuntu:
    """Return a node whose sources offer what a list has."""
    host = Ubuntu()
    host.files["/proc/sys/kernel/osrelease"] = f"{kernel}\n"
    host.files[f"/lib/modules/{kernel}/build"] = ""
    host.offers = {**{name: [version] for name in names}, "dkms": ["3.0"]}
    host.depends = {"nvidia-dkms-570-server": ["dkms"]}
    return host


def test_ubuntu_24_04_has_prebuilt_open_modules() -> None:
    host = ubuntu(recorded.NOBLE, recorded.NOBLE_VERSION, recorded.NOBLE_KERNEL)
    assert converge(host, version="570.211.01").steps == ()
    modules = f"linux-modules-nvidia-570-server-open-{recorded.NOBLE_KERNEL}"
    assert host.ours() == PARTS | {modules}


def test_ubuntu_22_04_builds_the_proprietary_modules() -> None:
    host = ubuntu(recorded.JAMMY, recorded.JAMMY_VERSION, "5.15.0-160-generic")
    host.codename = "jammy"
    for path in ("/etc/os-release", "/etc/apt/sources.list"):
        text = host.files[path].replace("noble", "jammy")
        host.files[path] = text.replace("24.04", "22.04")
    assert converge(host, version="570.195.03", kernel_modules="proprietary").steps == ()
    assert host.ours() == PARTS | {"nvidia-dkms-570-server", "dkms"}
    assert host.packages["nvidia-utils-570-server"] == (recorded.JAMMY_VERSION, "hi ")


@pytest.mark.parametrize(
    ("module_type", "found"),
    [
        ("open", "575 570 565 550 535"),
        ("proprietary", "575 570 565 550 535 525 515 470 460"),
    ],
)
def test_ubuntu_branches_for_servers_are_told_from_those_for_desktops(
    module_type: str, found: str
) -> None:
    assert " ".join(branches(recorded.NOBLE_DKMS, module_type)) == found


@pytest.mark.parametrize(
    ("release", "names", "version", "module_type"),
    [
        ("8.8", recorded.EL8, recorded.EL8_VERSION, "proprietary"),
        ("9.5", recorded.EL9, recorded.EL9_VERSION, "auto"),
    ],
)
def test_rhel_family_through_dnf(
    release: str, names: tuple[str, ...], version: str, module_type: str, tmp_path: Path
) -> None:
    if missing("dnf"):
        pytest.skip(missing("dnf"))
    repo = recorded_repository(tmp_path / "repo", names, version, f"1.el{release[0]}")
    (tmp_path / "node").mkdir()
    node = RpmNode(tmp_path / "node", repo, SYSTEMS["dnf"].replace("9.5", release))
    assert converge(node, kernel_modules=module_type).steps == ()
    kernel = names[0]
    wanted = {kernel, "nvidia-driver-cuda", "nvidia-persistenced"}
    there = node.installed()
    assert wanted <= set(there) <= set(names) | {"dkms"}
    assert {there[name] for name in wanted} == {version}
