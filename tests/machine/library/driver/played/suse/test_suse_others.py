# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kernel modules of others on a played SUSE: exchanged where they are SUSE's own other build, else named and left."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rpms import Rpm
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines, Suse
from tests.fakes.played.suse.suse_archive import DESKTOPS, GA, K3, OLD, SP7, signed, user_space

LONG = pytest.mark.long
DESKTOP = "nvidia-open-driver-G06-signed-kmp-default"
CUDA = "nvidia-open-driver-G06-signed-cuda-kmp-default"
LIBRARIES = "nvidia-compute-G06"


@pytest.mark.parametrize("loaded", [True, pytest.param(False, marks=LONG)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"version": "580"}, marks=LONG),
        pytest.param({"source": "distribution", "adopt": True}, marks=LONG),
    ],
    ids=["defaults", "branch", "adopt"],
)
def test_modules_that_suse_chose_by_hardware_give_way(
    suse: Machines, options: dict[str, Any], loaded: bool
) -> None:
    node = suse(archive.fresh())
    node.zypper("install", DESKTOP)
    if loaded:
        node.run(["modprobe", "nvidia"])
    (install, *_rest) = planned(node, **options).steps
    assert DESKTOP in install.params["remove"]
    assert f"remove {DESKTOP}" in install.summary
    assert converge(node, **options).steps == ()
    assert DESKTOP not in node.installed()
    assert (CUDA in node.installed(), node.installed()[LIBRARIES]) == (True, OLD)
    assert converge(node, **options).steps == ()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert node.installed() == {
        DESKTOP: node.installed()[DESKTOP],
        "kernel-default": node.installed()["kernel-default"],
    }
    assert node.held() == set()


DESKTOP_DRIVER = {
    "sle": archive.fresh()["sle"],
    "cuda": (*user_space(OLD), *user_space(DESKTOPS)),
}
G05 = {
    **archive.fresh(),
    "old": (
        Rpm(
            "nvidia-gfxG05-kmp-default",
            "470.256.02_k6.4.0_150700.51-1.1",
            ("Provides: nvidia-gfxG05-kmp = 470.256.02",),
            (
                (
                    "lib/modules/6.4.0-150700.53.3-default/updates/nvidia.ko",
                    "470.256.02 proprietary\n",
                ),
            ),
        ),
        Rpm("nvidia-computeG05", "470.256.02-1", ("Conflicts: nvidia-computeG06",)),
    ),
}


def test_modules_chosen_by_hardware_stay_where_they_fit(suse: Machines) -> None:
    same = signed(SP7, OLD, GA, cuda=False)
    node = suse({**archive.fresh(), "sle": (*archive.fresh()["sle"], same)})
    node.zypper("install", f"{DESKTOP} = {same.version}")
    assert planned(node).steps[0].params["remove"] == []
    assert converge(node).steps == ()
    assert CUDA not in node.installed()
    assert node.installed()[LIBRARIES] == OLD
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {DESKTOP, "kernel-default"}


def test_lock_on_modules_chosen_by_hardware_is_named(suse: Machines) -> None:
    node = suse(archive.fresh())
    node.zypper("install", DESKTOP)
    node.zypper("addlock", DESKTOP)
    before = node.installed(), node.locks()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=rf"{DESKTOP} must change.*zypper removelock {DESKTOP}"):
            planned(node, check_mode=check_mode)
    assert (node.installed(), node.locks()) == before


def install_desktop_driver(suse: Machines) -> Suse:
    """Return a machine on which a person has installed the whole driver for desktops."""
    node = suse(DESKTOP_DRIVER)
    names = ("nvidia-compute-utils-G06", "nvidia-modprobe", "nvidia-persistenced")
    node.zypper("install", DESKTOP, *(f"{name} = {DESKTOPS}" for name in names))
    node.run(["modprobe", "nvidia"])
    return node


def test_whole_driver_of_another_stays_unless_it_is_adopted(suse: Machines) -> None:
    node = install_desktop_driver(suse)
    before = node.installed()
    assert "install" not in {step.action for step in planned(node).steps}
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match=f"{DESKTOP} would have to give way.*adopt: true.*zypper remove"
        ):
            planned(node, version="580", check_mode=check_mode)
    assert node.installed() == before
    assert converge(node, version="580", adopt=True).steps == ()
    assert node.installed()[LIBRARIES] == OLD
    assert converge(node, version="580", adopt=True).steps == ()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (node.installed(), node.held()) == (before, set())


@pytest.mark.parametrize("source", ["auto", pytest.param("distribution", marks=LONG)])
def test_older_generation_is_refused_by_name(suse: Machines, source: str) -> None:
    node = suse(G05)
    node.zypper("install", "nvidia-gfxG05-kmp-default", "nvidia-computeG05")
    before = node.installed(), node.locks()
    for check_mode in (True, False):
        for adopt in (False, True):
            with pytest.raises(
                NodeError, match="zypper remove nvidia-computeG05 nvidia-gfxG05-kmp-default"
            ):
                planned(node, source=source, adopt=adopt, check_mode=check_mode)
    assert (node.installed(), node.locks()) == before
    node.zypper("remove", "nvidia-gfxG05-kmp-default", "nvidia-computeG05")
    assert converge(node, source=source).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}


