# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What runs of the modules for the container toolkit and DCGM tell, call, write and leave is what was written down.

``python -m tests.fakes.library.software_situations`` writes it down anew.
"""

from __future__ import annotations

import json

import pytest

from tests.fakes.library.software_situations import MODULES, RECORDED, play, runs, shown


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)


@pytest.mark.parametrize("module", MODULES)
def test_runs_tell_what_they_told(module: str) -> None:
    expected = json.loads((RECORDED / f"{module}.json").read_text())
    assert {words: shown(answer) for words, answer in runs(module, "debian")} == expected


@pytest.mark.parametrize("system", ["ubuntu", "rhel", "suse"])
@pytest.mark.parametrize("module", MODULES)
def test_runs_tell_the_same_on_each_system_but_for_a_repositorys_files(
    module: str, system: str
) -> None:
    expected = {words: answer for words, answer in runs(module, "debian") if "repo" not in words}
    found = {words: answer for words, answer in runs(module, system) if "repo" not in words}
    assert found == expected
