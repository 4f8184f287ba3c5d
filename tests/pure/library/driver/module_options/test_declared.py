# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Options of kernel modules as users declare them: names, values, and which release of the driver has them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import render
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options import (
    declared,
    in_force,
    known,
    values,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.declared import (
    covers,
    judge,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

UUID = "GPU-0a1b2c3d-0000-1111-2222-0123456789ab"


def written(name: str, value: Any) -> str:
    """Return what is written for one option."""
    ((_name, text),) = parse({name: value})
    return text


def told(name: str, value: Any = 1, version: str = "580.95.05", **changes: Any) -> tuple[str, ...]:
    asked: dict[str, Any] = {"version": Version(version), "kind": "open", "itself": {}, **changes}
    return judge(parse({name: value}), **asked)


def test_options_are_named_as_users_know_them() -> None:
    found: dict[str, Any] = {"NVreg_B": True, "nvidia-drm.modeset": 1, "NVreg_A": "x=0x1;y=2"}
    assert parse(found) == (
        ("nvidia.NVreg_A", "x=0x1;y=2"),
        ("nvidia.NVreg_B", "1"),
        ("nvidia_drm.modeset", "1"),
    )
    assert parse(None) == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"NVreg A": 1}, "'NVreg A' is not valid"),
        ({"i915.modeset": 1}, "one of nvidia, nvidia_drm"),
        ({"NVreg_A": "1\ninstall nvidia /bin/sh"}, r"module_options\.NVreg_A: '1\\ninstall"),
        ({"NVreg_A": ""}, "a value of letters"),
        ({"NVreg_A": 1, "nvidia.NVreg_A": 2}, r"expected nvidia\.NVreg_A once only"),
        ({"NVreg_EnableMSI": 2}, r"module_options\.NVreg_EnableMSI: 2 .*expected 0 or 1"),
        ({"NVreg_EnableMSI": "maybe"}, "expected 0 or 1"),
        ({"NVreg_ImexChannelCount": 1 << 21}, "a number of 0 to 1048576"),
        ({"NVreg_ImexChannelCount": "many"}, "a number of 0 to 1048576"),
        ({"NVreg_UsePageAttributeTable": "0xffffffff"}, "a number of -1 to 1"),
        ({"NVreg_ResmanDebugLevel": "4294967295"}, "a whole number"),
        ({"NVreg_CoherentGPUMemoryMode": "Driver"}, "one of driver, numa"),
        ({"NVreg_DeviceFileMode": 660}, r"660 is not valid.*octal.*'0660'"),
        ({"NVreg_DeviceFileMode": "0o888"}, "octal"),
        ({"NVreg_ExcludedGpus": "GPU-0a1b2c3d"}, "whole UUIDs"),
        ({"NVreg_RegistryDwords": "RMFoo"}, "keys with numbers"),
        ({"NVreg_RegistryDwordsPerDevice": "RMFoo=1"}, "behind the address of a GPU"),
        ({"NVreg_TemporaryFilePath": "tmp"}, "an absolute path"),
        ({"nvidia_uvm.uvm_perf_access_counter_threshold": 0}, "a number of 1 to 65535"),
        # What the driver would set otherwise by itself, so that no load would ever bring it into force.
        ({"nvidia_uvm.uvm_cpu_chunk_allocation_sizes": "0x3000"}, "one of 0x1000"),
        (
            {"NVreg_CoherentGPUMemoryMode": "driver", "NVreg_EnableUserNUMAManagement": 1},
            r"NVreg_EnableUserNUMAManagement: '1' is not valid: expected 0, to which",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(given)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("NVreg_EnableMSI", False, "0"),
        ("NVreg_EnableMSI", "yes", "1"),
        ("nvidia_uvm.uvm_disable_hmm", "true", "1"),
        ("NVreg_EnableGpuFirmware", "0x12", "0x12"),
        ("NVreg_ResmanDebugLevel", -1, "-1"),
        ("NVreg_ExcludedGpus", f"{UUID},{UUID}", f"{UUID},{UUID}"),
        ("NVreg_RegistryDwordsPerDevice", "pci=0000:41:00.0;RMFoo=1;", "pci=0000:41:00.0;RMFoo=1;"),
        ("NVreg_RegistryDwords", "A=0x1; B=0x2", "A=0x1; B=0x2"),
        ("NVreg_DeviceFileMode", 0o660, "432"),
        ("NVreg_DeviceFileMode", "0660", "0660"),
        (
            "NVreg_DeviceFileMode",
            "0o660",
            "0660",
        ),  # as YAML 1.1 reads 0o660; the kernel knows no 0o
    ],
)
def test_values_are_written_as_the_kernel_reads_them(name: str, value: Any, text: str) -> None:
    assert written(name, value) == text


