# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What holds for the container toolkit and DCGM alike: one version, held, and refusals before the first change."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.driver import holds

from tests.fakes.library.software_nodes import told
from tests.fakes.library.software_situations import MODULES, TOOLKIT, play


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)


def run(
    module: str, situation: str, options: str = "", system: str = "debian", *, check: bool = False
) -> dict[str, Any]:
    make, situations, values = MODULES[module]
    return told(situations[situation].node(system), make, values[options], check_mode=check)


@pytest.mark.parametrize("module", MODULES)
def test_a_new_version_comes_and_the_holds_go_in_one_run(module: str) -> None:
    found = run(module, "ours", "version, no hold")
    assert "error" not in found
    assert any(one.startswith("release ") for one in found["calls"])


def test_the_hold_moves_with_the_version() -> None:
    calls = run("container_toolkit", "ours", "version")["calls"]
    change, hold = (
        next(n for n, one in enumerate(calls) if one.startswith(f"{verb} "))
        for verb in ("change", "hold")
    )
    assert hold > change  # what locks by version would otherwise lock the one before
    assert sorted(calls[hold].split()[1:]) == sorted(TOOLKIT)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("module", "situation"), [("container_toolkit", "a package would go"), ("dcgm", "DCGM 3")]
)
def test_packages_of_others_are_refused_to_go_before_anything_changes(
    module: str, situation: str, check: bool
) -> None:
    found = run(module, situation, check=check)
    assert "; nothing was changed" in found["error"]
    assert {*found} == {"error"}


@pytest.mark.parametrize("module", MODULES)
def test_a_check_tells_of_the_repair_the_lists_and_the_packages(module: str) -> None:
    steps = run(module, "interrupted, lists not fetched", check=True)["steps"]
    assert [one.partition(":")[0] for one in steps][:2] == ["repair", "refresh"]
    assert any(one.startswith("install:") for one in steps)
    done = run(module, "interrupted, lists not fetched")["steps"]
    assert [one.partition(":")[0] for one in steps] == [
        one.partition(":")[0] for one in done if module == "container_toolkit" or "hold:" not in one
    ]


@pytest.mark.parametrize(
    "system",
    [
        'ID=linuxmint\nID_LIKE="ubuntu debian"\n',
        "ID=nobara\nID_LIKE=fedora\n",
        'ID=ol\nID_LIKE="fedora"\n',
        'ID=opensuse-tumbleweed\nID_LIKE="opensuse suse"\n',
    ],
)
@pytest.mark.parametrize("module", MODULES)
def test_a_system_is_known_by_what_it_is_like(module: str, system: str) -> None:
    assert "error" not in run(module, "offered", system=system)


@pytest.mark.parametrize("module", MODULES)
def test_a_system_that_is_like_none_is_refused_by_the_names_that_are_known(module: str) -> None:
    found = run(module, "offered", system='ID=alpine\nID_LIKE="musl"\n')["error"]
    assert "can't be installed on this system: /etc/os-release names none of debian," in found
    assert ", ol, " in found


def test_holds_are_looked_at_on_a_system_that_is_known_by_what_it_is_like() -> None:
    node = MODULES["dcgm"][1]["ours"].node("ID=nobara\nID_LIKE=fedora\n")
    found = holds(cast("Any", node))
    assert (found.unknown, found.held) == ("", found.recorded)
