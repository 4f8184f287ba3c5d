# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the page of the migration has for 4paradigm's chart: the file to copy, the variables, and each of its values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.nodes import HamiNode
from gpu_cluster.hami.nodes import parse as parse_nodes
from gpu_cluster.hami.settings import NODE_SIDE, Names, Settings, configured, parse
from gpu_plugin._shared._base.dra.versions import OLDEST
from gpu_plugin._shared._base.dra.versions import text as version_text

from tests.fakes.cluster.hami_pods import MPS_NODES, Json, changed, exactly, limits, pod
from tests.support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "migration/hami.md").read_text()
SECTION = PAGE.partition("\n## From 4paradigm's chart\n")[2].partition("\n## ")[0]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Of values.yaml, for NVIDIA's GPUs: 4paradigm/k8s-vgpu-scheduler v2.2.13 and v2.3.8.
VALUES = (
    *("resourceName", "resourceMem", "resourceMemPercentage", "resourceCores", "resourcePriority"),
    *("schedulerName", "scheduler.defaultMem", "scheduler.defaultCores"),
    *("devicePlugin.deviceSplitCount", "devicePlugin.deviceMemoryScaling"),
    *("devicePlugin.deviceCoreScaling", "devicePlugin.disablecorelimit"),
    *("devicePlugin.migStrategy", "devicePlugin.runtimeClassName", "devicePlugin.libPath"),
    *("global.gpuHookPath", "devicePlugin.nvidianodeSelector"),
)


def blocks() -> tuple[str, Json]:
    """Return the section's file, and its variables."""
    file, variables = BLOCK.findall(SECTION)
    return file, yaml.safe_load(variables)


def settings(file: str, variables: Json) -> Settings:
    names = ",".join(variables["fractions_hami_schedulers"])
    choice = variables["fractions_count_alone"]
    return configured(parse(file, "x", needed=True), schedulers=names, count_alone=choice)


def test_the_pages_file_is_read() -> None:
    found = settings(*blocks())
    assert found == Settings(
        Names(),
        default_memory=5000,
        split_count=10,
        memory_scaling=1.0,
        count_alone="share",
        schedulers=("4pd-scheduler",),
    )
    assert [note.endswith(NODE_SIDE) for note in found.notes] == [True, True]
    assert found.node_notes == found.notes


def test_the_pages_variables_give_a_count_alone_the_default_memory() -> None:
    found = settings(*blocks())
    one = pod(limits(gpu=1), schedulerName="4pd-scheduler")
    assert exactly(one, settings=found)["capacity"] == {"requests": {"memory": "5000Mi"}}
    after, _mutation = changed(one, settings=found)
    assert after["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("disablecorelimit", '"true"', {"core_limit": False}),
        ("resourceCoreName", "nvidia.com/cores", {"names": Names(cores="nvidia.com/cores")}),
        ("defaultCores", "30", {"default_cores": 30}),
    ],
)
def test_each_value_may_be_another_in_the_pages_file(
    key: str, value: str, expected: dict[str, Any]
) -> None:
    file, variables = blocks()
    other, count = re.subn(rf"(?m)^(  {key}: )\S+", rf"\g<1>{value}", file)
    assert count == 1
    found = settings(other, variables)
    assert {name: getattr(found, name) for name in expected} == expected


def test_the_schedulers_of_other_charts_become_the_default_one() -> None:
    both = Settings(schedulers=("hami-scheduler", "4pd-scheduler"))
    for name in both.schedulers:
        for amounts in ({"gpu": 1}, {"gpu": 1, "gpumem": 1}, {}):
            one = pod(limits(**amounts), schedulerName=name)
            after, _found = changed(one, settings=both)
            assert after["spec"]["schedulerName"] == "default-scheduler"
    other = mutate(pod(limits(gpu=1, gpumem=1), schedulerName="volcano"), both, MPS_NODES)
    assert other.warnings == ("spec.schedulerName: pods of volcano are left as they are",)


def test_each_value_of_the_chart_is_on_the_page() -> None:
    missing = [name for name in VALUES if not re.search(rf"[` ]{re.escape(name)}(`|\n)", SECTION)]
    assert missing == []


def test_the_charts_settings_of_nodes_are_read() -> None:
    """Its ConfigMap is of another name than HAMi's."""
    row = {
        "name": "node-1",
        "devicememoryscaling": 1.8,
        "devicesplitcount": 10,
        "migstrategy": "none",
    }
    assert parse_nodes(json.dumps({"nodeconfig": [row]}), "x") == {"node-1": HamiNode(10, 1.8)}


@pytest.mark.parametrize("name", ["migration/hami.md", "fractions/hami.md", "fractions/install.md"])
def test_the_first_sentence_says_which_kubernetes_is_needed(name: str) -> None:
    paragraph = (DOCS / name).read_text().split("\n\n")[1].replace("\n", " ")
    first = re.split(r"(?<=[a-z]\.) ", paragraph)[0]
    assert f"Kubernetes {version_text(OLDEST)}" in first
    assert "keeps HAMi" in first or "hami" not in name
