# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration: what is taken, what wins, and what is refused in which words."""

from __future__ import annotations

import contextlib
import json

import pytest
from gpu_plugin.config.configuration import KEYS, Config, ContainerConfig, DriverConfig, parse
from gpu_plugin.config.sharing import Sharing
from gpu_plugin.config.strict_yaml import ConfigError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import refused_otherwise

FULL = """
version: v1
flags:
  migStrategy: mixed
  failOnInitError: true
  nvidiaDriverRoot: /run/nvidia/driver
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, volume-mounts]
    deviceIDStrategy: index
"""


def test_nothing_given_means_the_defaults() -> None:
    assert parse("") == Config()
    assert parse("{}") == parse("version: v1") == parse("flags:") == Config()


def test_each_key_is_read() -> None:
    assert parse(FULL) == Config(
        mig_strategy="mixed",
        driver=DriverConfig(fail_on_init_error=True, root="/run/nvidia/driver"),
        containers=ContainerConfig(
            pass_device_specs=True,
            device_list_strategies=("envvar", "volume-mounts"),
            device_id_strategy="index",
        ),
    )


def test_json_is_fine_as_well() -> None:
    assert parse(json.dumps({"flags": {"migStrategy": "single"}})).mig_strategy == "single"


def test_a_file_of_nvidias_with_default_values_works_unchanged() -> None:
    text = """
version: v1
flags:
  migStrategy: none
  failOnInitError: false
  nvidiaDriverRoot: /
  mpsRoot: /run/nvidia/mps
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  deviceDiscoveryStrategy: auto
  useNodeFeatureAPI: null
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: envvar
    deviceIDStrategy: uuid
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
  gfd:
    oneshot: false
    noTimestamp: false
    sleepInterval: 60s
    outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd
    machineTypeFile: /sys/class/dmi/id/product_name
resources: {}
sharing:
  timeSlicing: {}
imex: {channelIDs: [], required: false}
"""
    assert parse(text) == Config(sharing=Sharing(mps_root="/run/nvidia/mps"))


def test_a_flag_wins_over_the_environment_over_the_file() -> None:
    def strategy(file: str | None, env: str | None, flag: str | None) -> str:
        text = f"flags: {{migStrategy: {file}}}" if file else ""
        environment = {} if env is None else {"MIG_STRATEGY": env}
        flags = {} if flag is None else {"flags.migStrategy": flag}
        return parse(text, env=environment, flags=flags).mig_strategy

    assert strategy("single", None, None) == "single"
    assert strategy("single", "mixed", None) == "mixed"
    assert strategy("single", "mixed", "none") == "none"
    assert strategy(None, "mixed", None) == "mixed"
    assert strategy(None, "", None) == "none"
    assert strategy(None, None, "single") == "single"


def test_booleans_of_the_environment_are_gos() -> None:
    for text, expected in {"1": True, "True": True, "f": False}.items():
        assert parse("", env={"PASS_DEVICE_SPECS": text}).containers.pass_device_specs is expected


def test_lists_of_the_environment_are_comma_separated() -> None:
    config = parse("", env={"DEVICE_LIST_STRATEGY": "envvar, volume-mounts"})
    assert config.containers.device_list_strategies == ("envvar", "volume-mounts")


