# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every example of the pages is carried through what would apply it: modules, the daemon's readers, a role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import kinds, rendered
from tests.docs.tables import examples, pages

EVERY = [one for page in pages.pages() for one in examples.examples(page)]
Made = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """What Ansible makes of each example."""
    return rendered.every([one.data for one in EVERY], tmp_path_factory.mktemp("files"))


def wrong(given: Made) -> Iterator[str]:
    """Yield what would be refused of an example."""
    yield from filter(None, [given.get("error")])
    values = given.get("values", {})
    for variable, value in values.items():
        yield from examples.refused(variable, value)
    if values:
        yield from rendered.refused(values)
        yield from rendered.wrong_cluster(given["objects"])


@pytest.mark.parametrize(
    "at", range(len(EVERY)), ids=lambda at: f"{EVERY[at].page}-{EVERY[at].number}"
)
def test_an_example_is_one_that_would_be_applied(at: int, made: list[Made]) -> None:
    one = EVERY[at]
    assert [*kinds.twice(one.text), *kinds.wrong(one.data), *wrong(made[at])] == []


BROKEN: dict[str, tuple[Any, str]] = {
    "a name in the place of a text": (
        {"fractions_image": "a", "fractions_device_config": "device-config.yaml"},
        "section nvidia",
    ),
    "a template that can't be rendered": (
        {"mig_config": "{{ layouts }}"},
        "'layouts' is undefined",
    ),
    "a strategy without its handler": (
        {"device_plugin_config": {"flags": {"plugin": {"deviceListStrategy": "envvar"}}}},
        "device_plugin_config: flags.plugin.deviceListStrategy: ['envvar'] is not valid",
    ),
    "a key that the daemon does not know": (
        {"device_plugin_configs": {"few": {"gpuNode": {"metrics": "off"}}}},
        "device_plugin_configs.few: unknown key gpuNode.metrics",
    ),
    "an address that is none": (
        {"device_plugin_config": {"gpuNode": {"metricsAddress": "{{ inventory_hostname }}:9402"}}},
        "device_plugin_config: gpuNode.metricsAddress: 'node-1:9402' is not valid",
    ),
    "a layout that fits no GPU": (
        {"mig_config": [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 3}}]},
        "3 x 3g.40gb do not fit",
    ),
    "a wrong type": ({"validate_gpu_count": "many"}, "validate_gpu_count"),
    "a source that lacks another variable": (
        {"nvidia_driver_source": "repository"},
        "nvidia_driver_repository: None is not valid: expected its url and its key, or its preset",
    ),
    "a task's option": (
        [{"name": "Validate", "gpu.node.validate": {"component": ["driver"]}}],
        "component",
    ),
    "the daemon's file": ({"flags": {"migStrategy": "mix"}}, "'mix' is not valid"),
    "what nobody knows": ({"some": "thing"}, "it is of no kind that a test carries out"),
}


@pytest.mark.parametrize("row", BROKEN)
def test_a_broken_example_is_seen(row: str, tmp_path: Path) -> None:
    data, said = BROKEN[row]
    (made,) = rendered.every([data], tmp_path)
    assert said in " ".join([*kinds.wrong(data), *wrong(made)])


def test_a_key_that_is_given_twice_is_seen() -> None:
    assert kinds.twice("a: 1\nb: {a: 2}\n") == []
    assert "twice in ['a', 'a']" in kinds.twice("a: 1\na: 2\n")[0]


def test_there_is_an_example_of_each_kind() -> None:
    assert {kinds.kind(one.data) for one in EVERY} == set(kinds.KINDS)