@given(st.integers(-(1 << 70), 1 << 70))
def test_no_number_is_written_that_the_kernel_would_refuse_at_the_load(value: int) -> None:
    """Its parameters are signed and of 32 bits, and a module with a bad value is not loaded."""
    try:
        text = written("NVreg_ResmanDebugLevel", value)
    except InputError:
        assert not -(1 << 31) <= value < 1 << 31
    else:
        assert int(text) == value
        assert -(1 << 31) <= value < 1 << 31


@given(st.text(), st.sampled_from([*known.TABLE]))
def test_no_value_brings_another_line_or_parameter(text: str, name: str) -> None:
    with contextlib.suppress(InputError):
        options = parse({name: text})
        ((_name, value),) = options
        assert values.TEXT.fullmatch(value.lstrip("-+"))
        own = render(options, nouveau=False, current=False)
        assert (own.count("\n"), in_force.parse_own(own)) == (2, dict(options))


def test_defaults_are_values_that_their_options_take() -> None:
    bad = [
        name
        for name, one in known.TABLE.items()
        if one.default and one.kind.written(one.default) is None
    ]
    assert bad == []
    assert (
        {name.partition(".")[0] for name in known.TABLE}
        == set(known.SOURCES)
        == set(declared.MODULES)
    )


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    """The kernel only logs that a parameter is unknown, and loads the module."""
    words = r"NVreg_RestrictProfilingToAdminUser: '0' .*did you mean NVreg_RestrictProfilingToAdminUsers\?"
    with pytest.raises(InputError, match=words):
        told("NVreg_RestrictProfilingToAdminUser", 0)
    with pytest.raises(InputError, match=r"an option of nvidia_drm.*Next step: correct the name"):
        told("nvidia_drm.modesets", version="")


def test_an_option_that_the_module_on_the_node_has_is_taken_for_that_version() -> None:
    there = {"nvidia.NVreg_Vendors": "580.95.05"}
    assert told("NVreg_Vendors", itself=there) == ()
    with pytest.raises(InputError, match=r"did you mean|no other name"):
        told("NVreg_Vendors", itself=there, version="580.126.09")
    assert (
        told(
            "NVreg_CoherentGPUMemoryMode",
            "numa",
            "570",
            itself={"nvidia.NVreg_CoherentGPUMemoryMode": "570.1"},
        )
        == ()
    )


@pytest.mark.parametrize("version", ["615", "615.71.09", "470.256.02", "580.178.04"])
def test_of_a_release_that_was_not_read_an_unknown_option_is_a_warning(version: str) -> None:
    (words,) = told("NVreg_CreateImexChanel0", version=version)
    assert "did you mean NVreg_CreateImexChannel0?" in words
    assert told("NVreg_CreateImexChannel0", version=version) == ()


@pytest.mark.parametrize("version", ["570", "570.211.01"])
def test_an_option_that_the_release_does_not_have_is_refused(version: str) -> None:
    words = rf"expected an option that the driver {version} has: this one is in 580 and later. Next step"
    with pytest.raises(InputError, match=words):
        told("NVreg_CoherentGPUMemoryMode", "driver", version)
    assert told("NVreg_CoherentGPUMemoryMode", "driver", "") == ()


@pytest.mark.parametrize(
    ("ranges", "has", "lacks"),
    [
        ("-", ["515", "595.45.04"], []),
        ("580-", ["580", "580.65.06", "615"], ["570", "570.211.01"]),
        ("-590", ["590.48.01", "590", "515"], ["595", "595.45.04"]),
        ("580.95.05-", ["580", "580.95.05", "590"], ["580.82.09", "575"]),
        ("-570.124.06", ["570", "570.86.15"], ["570.133.07", "575"]),
        ("-535.113.01 545-545", ["545.29.06", "535", "530"], ["535.129.03", "550"]),
        ("535.146.02-535 550-", ["535.146.02", "535.288.01", "550"], ["535.54.03", "545", "530"]),
    ],
)
def test_ranges_of_releases_hold_branches_and_versions(
    ranges: str, has: list[str], lacks: list[str]
) -> None:
    assert [one for one in has if not covers(ranges, Version(one))] == []
    assert [one for one in lacks if covers(ranges, Version(one))] == []


def test_what_is_ignored_or_deprecated_is_told() -> None:
    (ignored,) = told("NVreg_OpenRmEnableUnsupportedGpus")
    assert "it is ignored" in ignored
    assert told("NVreg_OpenRmEnableUnsupportedGpus", version="535.54.03") == ()
    (deprecated,) = told("NVreg_GpuBlacklist", UUID)
    assert "write NVreg_ExcludedGpus" in deprecated
    (firmware,) = told("NVreg_EnableGpuFirmware", 0)
    assert firmware == "module_options.NVreg_EnableGpuFirmware: the open kernel modules ignore it"
    assert told("NVreg_EnableGpuFirmware", 0, kind="proprietary") == ()
    assert told("NVreg_EnableSystemMemoryPools", 1, "590", kind="proprietary") != ()
