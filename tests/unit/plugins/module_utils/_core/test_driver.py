# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's planner, and what apt prints."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core import apt
from ansible_collections.gpu.node.plugins.module_utils._core.driver import (
    KERNEL,
    RELEVANT,
    USER_SPACE,
    Desired,
    Observed,
    flavour,
    plan,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError
from hypothesis import given
from hypothesis import strategies as st

POLICY = """\
nvidia-smi:
  Installed: (none)
  Candidate: 550.163.01-2
  Version table:
     550.163.01-2 500
        500 http://mirror/debian trixie/non-free amd64 Packages
libcuda1:
  Installed: 535.261.03-1
  Candidate: 550.163.01-2
  Version table:
     550.163.01-2 500
        500 http://mirror/debian trixie/non-free amd64 Packages
 *** 535.261.03-1 100
        100 /var/lib/dpkg/status
nvidia-kernel-dkms:
  Installed: (none)
  Candidate: (none)
  Version table:
"""
NEW = apt.Policy(None, "550.163.01-2", ("550.163.01-2",))
HAVE = apt.Policy("550.163.01-2", "550.163.01-2", ("550.163.01-2",))
DESIRED = Desired("present", "", "auto", True, True, True, "refuse")


def bare(**changes: Any) -> Observed:
    """Return a node with H100s and nothing installed, with the sources enabled."""
    values: dict[str, Any] = {
        "distribution": "debian",
        "codename": "trixie",
        "kernel": "6.12.1",
        "headers": True,
        "gpus": (("0000:18:00.0", "hopper"),),
        "policies": dict.fromkeys(RELEVANT, NEW),
        "holds": frozenset(),
        "broken": False,
        "loaded": None,
        "nouveau": False,
        "secure_boot": False,
        "service": {},
        "sources_file": False,
        "record": {},
    }
    return Observed(**{**values, **changes})


WANTED = (*USER_SPACE, "firmware-nvidia-gsp", KERNEL["open"])
DONE = bare(
    policies={**dict.fromkeys(RELEVANT, NEW), **dict.fromkeys(WANTED, HAVE)},
    holds=frozenset(WANTED),
    loaded=("550.163.01", "open"),
    service={"ActiveState": "active", "UnitFileState": "enabled"},
)


def actions(observed: Observed, check_mode: bool = False, **desired: Any) -> list[str]:
    """Return the plan's actions."""
    found = plan(observed, dataclasses.replace(DESIRED, **desired), check_mode=check_mode)
    return [step.action for step in found.steps]


def test_policy_is_parsed() -> None:
    found = apt.parse_policy(POLICY)
    assert found["nvidia-smi"] == NEW
    assert found["libcuda1"] == apt.Policy(
        "535.261.03-1", "550.163.01-2", ("550.163.01-2", "535.261.03-1")
    )
    assert found["nvidia-kernel-dkms"] == apt.Policy(None, None, ())


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    apt.parse_policy(text)
    apt.parse_status(text)
    apt.parse_simulation(text)
    apt.find_source(text, text, "trixie")


def test_own_source_repeats_the_nodes_mirror() -> None:
    deb822 = (
        "Types: deb\nURIs: http://mirror/debian\nSuites: trixie trixie-updates\n"
        "Components: main\nSigned-By: /k.gpg\n"
    )
    for source in (
        apt.find_source("deb [signed-by=/k.gpg] http://mirror/debian trixie main\n", "", "trixie"),
        apt.find_source("", deb822, "trixie"),
    ):
        assert source == apt.Source("http://mirror/debian", "trixie", "/k.gpg")
        text = apt.render_source(source, ["contrib", "non-free"])
        assert "Components: contrib non-free\n" in text
        assert "Signed-By: /k.gpg\n" in text
    assert apt.find_source("deb http://mirror/debian bookworm main", "", "trixie") is None


@pytest.mark.parametrize(
    ("wanted", "architecture", "found"),
    [
        ("auto", "volta", "proprietary"),
        ("auto", "turing", "open"),
        ("auto", "hopper", "open"),
        ("auto", "blackwell", "open"),
        ("auto", "", "open"),
        ("proprietary", "hopper", "proprietary"),
    ],
)
def test_flavour_follows_the_architecture(wanted: str, architecture: str, found: str) -> None:
    assert flavour(wanted, [("0000:18:00.0", architecture)]) == found


@pytest.mark.parametrize(
    ("wanted", "architecture"), [("open", "pascal"), ("proprietary", "blackwell")]
)
def test_flavour_that_does_not_run_names_gpu_and_rule(wanted: str, architecture: str) -> None:
    with pytest.raises(
        NodeError, match=f"{wanted} kernel modules do not run on the {architecture} GPU 0000:18"
    ):
        flavour(wanted, [("0000:18:00.0", architecture)])


def test_gpus_that_need_different_flavours_are_refused() -> None:
    with pytest.raises(NodeError, match="do not run"):
        flavour("auto", [("0000:18:00.0", "volta"), ("0000:29:00.0", "blackwell")])


def test_from_nothing_to_everything() -> None:
    assert actions(bare()) == ["install", "hold", "load", "persistence"]
    assert actions(DONE) == []


def test_fresh_node_without_components() -> None:
    fresh = bare(policies=dict.fromkeys(RELEVANT, apt.Policy(None, None, ())))
    assert actions(fresh) == ["sources", "refresh"]
    assert actions(fresh, check_mode=True) == [
        "sources",
        "refresh",
        "install",
        "hold",
        "load",
        "persistence",
    ]
    with pytest.raises(NodeError, match="manage_sources"):
        actions(fresh, manage_sources=False)


def test_interrupted_dpkg_is_repaired_first() -> None:
    assert actions(bare(broken=True))[0] == "repair"


def test_installed_version_is_kept_unless_another_is_asked_for() -> None:
    newer = apt.Policy("550.163.01-2", "560.1-1", ("560.1-1", "550.163.01-2"))
    drifted = dataclasses.replace(DONE, policies={**DONE.policies, **dict.fromkeys(WANTED, newer)})
    assert actions(drifted) == []
    assert "install" in actions(drifted, version="560")
    assert actions(drifted, version="550.163.01") == []


def test_unknown_version_lists_what_is_offered() -> None:
    with pytest.raises(InputError, match=r"999.*550\.163\.01-2"):
        actions(bare(), version="999")


def test_loaded_driver_of_another_version_or_flavour_asks_for_a_reboot() -> None:
    for loaded, words in (
        (("535.261.03", "open"), "535.261.03 of the driver is loaded"),
        (("550.163.01", "proprietary"), "proprietary kernel modules are loaded"),
    ):
        found = plan(dataclasses.replace(DONE, loaded=loaded), DESIRED, check_mode=False)
        assert found.steps == ()
        assert words in found.reboot_required[0]


def test_nouveau_is_not_fought() -> None:
    found = plan(bare(nouveau=True), DESIRED, check_mode=False)
    assert "load" not in [step.action for step in found.steps]
    assert "nouveau" in found.reboot_required[0]


def test_secure_boot_is_told_before() -> None:
    with pytest.raises(NodeError, match="Secure Boot"):
        actions(bare(secure_boot=True))
    assert "install" in actions(bare(secure_boot=True), secure_boot="ignore")


def test_other_distributions_are_refused() -> None:
    with pytest.raises(NodeError, match="'rhel' is not supported"):
        actions(bare(distribution="rhel"))


def test_absent_takes_back_what_was_added_and_only_that() -> None:
    assert actions(DONE, state="absent") == []
    recorded = dataclasses.replace(DONE, record={"packages": ["nvidia-smi", "dkms"]})
    found = plan(recorded, dataclasses.replace(DESIRED, state="absent"), check_mode=False)
    assert [step.action for step in found.steps] == ["hold", "remove"]
    assert found.steps[1].params["packages"] == ["nvidia-smi", "dkms"]


def test_missing_headers_are_a_warning() -> None:
    assert "headers" in plan(bare(headers=False), DESIRED, check_mode=False).warnings[0]


@given(st.sets(st.sampled_from(WANTED)), st.sets(st.sampled_from(WANTED)), st.booleans())
def test_from_anywhere_the_plan_ends_at_the_same_node(
    installed: set[str], held: set[str], loaded: bool
) -> None:
    policies = {one: HAVE if one in installed else NEW for one in RELEVANT}
    state = bare(
        policies=policies, holds=frozenset(held), loaded=("550.163.01", "open") if loaded else None
    )
    for step in plan(state, DESIRED, check_mode=False).steps:
        if step.action == "install":
            state = dataclasses.replace(
                state, policies={**state.policies, **dict.fromkeys(step.params["packages"], HAVE)}
            )
        elif step.action == "hold":
            state = dataclasses.replace(state, holds=frozenset(step.params["hold"]))
        elif step.action == "load":
            state = dataclasses.replace(state, loaded=("550.163.01", "open"))
        elif step.action == "persistence":
            state = dataclasses.replace(state, service=DONE.service)
    assert plan(state, DESIRED, check_mode=False).steps == ()
