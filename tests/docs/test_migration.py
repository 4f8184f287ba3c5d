# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The migration pages: each variable of the other tool is mapped, and what it is mapped to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def wrong(page: str) -> Iterator[str]:
    """Yield what is wrong with a page of migration."""
    recorded, text = tables.recorded(page), tables.text(page)
    yield from (f"{name} is not mapped" for name in tables.mapped(page)[1])
    taken = [name for row in rows(page) for name in row.taken]
    names = sum(map(len, recorded["names"].values()))
    if not len(taken) == names >= LEAST[page]:
        yield f"{len(taken)} names are mapped of {names}, which are {LEAST[page]} at least"
    if len(recorded["commit"]) != 40:
        yield "the commit that was read is not told"
    for row in rows(page):
        yield from wrong_row(row)
    ours = [name for row in rows(page) for name in row.said.get("to", ())]
    yield from (
        f"{name} is mapped to, and is not there" for name in ours if not own_names.known(name)
    )
    said = tables.words(page)
    said |= {one for row in rows(page) for one in re.findall(r"`([^`]+)`", row.here())}
    named = {name for one in said for name in OURS.findall(one)} - upstream(page)
    yield from (f"{name} is named, and is not there" for name in named if not own_names.known(name))
    if tables.shown(page) != tables.table(page):
        yield "its table is old: run make docs-tables"
    yield from (f"{one} is not on it" for one in upstream(page) if f"`{one}`" not in text)
    if not text.split("\n")[2].startswith("Task: "):
        yield "it does not begin with a task"
    wanted = ("\n## Commands\n", "\n## The way back\n", "```yaml", "```console")
    yield from (f"it lacks {one!r}" for one in wanted if one not in text)
    if "pods" not in text.partition("## The way back")[0]:
        yield "it does not say what becomes of pods that run"


def wrong_row(row: tables.Row) -> Iterator[str]:
    """Yield what is wrong with a row: it says one thing, of names that there are."""
    if not set(row.said) <= {"names", "note", *KEYS} or len(KEYS & set(row.said)) != 1:
        yield f"{row.said} says not just one thing"
    if not row.here():
        yield f"{row.said} says nothing"
    for pattern in row.said["names"]:
        if not any(tables.fits(name, pattern) for name in row.taken):
            yield f"{pattern} stands for no name"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_maps_all_of_the_other_tool_to_what_is_there(page: str) -> None:
    assert list(wrong(page)) == []


def test_a_name_that_is_not_there_is_found_out() -> None:
    wrong = (
        "mig_configs",
        "flags.migStrategies",
        "dcgm_exporter.adress",
        "gpu.node.drains",
        "gpu.node.drain: timeouts",
        "gpu-plugin runs",
        "gpu-plugin run --kubelet-sockets",
        "MIG_STRATEGIES",
        "mig_config.first",
    )
    assert [name for name in wrong if own_names.known(name)] == []


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