REFUSED = {
    "flags:\n  migStratgy: none": (
        "c.yaml: line 2: unknown key flags.migStratgy",
        "did you mean flags.migStrategy?",
    ),
    "flags:\n  passDeviceSpecs: true": ("did you mean flags.plugin.passDeviceSpecs?",),
    "flags: {renameByDefault: true}\nsharing: {timeSlicing: {resources: []}}": (
        "did you mean sharing.timeSlicing.renameByDefault?",
    ),
    "flags: {renameByDefault: true}\nsharing: {mps: {resources: []}}": (
        "did you mean sharing.mps.renameByDefault?",
    ),
    "flags: {renameByDefault: true}": (
        "did you mean sharing.mps.renameByDefault or sharing.timeSlicing.renameByDefault?",
    ),
    "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, renameByDefault: true}]}}": (
        "did you mean sharing.timeSlicing.renameByDefault?",
    ),
    "flags:\n  sharing: {}": ("unknown key flags.sharing", "did you mean sharing?"),
    "flgs: {}": ("did you mean flags?",),
    "zzz: 1": ("unknown key zzz", "the top level knows flags, gpuNode, imex"),
    "flags:\n  migStrategy: none\n  migStrategy: none": (
        "line 3: flags.migStrategy is given twice",
        "line 2",
    ),
    "flags:\n  migStrategy: some": ("'some' is not valid", "expected one of none, single, mixed"),
    "flags:\n  migStrategy: 1": ("1 is not valid", "expected a string"),
    "flags:\n  failOnInitError: 'true'": ("expected true or false",),
    "flags:\n  nvidiaDevRoot: dev": ("expected an absolute path",),
    "flags: none": ("flags is not a mapping",),
    "[1]": ("the file is not a mapping",),
    "a: [": ("line 1: not valid YAML",),
    "a: 1\n---\nb: 1": ("not valid YAML",),
    "version: v2": ("version: 'v2' is not valid", "expected one of v1"),
    "version: 1": ("version: 1 is not valid",),
    "flags:\n  plugin:\n    deviceListStrategy: envars": ("'envars' is not valid",),
    "flags:\n  plugin:\n    deviceListStrategy: []": ("nothing is given", "one or more of"),
    "flags:\n  plugin:\n    deviceListStrategy: [{a: b}]": ("is not valid",),
    "flags:\n  mpsRoot: mps": ("flags.mpsRoot: 'mps' is not valid", "an absolute path"),
    "flags:\n  deviceDiscoveryStrategy: tegra": (
        "line 2: flags.deviceDiscoveryStrategy: 'tegra' is not supported by this release",
        "through NVML alone",
    ),
    "flags:\n  deviceDiscoveryStrategy: pci": ("'pci' is not valid", "expected one of auto, nvml"),
    "flags: {plugin: {nvidiaCTKPath: nvidia-ctk}}": ("expected an absolute path",),
    "flags: {plugin: {containerDriverRoot: driver}}": ("expected an absolute path",),
    "imex: {channelIDs: [1]}": ("imex.channelIDs: '1' is not valid", "one or more of 0"),
    "&a flags: *a": ("flags is not a mapping",),
    "? [1]\n: 2": ("unknown key",),
}


def test_refusals_say_where_and_what() -> None:
    cases = ((text, ("refused: c.yaml: ", *words)) for text, words in REFUSED.items())
    assert refused_otherwise(lambda text: parse(text, "c.yaml"), cases, ConfigError) == []


def test_the_environment_is_refused_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match="environment variable MPS_ROOT: 'x' is not valid"):
        parse("", env={"MPS_ROOT": "x"})
    with pytest.raises(ConfigError, match="DP_DISABLE_HEALTHCHECKS: 'xid' is not valid"):
        parse("", env={"DP_DISABLE_HEALTHCHECKS": "xid"})
    with pytest.raises(
        ConfigError, match="CDI_FEATURE_FLAGS: 'enable-coherent-annotations' is not"
    ):
        parse("", env={"CDI_FEATURE_FLAGS": "disable-nvsandboxutils,enable-coherent-annotations"})
    with pytest.raises(ConfigError, match="PASS_DEVICE_SPECS: 'maybe' is not valid"):
        parse("", env={"PASS_DEVICE_SPECS": "maybe"})


def test_a_flag_is_refused_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match="flag --mig-strategy: 'x' is not valid"):
        parse("", flags={"flags.migStrategy": "x"})


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([part for key in KEYS for part in key.path.split(".")]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_structure_breaks_the_parser(data: object) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse(json.dumps(data)), Config)
