# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Task files of hooks are found, nearest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.lookup import hook_files


def test_places_are_the_playbooks_the_inventory_and_where_ansible_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("site", "inventory/group_vars", "here"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("site/site.yml", "inventory/hosts.yml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    sources = [str(tmp_path / "inventory/hosts.yml"), str(tmp_path / "inventory"), "a,b,"]
    variables = {"inventory_dir": str(tmp_path / "inventory"), "ansible_inventory_sources": sources}
    found = hook_files.folders(variables, ["../site/site.yml", "gpu.node.mig"])
    assert found == [str(tmp_path / name) for name in ("site", "inventory", "here")]


def test_the_nearest_counts_and_shipped_ones_come_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("near", "far", "shipped"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "drain.yml").touch()
    (tmp_path / "shipped/slurm_drain.yml").touch()
    monkeypatch.setattr(hook_files, "SHIPPED", str(tmp_path / "shipped"))
    places = [str(tmp_path / "near"), str(tmp_path / "far")]
    assert hook_files.find("drain.yml", places) == f"{tmp_path}/near/drain.yml"
    assert hook_files.find("slurm_drain", places) == f"{tmp_path}/shipped/slurm_drain.yml"
    assert hook_files.find("slurm_drain.yml", places) == f"{tmp_path}/shipped/slurm_drain.yml"
    assert (
        hook_files.find("../shipped/drain.yml", places) == f"{tmp_path}/near/../shipped/drain.yml"
    )
    assert hook_files.find(f"{tmp_path}/far/drain.yml", places) == f"{tmp_path}/far/drain.yml"
    assert hook_files.find("drain", places) == f"{tmp_path}/shipped/drain.yml"
    assert hook_files.find("shipped/slurm_drain", places) == f"{tmp_path}/shipped/slurm_drain.yml"
    assert hook_files.find("none.yml", places) == ""


@pytest.mark.parametrize("value", ["drain.yml", {"a": 1}, [1], [None], 5])
def test_what_is_no_list_of_files_is_refused(value: Any) -> None:
    files, problems = hook_files.search("mig_hooks_before", value, [])
    assert files == []
    assert problems == [
        f"mig_hooks_before: {value!r} is not valid: expected a list of task files."
        " Next step: write it as a list, such as [drain.yml]"
    ]


def test_the_order_of_hooks_is_kept_and_a_missing_one_is_named(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yml"):
        (tmp_path / name).touch()
    files, problems = hook_files.search("hooks", ["b.yml", "no.yml", "a.yml"], [str(tmp_path)])
    assert files == [f"{tmp_path}/b.yml", f"{tmp_path}/a.yml"]
    assert len(problems) == 1
    assert problems[0].startswith(f"hooks: 'no.yml' was not found: looked in {tmp_path}, ")