SITE = Rpm(
    "acme-gpu-kmp-default",
    "1.0-1",
    (),
    ((f"lib/modules/{K3}-default/extra/nvidia.ko", "570.10 open\n"),),
)


@pytest.mark.parametrize("also", [(), pytest.param((DESKTOP,), marks=LONG)], ids=["alone", "two"])
def test_modules_of_an_unknown_package_are_refused_by_its_name(
    suse: Machines, also: tuple[str, ...]
) -> None:
    node = suse({**archive.fresh(), "site": (SITE,)})
    node.zypper("install", SITE.name, *also)
    before = node.installed(), node.locks()
    for options in ({}, {"adopt": True}):
        for check_mode in (True, False):
            with pytest.raises(
                NodeError,
                match=rf"{SITE.name} of another packager.*extra/nvidia.ko.*zypper remove {SITE.name}",
            ):
                planned(node, check_mode=check_mode, **options)
    assert (node.installed(), node.locks()) == before
    node.zypper("remove", SITE.name)
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default", *also}


def test_two_foreign_drivers_are_refused_by_the_older_name(suse: Machines) -> None:
    node = suse({**G05, "sle": archive.fresh()["sle"]})
    node.zypper("install", DESKTOP)
    node.run(["rpm", "--install", "--nodeps", "--force", *(str(one.path) for one in G05["old"])])
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match="zypper remove nvidia-computeG05 nvidia-gfxG05-kmp-default"
        ):
            planned(node, source="distribution", check_mode=check_mode)
    node.zypper("remove", "nvidia-gfxG05-kmp-default", "nvidia-computeG05")
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {DESKTOP, "kernel-default"}


@LONG
def test_modules_that_dkms_builds_for_somebody_give_way_by_adopt_alone(suse: Machines) -> None:
    node = suse(archive.BUILT)
    node.zypper("install", f"kernel-default-devel = {K3}.1", "nvidia-open-driver-G06")
    before = node.installed()
    options = {"version": OLD}
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match=r"nvidia-open-driver-G06 would have to give way.*adopt: true"
        ):
            planned(node, check_mode=check_mode, **options)
    assert node.installed() == before
    assert "remove nvidia-open-driver-G06" in planned(node, adopt=True, **options).steps[0].summary
    assert converge(node, adopt=True, **options).steps == ()
    assert node.installed()[LIBRARIES] == OLD
    assert converge(node, adopt=True, **options).steps == ()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


@LONG
def test_proprietary_modules_of_somebody_are_exchanged_on_demand(suse: Machines) -> None:
    node = suse(archive.BOTH_TYPES)
    node.zypper("install", "nvidia-driver-G06-kmp-default", "nvidia-compute-utils-G06")
    before = node.installed()
    assert "install" not in {step.action for step in planned(node).steps}
    assert planned(node, kernel_modules="open").steps
    assert converge(node, kernel_modules="open").steps == ()
    assert CUDA in node.installed()
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


@LONG
def test_modules_chosen_by_hardware_give_way_to_the_next_generation(suse: Machines) -> None:
    node = suse(archive.NEXT_GENERATION)
    node.zypper("install", DESKTOP)
    before = node.installed()
    assert f"remove {DESKTOP}" in planned(node, version="595").steps[0].summary
    assert converge(node, version="595").steps == ()
    assert "nvidia-open-driver-G07-signed-cuda-kmp-default" in node.installed()
    assert converge(node, version="595").steps == ()
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


@LONG
def test_modules_of_another_flavour_stay(suse: Machines) -> None:
    modules = signed(SP7, OLD, GA)
    azure = dataclasses.replace(
        modules,
        name=modules.name.replace("-default", "-azure"),
        relations=tuple(
            relation.replace("-default", "-azure")
            for relation in modules.relations
            if "ksym" not in relation
        ),
        files=((f"lib/modules/{GA}-azure/updates/nvidia.ko", f"{OLD} open\n"),),
        scripts=(),
    )
    node = suse({**archive.fresh(), "azure": (azure,)})
    node.zypper("install", azure.name)
    before = node.installed()
    assert planned(node).steps[0].params["remove"] == []
    assert converge(node).steps == ()
    assert azure.name in node.installed()
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


LIBRARY = Rpm("acme-nvml", "1-1", (), ((f"usr/lib64/libnvidia-ml.so.{OLD}", "acme"),))


@pytest.mark.parametrize("check_mode", [True, pytest.param(False, marks=LONG)])
def test_libraries_of_an_unknown_package_are_refused_by_its_name(
    suse: Machines, check_mode: bool
) -> None:
    """zypper would find the conflict in the middle, once all is downloaded."""
    node = suse({**archive.fresh(), "site": (LIBRARY,)})
    node.zypper("install", LIBRARY.name)
    before = node.installed(), node.locks()
    with pytest.raises(NodeError, match=r"acme-nvml of another packager.*zypper remove acme-nvml"):
        planned(node, check_mode=check_mode)
    assert (node.installed(), node.locks()) == before
    node.zypper("remove", LIBRARY.name)
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}
