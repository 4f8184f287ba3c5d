# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The migration pages: each variable of the other tool is mapped, and what it is mapped to is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.tables import migration_tables as tables
from tests.docs.tables import own_names

PAGES = tables.pages()
LEAST = {
    "nvidia-device-plugin": 150,
    "gpu-operator": 400,
    "deepops": 250,
    "nvidia-driver-role": 20,
    "kubespray": 100,
    "hami": 250,
}
OURS = re.compile(
    r"(?<![\w.])(?:nvidia_driver|container_(?:runtime|toolkit)|device_plugin|node_labels|gpu_nodes|fractions"
    r"|validate|mig|cdi|dcgm)_[a-z_]+"
)
KEYS = {"to", "not_needed", "not_there"}


def rows(page: str) -> list[tables.Row]:
    return [row for _title, found in tables.mapped(page)[0] for row in found]


def upstream(page: str) -> set[str]:
    return {one for names in tables.recorded(page)["names"].values() for one in names}


def test_there_is_a_page_for_each_tool() -> None:
    assert sorted(LEAST) == PAGES
    index = (tables.FOLDER / "README.md").read_text()
    assert all(f"({page}.md)" in index for page in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_each_variable_of_the_other_tool_is_mapped(page: str) -> None:
    assert tables.mapped(page)[1] == []
    taken = [name for row in rows(page) for name in row.taken]
    assert len(taken) == sum(map(len, tables.recorded(page)["names"].values())) >= LEAST[page]
    assert len(tables.recorded(page)["commit"]) == 40


@pytest.mark.parametrize("page", PAGES)
def test_each_row_says_one_thing_and_stands_for_something(page: str) -> None:
    for row in rows(page):
        assert set(row.said) <= {"names", "note", *KEYS}, row.said
        assert len(KEYS & set(row.said)) == 1, row.said
        assert row.here(), row.said
        for pattern in row.said["names"]:
            assert any(tables.fits(name, pattern) for name in row.taken), pattern


@pytest.mark.parametrize("page", PAGES)
def test_what_it_is_mapped_to_is_there(page: str) -> None:
    ours = [name for row in rows(page) for name in row.said.get("to", ())]
    assert [name for name in ours if not own_names.known(name)] == []
    assert ours


@pytest.mark.parametrize("page", PAGES)
def test_the_texts_of_a_page_name_variables_that_are_there(page: str) -> None:
    said = tables.words(page)
    said |= {one for row in rows(page) for one in re.findall(r"`([^`]+)`", row.here())}
    found = {name for one in said for name in OURS.findall(one)}
    assert {one for one in found - upstream(page) if not own_names.known(one)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_its_table(page: str) -> None:
    assert tables.shown(page) == tables.table(page), "run make docs-tables"
    text = (tables.FOLDER / f"{page}.md").read_text()
    assert [one for one in upstream(page) if f"`{one}`" not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_an_example_commands_and_the_way_back(page: str) -> None:
    text = (tables.FOLDER / f"{page}.md").read_text()
    assert text.split("\n")[2].startswith("Task: ")
    for title in ("## Example", "## Commands", "## The way back"):
        assert f"\n{title}\n" in text, title
    assert "```yaml" in text
    assert "```console" in text
    assert "| pods that run |" in text or "pods" in text.split("## The way back")[0]


@pytest.mark.parametrize(
    "name",
    [
        "mig_configs",
        "flags.migStrategies",
        "dcgm_exporter.adress",
        "gpu.node.drains",
        "gpu.node.drain: timeouts",
        "gpu-plugin runs",
        "gpu-plugin run --kubelet-sockets",
        "MIG_STRATEGIES",
        "mig_config.first",
    ],
)
def test_a_name_that_is_not_there_is_found_out(name: str) -> None:
    assert not own_names.known(name)


def test_names_of_each_kind_are_known() -> None:
    for name in ("mig_config", "gpu_nodes_kubeconfig", "flags.migStrategy", "MIG_STRATEGY"):
        assert own_names.known(name), name
    for name in (
        "dcgm_exporter.address",
        "gpu.node.validate",
        "gpu.node.mig",
        "gpu.node.fractions",
    ):
        assert own_names.known(name), name
    for name in ("gpu-plugin status --json", "gpu.node.drain: timeout", "imex.channelIDs"):
        assert own_names.known(name), name
