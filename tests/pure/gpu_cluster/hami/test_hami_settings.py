# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's device-config.yaml and config.json."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from gpu_cluster.hami.nodes import HamiNode, shown
from gpu_cluster.hami.nodes import parse as parse_nodes
from gpu_cluster.hami.settings import Names, Settings, configured, parse
from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.config import configuration
from gpu_plugin.config.strict_yaml import ConfigError

from tests.support.refusals import refused_otherwise

# As HAMi's chart writes it with its usual values, other vendors' sections among them.
USUAL = """
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  overwriteEnv: false
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  preConfiguredDeviceMemory: 0
  memoryFactor: 1
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
  enableNumaTopology: false
  gpuCorePolicy: default
  libCudaLogLevel: 1
  runtimeClassName: ""
  migProfileAllowlist:
  - models: [ "A30" ]
    profiles: [ "1g.6gb", "2g.12gb" ]
cambricon: {resourceCountName: cambricon.com/vmlu}
iluvatars: [{chipName: MR-V100, commonWord: MR-V100}]
"""


def read(**keys: Any) -> Settings:
    return parse(yaml.safe_dump({"nvidia": keys}), "device-config.yaml")


def test_hamis_device_config_is_read_and_what_has_no_effect_named() -> None:
    found = parse(USUAL, "device-config.yaml")
    assert found == Settings(split_count=10, memory_scaling=1.0)
    told = "\n".join(found.notes)
    assert "nvidia.deviceSplitCount belongs to the nodes" in told
    assert "nvidia.migProfileAllowlist has no effect" in told
    assert "overwriteEnv" not in told  # it asks for nothing
    assert len(found.notes) == 3
    assert all("belongs to the nodes" in note for note in found.node_notes)
    assert len(found.node_notes) == 2


def test_each_key_by_each_of_its_names() -> None:
    found = read(
        resourceCountName="a.io/gpu",
        resourceMemoryName="a.io/mem",
        resourceMemoryPercentage="a.io/pct",
        resourceCoreName="a.io/cores",
        resourcePriority="a.io/prio",
        defaultMem=5000,
        defaultCores=20,
        defaultGPUNum=2,
        memoryFactor=1024,
        deviceSplitCount=4,
        deviceMemoryScaling=1.8,
        disablecorelimit=True,
    )
    names = Names("a.io/gpu", "a.io/mem", "a.io/pct", "a.io/cores", "a.io/prio")
    assert found == Settings(names, 5000, 20, 2, 1024, False, 4, 1.8)
    assert read(defaultMemory=5000, disableCoreLimit=True) == Settings(
        default_memory=5000, core_limit=False
    )
    assert read(gpuCorePolicy="disable") == Settings(core_limit=False)
    assert read(gpuCorePolicy="force") == Settings()


def test_no_section_is_hamis_defaults() -> None:
    for text in ("", "cambricon: {}", "nvidia:"):
        assert parse(text, "x") == Settings()


def test_a_switch_may_be_a_text_as_4paradigms_chart_has_it() -> None:
    for key in ("disablecorelimit", "disableCoreLimit"):
        for text in ("true", "True"):
            assert read(**{key: text}) == read(disableCoreLimit=True)
        assert read(**{key: "false"}) == read(disableCoreLimit=False)


@pytest.mark.parametrize("key", ["overwriteEnv", "enableNumaTopology"])
def test_a_switch_without_effect_is_noted_if_it_is_on(key: str) -> None:
    for off in (False, "false", "False"):
        assert read(**{key: off}).notes == ()
    for on in (True, "true"):
        (note,) = read(**{key: on}).notes
        assert f"nvidia.{key} has no effect: " in note


