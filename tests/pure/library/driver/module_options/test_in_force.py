# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in force of the options: what loaded modules show, and what wins at their next load."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import render
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.declared import parse
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    Other,
    differing,
    in_words,
    overruled,
    parse_own,
    parse_params,
)

# As 580's nv_procfs_read_params() prints them: numbers without a sign, texts in quotes.
PARAMS = """\
ResmanDebugLevel: 4294967295
DeviceFileMode: 438
RmProfilingAdminOnly: 1
EnableGpuFirmware: 18
RegistryDwords: "RMFoo=1"
ExcludedGpus: ""
nonsense
"""
LOADED = {
    **parse_params(PARAMS),
    "nvidia_drm.modeset": "Y",
    "nvidia_uvm.uvm_page_table_location": "(null)",
}


@pytest.mark.parametrize(
    "same",
    [
        {"NVreg_DeviceFileMode": "0x1B6"},
        {"NVreg_DeviceFileMode": "0666"},
        {"NVreg_DeviceFileMode": 0o666},
        {"NVreg_RegistryDwords": "RMFoo=1"},
        {"NVreg_ResmanDebugLevel": -1},
        {"NVreg_RestrictProfilingToAdminUsers": True},
        {"nvidia_drm.modeset": 1},
        {"NVreg_GpuInitOnProbe": 1},  # the driver does not show it
    ],
)
def test_what_the_loaded_modules_show_in_their_own_way_is_the_same(same: dict[str, Any]) -> None:
    assert differing(parse(same), LOADED, {}) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"NVreg_DeviceFileMode": 384}, "NVreg_DeviceFileMode is 438, not 384"),
        (
            {"NVreg_RestrictProfilingToAdminUsers": 0},
            "NVreg_RestrictProfilingToAdminUsers is 1, not 0",
        ),
        ({"NVreg_TemporaryFilePath": "/srv"}, ""),
        ({"nvidia_drm.modeset": 0}, "nvidia_drm.modeset is Y, not 0"),
        (
            {"nvidia_uvm.uvm_page_table_location": "sys"},
            "nvidia_uvm.uvm_page_table_location is (null), not sys",
        ),
    ],
)
def test_what_the_loaded_modules_have_otherwise_is_said(other: dict[str, Any], words: str) -> None:
    assert differing(parse(other), LOADED, {}) == ([words] if words else [])


def test_another_load_is_not_asked_for_where_another_file_wins_again() -> None:
    options = parse({"NVreg_RestrictProfilingToAdminUsers": 0})
    others = overruled(
        options,
        {"/etc/modprobe.d/zz.conf": "options nvidia NVreg_RestrictProfilingToAdminUsers=1\n"},
        "",
    )
    assert differing(options, LOADED, others) == []
    (words,) = in_words(options, others, LOADED)
    assert words == (
        "NVreg_RestrictProfilingToAdminUsers=0 is not in force: it is 1, as /etc/modprobe.d/zz.conf sets 1, "
        "which wins. Next step: remove it there, then run again"
    )


def test_what_wins_only_at_the_next_load_is_said_so() -> None:
    options = parse({"NVreg_EnableGpuFirmware": 18})
    others = {"nvidia.NVreg_EnableGpuFirmware": Other("0", "the kernel's command line")}
    (words,) = in_words(options, others, LOADED)
    assert words.startswith("NVreg_EnableGpuFirmware=18 is lost at the next load: the kernel's")


FILE = "/etc/modprobe.d/nvidia.conf"
PROFILING = "nvidia.NVreg_RestrictProfilingToAdminUsers"


@pytest.mark.parametrize(
    "parameters",
    [
        "NVreg_RestrictProfilingToAdminUsers=1",
        '"NVreg_RestrictProfilingToAdminUsers=1"',  # as NVIDIA's own role writes it
        '"NVreg_EnableMSI=0" "NVreg_RestrictProfilingToAdminUsers=1"',
        'NVreg_RestrictProfilingToAdminUsers="1"',
        "NVreg-RestrictProfilingToAdminUsers=1",
        "NVreg_RestrictProfilingToAdminUsers=1 # for nsight",
        "\\\n  NVreg_RestrictProfilingToAdminUsers=1",
    ],
)
def test_a_later_file_wins_in_each_form_that_the_kernel_takes(parameters: str) -> None:
    options = parse({"NVreg_RestrictProfilingToAdminUsers": 0})
    others = overruled(options, {FILE: f"options nvidia {parameters}\n"}, "")
    assert others == {PROFILING: Other("1", FILE)}


@pytest.mark.parametrize(
    "parameter",
    [
        "nvidia.NVreg_RestrictProfilingToAdminUsers=1",
        '"nvidia.NVreg_RestrictProfilingToAdminUsers=1"',
        "nvidia.NVreg-RestrictProfilingToAdminUsers=1",
    ],
)
def test_the_command_line_wins_in_each_form_that_the_kernel_takes(parameter: str) -> None:
    options = parse({"NVreg_RestrictProfilingToAdminUsers": 0})
    others = overruled(options, {}, f"BOOT_IMAGE=/x ro {parameter} quiet")
    assert others == {PROFILING: Other("1", "the kernel's command line")}


def test_a_value_with_blanks_is_written_in_quotes_and_is_then_in_force() -> None:
    value = "PowerMizerEnable=0x1; PerfLevelSrc=0x2222"
    options = parse({"NVreg_RegistryDwords": value})
    own = render(options, nouveau=False, current=False)
    assert f'options nvidia NVreg_RegistryDwords="{value}"\n' in own
    assert parse_own(own) == dict(options)
    assert differing(options, parse_params(f'RegistryDwords: "{value}"\n'), {}) == []
    other = overruled(options, {FILE: 'options nvidia NVreg_RegistryDwords="A=0x1; B=2"\n'}, "")
    assert other == {"nvidia.NVreg_RegistryDwords": Other("A=0x1; B=2", FILE)}
