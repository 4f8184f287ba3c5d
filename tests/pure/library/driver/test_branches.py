# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Branches of the driver that do not run a node's GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import (
    NO_VERSION,
    NoSupport,
    Version,
    best_versions,
    unsupported_gpus,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import Runfile
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import Streams
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import RHEL

from tests.fakes.packages.driver_nodes import (
    DESIRED,
    KERNEL,
    OFFERED,
    asked,
    changed,
    family_of,
    node,
    package,
    plan_of,
    with_options,
)

NEWER, LAST, OLD = "595.71.05-1", "580.159.03-1", "550.163.01-2"
ALL = {name: Policy(NEWER, (NEWER, LAST, OLD)) for name in OFFERED}


def gpus(*architectures: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"0000:{number:02x}:00.0", one) for number, one in enumerate(architectures, 16))


def version(*architectures: str, kind: str = "proprietary", **desired: Any) -> str | None:
    observed = node(policies=ALL, gpus=gpus(*architectures))
    return family_of(observed).choose(observed, asked(**desired), kind).version


@pytest.mark.parametrize(
    ("architectures", "found"),
    [
        (("turing",), "595.71.05"),
        (("volta",), "580.159.03"),
        (("pascal", "ampere"), "580.159.03"),
        (("",), "595.71.05"),
        ((), "595.71.05"),
    ],
)
def test_newest_branch_that_runs_the_gpus_is_taken(
    architectures: tuple[str, ...], found: str
) -> None:
    assert version(*architectures) == found


def test_branch_that_is_asked_for_and_runs_no_gpu_names_gpu_and_rule() -> None:
    with pytest.raises(NoSupport) as caught:
        version("volta", "volta", version=Version("595"))
    assert "595.71.05 does not run the volta GPU 0000:10:00.0" in caught.value.message
    assert caught.value.cause == "580 is the last branch for volta GPUs"
    with pytest.raises(NoSupport, match="blackwell GPUs need branch 570 or later"):
        version("blackwell", kind="open", version="550")


def test_branch_that_runs_some_of_the_gpus_is_taken_with_a_warning() -> None:
    observed = node(policies=ALL, gpus=gpus("volta", "ampere"))
    wanted = with_options(DESIRED, version=Version("595"))
    found = plan_of(observed, wanted, check_mode=True)
    assert [one for one in found.warnings if "volta GPU 0000:10:00.0 does not run" in one]
    assert not [one for one in found.warnings if "0000:11:00.0" in one]


def test_installed_version_goes_where_it_runs_no_gpu_and_stays_where_it_runs_one() -> None:
    there = {KERNEL["proprietary"]: package(NEWER)}
    for architectures, found in (
        (("volta",), "580.159.03"),
        (("volta", "ampere"), "595.71.05"),
    ):
        observed = node(policies=ALL, packages=there, gpus=gpus(*architectures))
        assert family_of(observed).choose(observed, DESIRED, "proprietary").version == found


def test_lists_are_read_anew_before_a_node_is_given_up() -> None:
    offered = {name: Policy(OLD, (OLD,)) for name in OFFERED}
    observed = node(policies=offered, gpus=gpus("blackwell"))
    assert [one.action for one in plan_of(observed, DESIRED).steps] == ["refresh"]
    with pytest.raises(NoSupport, match=r"550\.163\.01.* as with version 570"):
        plan_of(changed(observed, refreshed=True), DESIRED)


def test_installer_of_nvidia_is_held_to_the_same_rule() -> None:
    wanted = with_options(
        DESIRED, source="runfile", runfile=Runfile("/n.run", "0" * 64), version=Version("595.71.05")
    )
    with pytest.raises(NoSupport, match="580 is the last branch for pascal GPUs"):
        plan_of(node(gpus=gpus("pascal")), wanted, check_mode=True)


def test_versions_that_cannot_be_read_are_not_judged() -> None:
    assert (
        unsupported_gpus(NO_VERSION, gpus("volta"))
        == unsupported_gpus(Version("latest"), gpus("volta"))
        == []
    )
    assert best_versions([], gpus("volta")) == []


@pytest.mark.parametrize(
    ("architectures", "stream"),
    [(("volta", "turing"), "580-dkms"), (("kepler", "volta"), "470-dkms"), ((), "open-dkms")],
)
def test_module_stream_is_of_the_last_branch_that_runs_the_gpus(
    architectures: tuple[str, ...], stream: str
) -> None:
    offered = {f"{one}-dkms": one for one in ("470", "580", "595")}
    offered.update({"latest-dkms": "595", "open-dkms": "595"})
    rows = {name: (("kmod", "noarch", f"3:{one}.1-1"),) for name, one in offered.items()}
    observed = node(
        policies=ALL, gpus=gpus(*architectures), streams=Streams("", rows), traits=RHEL.traits
    )
    observed = changed(observed, packages={"dkms": package("3.0-1")})
    first, *_rest = plan_of(observed, DESIRED).steps
    assert first.params["stream"] == stream
