# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is installed after a transaction decides, and not what scripts print: genuine dnf 4 and dnf 5."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import OLDER, VERSION, driver
from tests.fakes.played.rhel.rhel_systems import AMAZON, EL9, EL10, FEDORA, System
from tests.fakes.played.rpms import FAILS, Rpm

DNF5 = pytest.param(FEDORA, id="dnf5", marks=pytest.mark.long)
MASKED = "Failed to preset unit: Unit file nvidia-persistenced.service is masked."
PRINTS = 'io.stderr:write("{}\\n")\n'


def with_script(packages: Iterable[Rpm], name: str, moment: str, script: str) -> list[Rpm]:
    """Return the packages, one of which runs a script."""
    return [
        dataclasses.replace(package, scripts=(*package.scripts, (moment, script)))
        if package.name == name
        else package
        for package in packages
    ]


def offered_with_script(node: Rhel, name: str, moment: str, script: str) -> None:
    """Offer a newer version of the driver, one package of which runs a script."""
    newer = with_script(driver(node.system, VERSION), name, moment, script)
    node.offer("cuda", (*driver(node.system, OLDER), *newer))


@pytest.mark.parametrize(
    ("system", "text"),
    [
        pytest.param(EL10, MASKED, id="dnf4-mask"),
        pytest.param(EL10, "Error: nobody to notify", id="dnf4-error", marks=pytest.mark.long),
        pytest.param(FEDORA, MASKED, id="dnf5-mask", marks=pytest.mark.long),
    ],
)
def test_update_stays_whose_script_prints_an_error_and_succeeds(
    rhel: Machines, system: System, text: str
) -> None:
    node = rhel.driven(system, version=OLDER)
    offered_with_script(node, "nvidia-persistenced", "post", PRINTS.format(text))
    assert planned(node, version="580", update=True).steps
    left = converge(node, version="580", update=True, reload="when_idle")
    assert left.steps == ()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)
    assert "nvidia-driver-cuda" in node.held()
    assert planned(node, check_mode=False, version="580", update=True).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(EL9, id="el9", marks=pytest.mark.long),
        pytest.param(EL10, id="el10", marks=pytest.mark.long),
        pytest.param(AMAZON, id="amazon", marks=pytest.mark.long),
    ],
)
def test_driver_that_is_not_loaded_comes_without_headers_of_the_running_kernel(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    short = system.kernel.rpartition(".")[0]
    rule = f"excludepkgs={system.devel}-{short},{system.devel}-matched-{short}\n"
    node.put("etc/dnf/dnf.conf", f"[main]\ngpgcheck=0\n{rule}")
    planned(node, load=False)
    left = converge(node, load=False)
    assert left.steps == ()
    assert node.installed()["nvidia-driver-cuda"] == VERSION
    assert "nvidia-driver-cuda" in node.held()
    assert planned(node, check_mode=False, load=False).steps == ()
    converge(node, state="absent")
    assert "nvidia-driver-cuda" not in node.installed()


@pytest.mark.parametrize("system", [pytest.param(EL10, id="dnf4"), DNF5])
@pytest.mark.parametrize(
    "name",
    [pytest.param("nvidia-driver-cuda-libs", marks=pytest.mark.long), "nvidia-driver-cuda"],
)
def test_update_fails_and_is_undone_whose_package_is_not_installed(
    rhel: Machines, system: System, name: str
) -> None:
    node = rhel.driven(system, version=OLDER)
    offered_with_script(node, name, "pre", FAILS)
    before = node.installed()
    with pytest.raises(
        NodeError, match=rf"(?s)previous.*restored.*{name}.*(?i:transaction failed)"
    ):
        converge(node, version="580", update=True)
    assert (node.installed(), "nvidia-driver-cuda" in node.held()) == (before, True)
    assert converge(node, version=OLDER).steps == ()


@pytest.mark.long
@pytest.mark.parametrize("system", [pytest.param(EL10, id="dnf4"), DNF5])
def test_removal_fails_whose_script_fails_and_goes_on_after_it_is_mended(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    script = 'if posix.stat("/stuck") then\n' + FAILS + "end\n"
    node.offer("cuda", with_script(driver(system, VERSION), "nvidia-persistenced", "preun", script))
    assert converge(node).steps == ()
    node.put("stuck", "")
    with pytest.raises(NodeError, match=r"(?s)dnf failed.*(?i:transaction failed)"):
        converge(node, state="absent")
    node.remove("/stuck")
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


@pytest.mark.long
def test_driver_comes_though_dnfs_plugin_local_has_no_repository(rhel: Machines) -> None:
    node = rhel(EL10)
    parts = f"[main]\nenabled = true\nrepodir = {node.root}/local\n[createrepo]\nenabled = true\n"
    node.put("etc/dnf/plugins/local.conf", parts)
    node.put("local/repodata", "in the way of createrepo_c")
    planned(node)
    left = converge(node)
    assert (left.steps, left.warnings) == ((), ())
    assert "nvidia-driver-cuda" in node.held()
    assert planned(node, check_mode=False).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [EL10.core]
