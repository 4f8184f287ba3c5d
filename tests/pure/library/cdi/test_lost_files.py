# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A specification doesn't follow files that installed packages have lost: containers would lose them silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine import specify
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.cdi import (
    FILES,
    SpecificationState,
    checks,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import CdiReport
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.gpus import current
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import CURRENT, VERSION, FakeNvml, HostWithDriver

CUDA, SMI = f"{CURRENT}/libcuda.so.{VERSION}", "/usr/lib/nvidia/current/nvidia-smi"
OWNED = f"libcuda1:amd64: {CUDA}\nnvidia-smi: {SMI}\n"
INSTALLED = "ii  libcuda1\nhi  nvidia-smi\n"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu(0))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)
    return fake


@pytest.fixture
def host(nvml: FakeNvml) -> HostWithDriver:
    """Return a node whose specification is up to date, by dpkg."""
    machine = HostWithDriver()
    steps = run(machine)
    assert steps != []
    machine.commands["dpkg-query", "-S"] = lambda words: Completed(
        0, "".join(f"{line}\n" for line in OWNED.splitlines() if line.split(": ")[1] in words), ""
    )
    machine.commands["dpkg-query", "-W"] = INSTALLED
    machine.commands["apt-get",] = ""
    return machine


def run(host: HostWithDriver, *, check_mode: bool = False) -> list[str]:
    defaults: dict[str, Any] = {
        name: option["default"] for name, option in SPEC["argument_spec"].items()
    }
    one = cdi.CdiCapability(host, {**defaults, "boot": False}, check_mode=check_mode)
    steps = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    return [step.summary for step in steps]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_file_that_a_package_has_lost_is_refused_with_the_package(
    host: HostWithDriver, *, check_mode: bool
) -> None:
    before = host.files[PATH]
    del host.files[CUDA], host.files[SMI]
    with pytest.raises(NodeError) as refused:
        run(host, check_mode=check_mode)
    assert str(refused.value) == (
        f"files of installed packages are gone: {SMI} (nvidia-smi), {CUDA} (libcuda1): "
        "the CDI specification, and containers with it, would lose them. "
        "Next step: apt-get install --reinstall libcuda1 nvidia-smi, then run again"
    )
    assert host.files[PATH] == before


def test_what_is_no_packages_is_followed(host: HostWithDriver) -> None:
    """As after NVIDIA's own installer, or where a package is about to go."""
    del host.files[CUDA], host.files[SMI]
    host.commands["dpkg-query", "-W"] = "iU  libcuda1\nrc  nvidia-smi\n"
    assert run(host) == [f"{PATH}: follow the files of the driver"]


def test_a_node_on_which_nothing_is_gone_asks_no_package_manager(host: HostWithDriver) -> None:
    host.ran.clear()
    assert run(host) == []
    assert [words for words in host.ran if words[0] in ("dpkg-query", "rpm")] == []


def test_rpm_is_asked_where_it_has_the_packages(host: HostWithDriver) -> None:
    for words in (("dpkg-query", "-S"), ("dpkg-query", "-W"), ("apt-get",)):
        del host.commands[words]
    told = "nvidia-driver-cuda-libs\nfile /lib/x is not owned by any package\n"
    host.commands |= {("rpm",): told, ("dnf",): ""}
    del host.files[CUDA]
    with pytest.raises(NodeError, match=r"\(nvidia-driver-cuda-libs\).*Next step: dnf reinstall "):
        run(host)


def test_dpkg_may_know_a_file_by_its_path_before_the_folders_were_merged() -> None:
    told = "libc6:amd64, libc6:i386: /lib/x/libcuda.so.1\ndiversion by glx from: /usr/lib/x/a.so\n"
    assert specify.by_dpkg(told) == {"/lib/x/libcuda.so.1": "libc6"}
    assert specify.aliases("/usr/lib/x/libcuda.so.1") == (
        "/usr/lib/x/libcuda.so.1",
        "/lib/x/libcuda.so.1",
    )


def test_a_validation_names_the_package(host: HostWithDriver, nvml: FakeNvml) -> None:
    options = cdi_boot.Options(PATH)
    host.files[cdi_boot.CONFIG] = cdi_boot.dump(options)
    assert current(host, nvml) == SpecificationState()  # type: ignore[arg-type]
    del host.files[CUDA]
    found = current(host, nvml)  # type: ignore[arg-type]
    report = CdiReport(PATH, devices=("all",), missing=(CUDA,))
    (files,) = (one for one in checks(report, None, found) if one.name == FILES)
    assert files.state == "failed"
    assert files.cause.startswith(f"files of installed packages are gone: {CUDA} (libcuda1)")
    assert files.next_step.startswith("apt-get install --reinstall libcuda1")


@pytest.mark.parametrize("text", [None, "", "kind: nvidia.com/gpu\n", "[]", '{"devices": 1}'])
def test_a_specification_that_is_not_ours_loses_nothing(text: str | None) -> None:
    assert specify.files_named(text) == frozenset()


def test_mounts_and_hooks_of_all_and_of_devices_count() -> None:
    edits = {
        "mounts": [{"hostPath": "/a"}, {"hostPath": "/run/nvidia-persistenced/socket"}],
        "hooks": [{"path": "/hook"}],
    }
    devices = [{"name": "0", "containerEdits": {"mounts": [{"hostPath": "/b"}]}}]
    text = json.dumps({"devices": devices, "containerEdits": edits})
    assert specify.files_named(text) == {"/a", "/b", "/hook"}