def test_what_has_no_effect_is_told() -> None:
    told = "\n".join(
        read(overwriteEnv=True, runtimeClassName="hami", deviceCoreScaling=2, defaultMemroy=1).notes
    )
    for key in ("overwriteEnv", "runtimeClassName", "deviceCoreScaling"):
        assert f"device-config.yaml: nvidia.{key} has no effect: " in told
    assert (
        "nvidia.defaultMemroy is not known and has no effect; did you mean defaultMemory?" in told
    )


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"defaultMemory": -1}, "nvidia.defaultMemory: -1 is not valid: expected a whole number"),
    ({"defaultMem": -1}, "nvidia.defaultMem: -1 is not valid"),
    ({"disablecorelimit": 1}, "nvidia.disablecorelimit: 1 is not valid"),
    ({"defaultCores": 101}, "nvidia.defaultCores: 101 is not valid"),
    ({"defaultGPUNum": "1"}, "nvidia.defaultGPUNum: '1' is not valid"),
    ({"deviceSplitCount": 0}, "nvidia.deviceSplitCount: 0 is not valid"),
    ({"deviceMemoryScaling": "2"}, "nvidia.deviceMemoryScaling: '2' is not valid"),
    ({"disableCoreLimit": ""}, "nvidia.disableCoreLimit: '' is not valid"),
    ({"disableCoreLimit": "yes"}, "nvidia.disableCoreLimit: 'yes' is not valid"),
    ({"gpuCorePolicy": "some"}, "nvidia.gpuCorePolicy: 'some' is not valid"),
    ({"resourceCoreName": "gpucores"}, "nvidia.resourceCoreName: 'gpucores' is not valid"),
    ({"resourceCoreName": "nvidia.com/gpumem"}, "two resources have one name"),
    ({"defaultMem": 1, "defaultMemory": 2}, "given twice"),
)


def test_what_cant_be_read_is_refused_by_its_key() -> None:
    assert refused_otherwise(lambda keys: read(**keys), REFUSED, ConfigError) == []


def test_what_is_no_configuration_is_refused() -> None:
    for text in ("a: [", "- nvidia", "nvidia: 3", "nvidia: {1: 2}", "a: " + "[" * 99):
        with pytest.raises(ConfigError, match=r"device-config\.yaml"):
            parse(text, "device-config.yaml")


def nodes(*rows: dict[str, Any]) -> dict[str, HamiNode]:
    return parse_nodes(json.dumps({"nodeconfig": list(rows)}), "config.json")


def test_nodes_of_hamis_config_json() -> None:
    row = {
        "name": "node-1",
        "operatingmode": "hami-core",
        "devicememoryscaling": 1.8,
        "devicesplitcount": 10,
        "migstrategy": "none",
        "filterdevices": {"uuid": [], "index": [0]},
    }
    found = nodes(row, {"name": "node-2", "operatingmode": "mig"})
    assert found == {
        "node-1": HamiNode(10, 1.8, "hami-core", ("0",)),
        "node-2": HamiNode(None, None, "mig"),
    }


def test_a_node_as_the_daemon_has_it() -> None:
    """What is printed is a configuration, with the values that HAMi gave the node."""
    text = shown(Settings(split_count=4, memory_scaling=1.5), HamiNode(split_count=7), "node-1")
    data = yaml.safe_load(text)["gpuNode"]
    assert data == {
        "allocation": "dra",
        "dra": {"splitCount": 7, "memoryScaling": 1.5, "oversubscribe": "best-effort"},
    }
    usual = yaml.safe_load(shown(Settings(), HamiNode(), "node-1"))["gpuNode"]["dra"]
    assert usual == {"splitCount": 10, "memoryScaling": 1}
    if "dra" in configuration.Config.__dataclass_fields__:
        configuration.parse(text)


REFUSED_NODES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": ""}, "nodeconfig[0].name"),
    ({"name": "a", "devicesplitcount": 0}, "nodeconfig[0].devicesplitcount: 0"),
    ({"name": "a", "devicememoryscaling": True}, "nodeconfig[0].devicememoryscaling: True"),
    ({"name": "a", "operatingmode": "x"}, "nodeconfig[0].operatingmode: 'x'"),
    ({"name": "a", "filterdevices": {"x": []}}, "nodeconfig[0].filterdevices"),
    ({"name": "a", "devicesplit": 1}, "nodeconfig[0].devicesplit"),
)


def test_a_node_that_cant_be_read_is_refused_by_its_key() -> None:
    assert refused_otherwise(nodes, REFUSED_NODES, ConfigError) == []


def test_schedulers_are_names_with_commas() -> None:
    assert configured(Settings()).schedulers == ("hami-scheduler",)
    found = configured(Settings(), schedulers="4pd-scheduler, hami-scheduler,4pd-scheduler")
    assert found.schedulers == ("4pd-scheduler", "hami-scheduler")


@pytest.mark.parametrize(
    "schedulers",
    [
        "",
        ",",
        "4pd scheduler",
        "4pd-scheduler,default-scheduler",
        "4pd/scheduler",
        "-x",
        '"||true||"',
        "a" * 254,
    ],
)
def test_schedulers_that_can_not_be_are_refused(schedulers: str) -> None:
    with pytest.raises(InputError, match=r"--hami-scheduler: .* is not valid: expected "):
        configured(Settings(), schedulers=schedulers)
