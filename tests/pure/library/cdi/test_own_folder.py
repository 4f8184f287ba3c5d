# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver in a folder of its own, which the linker's cache names: what containers get of it.

Laid out as images of clouds have it: the driver in /usr/local/nvidia, and scripts in /usr/bin that start its programs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Status

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import VERSION, FakeNvml

PROGRAMS = ("nvidia-smi", "nvidia-debugdump")


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu(0))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)
    return fake


def in_a_folder_of_its_own(root: str = "") -> FakeHost:
    """Return a machine whose driver has a folder of its own, with scripts in /usr/bin that start its programs."""
    host = FakeHost({f"{root}/dev/nvidia0": ""})
    own = f"{root}/usr/local/nvidia"
    for path in (f"lib64/libcuda.so.{VERSION}", f"lib64/libnvidia-ml.so.{VERSION}"):
        host.files[f"{own}/{path}"] = ""
    host.links[f"{own}/lib64/libnvidia-ml.so.1"] = f"libnvidia-ml.so.{VERSION}"
    for path in (f"{own}/bin/nvidia-smi", *(f"{root}/usr/bin/{one}" for one in PROGRAMS)):
        host.files[path] = ""
    host.commands["ldconfig", "-p", *(("-C", f"{root}/etc/ld.so.cache") if root else ())] = (
        "\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6\n"
        f"\tlibcuda.so.1 (libc6,x86-64) => /usr/local/nvidia/lib64/libcuda.so.{VERSION}\n"
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/local/nvidia/lib64/libnvidia-ml.so.1\n"
    )
    return host


def programs(host: FakeHost, **params: Any) -> dict[str, str]:
    """Return the programs that a container gets, by their places in it."""
    defaults: dict[str, Any] = {
        name: option["default"] for name, option in SPEC["argument_spec"].items()
    }
    one = cdi.CdiCapability(host, {**defaults, "boot": False, **params}, check_mode=False)
    for step in one.plan(one.observe()).steps:
        one.apply(step)
    mounts = json.loads(host.files[PATH])["containerEdits"]["mounts"]
    found = {one["containerPath"]: one["hostPath"] for one in mounts}
    return {path: at for path, at in found.items() if ".so" not in path}


def test_programs_come_from_beside_the_libraries_and_lie_where_images_look_for_them(
    nvml: FakeNvml,
) -> None:
    found = programs(in_a_folder_of_its_own())
    assert found["/usr/bin/nvidia-smi"] == "/usr/local/nvidia/bin/nvidia-smi"
    assert found["/usr/bin/nvidia-debugdump"] == "/usr/bin/nvidia-debugdump"


def test_programs_of_a_folder_that_everybody_may_write_to_are_refused(nvml: FakeNvml) -> None:
    host = in_a_folder_of_its_own()
    host.statuses["/usr/local/nvidia/bin"] = Status(0o040777, 0)
    with pytest.raises(NodeError, match=r"would give containers /usr/local/nvidia/bin/nvidia-smi"):
        programs(host)


def test_nvml_of_another_root_is_found_by_the_cache_of_that_root(nvml: FakeNvml) -> None:
    found = programs(in_a_folder_of_its_own("/run/driver"), driver_root="/run/driver")
    assert nvml.loaded == [f"/run/driver/usr/local/nvidia/lib64/libnvidia-ml.so.{VERSION}"]
    assert found["/usr/bin/nvidia-smi"] == "/run/driver/usr/local/nvidia/bin/nvidia-smi"


def test_nvml_of_a_folder_that_everybody_may_write_to_is_not_loaded(nvml: FakeNvml) -> None:
    host = in_a_folder_of_its_own("/run/driver")
    host.statuses["/run/driver/usr/local/nvidia/lib64"] = Status(0o040777, 0)
    with pytest.raises(
        NodeError, match="everybody may write to /run/driver/usr/local/nvidia/lib64"
    ):
        programs(host, driver_root="/run/driver")
    assert nvml.loaded == [""]
