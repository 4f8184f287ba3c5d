# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Options that can't be meant are refused by the modules themselves, whoever gives them, before anything is read."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._device_plugin import (
    capability as deployment,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC as CDI
from ansible_collections.gpu.node.plugins.module_utils._generated.device_plugin import (
    SPEC as DEVICE_PLUGIN,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC as MIG
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml import real
from ansible_collections.gpu.node.plugins.module_utils._mig import capability as mig
from ansible_collections.gpu.node.plugins.module_utils._node.machine.facts import without_nvml

from tests.fakes.library.fakes import GPU, FakeHost

Spec = t.Mapping[str, t.Any]
DEVICE = {"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n"}


def params(spec: Spec, **given: t.Any) -> dict[str, t.Any]:
    """Return a module's options with their defaults."""
    return {name: one.get("default") for name, one in spec["argument_spec"].items()} | given


@pytest.mark.parametrize("path", ["nvidia.yaml", "cdi/nvidia.json", "./nvidia.yaml"])
def test_cdi_refuses_a_relative_path(path: str) -> None:
    with pytest.raises(InputError, match=r"^path: .* is not valid: expected an absolute path"):
        cdi.CdiCapability(FakeHost(), params(CDI, path=path), check_mode=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["wait_timeout", "lock_timeout"])
def test_mig_refuses_negative_times(option: str) -> None:
    given = params(MIG, selected="all-disabled", **{option: -1})
    with pytest.raises(
        InputError, match=f"^{option}: -1 is not valid: expected a number of seconds"
    ):
        mig.MigCapability(FakeHost(), given, check_mode=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["wait_timeout", "lock_timeout"])
def test_the_device_plugin_refuses_negative_times(option: str) -> None:
    given = params(DEVICE_PLUGIN, digest="x", **{option: -5})
    with pytest.raises(
        InputError, match=f"^{option}: -5 is not valid: expected a number of seconds"
    ):
        deployment.DevicePluginCapability(FakeHost(), given, check_mode=False)  # type: ignore[arg-type]


def test_missing_bindings_are_no_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "pynvml", None)
    given = params(MIG, selected="all-disabled")
    with pytest.raises(NodeError) as caught:
        mig.MigCapability(FakeHost(), given, check_mode=False).observe()  # type: ignore[arg-type]
    said = str(caught.value)
    assert (
        "this Python has no pynvml (nvidia-ml-py). Next step: install the virtual environment"
        in said
    )
    assert "gpu.node.device_plugin with tasks_from: environment" in said
    assert "libnvidia-ml" not in said


@pytest.mark.parametrize("there", [True, False])
def test_a_node_without_a_gpu_is_not_only_sent_for_a_driver(there: bool) -> None:
    files = {f"{GPU}/{name}": text for name, text in DEVICE.items()} if there else {}
    said = without_nvml(FakeHost(files))  # type: ignore[arg-type]
    assert said.startswith("bring up the driver first")
    assert ("the PCI bus shows no NVIDIA GPU" in said) is not there
