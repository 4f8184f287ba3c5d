# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The specification as nvidia-ctk writes it, and how it differs from our own.

The stand-in's output has the shape that the toolkit's documentation shows; what the genuine program
writes on a node with GPUs was not seen.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._cdi import generated as cdi_generated
from ansible_collections.gpu.node.plugins.module_utils._cdi.rules import problems
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import CURRENT, VERSION, FakeNvml, HostWithDriver

CTK, HOOK = "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-cdi-hook"
OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def device(name: str, *nodes: str) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"deviceNodes": [{"path": one} for one in nodes]}}


def hook(*words: str) -> dict[str, Any]:
    return {"hookName": "createContainer", "path": HOOK, "args": ["nvidia-cdi-hook", *words]}


def mount(path: str) -> dict[str, Any]:
    return {"hostPath": path, "containerPath": path, "options": OPTIONS}


def generated(uuids: list[str]) -> dict[str, Any]:
    nodes = [f"/dev/nvidia{index}" for index, _uuid in enumerate(uuids)]
    devices = [device(str(index), node) for index, node in enumerate(nodes)]
    devices += [device(uuid, node) for uuid, node in zip(uuids, nodes, strict=True)]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [*devices, device("all", *reversed(nodes))],
        "containerEdits": {
            "env": ["NVIDIA_CTK_LIBCUDA_DIR=" + CURRENT, "NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": f"/dev/nvidia{one}"} for one in ("-uvm-tools", "-uvm", "ctl")],
            "hooks": [
                hook("create-symlinks", "--link", f"libcuda.so.1::{CURRENT}/libcuda.so"),
                hook("enable-cuda-compat", f"--host-driver-version={VERSION}"),
                hook("update-ldcache", "--folder", CURRENT),
            ],
            "mounts": [mount(f"{CURRENT}/libcuda.so.{VERSION}"), mount("/usr/bin/nvidia-smi")],
        },
    }


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu(0), gpu(1))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)
    return fake


@pytest.fixture
def host(nvml: FakeNvml) -> HostWithDriver:
    found = HostWithDriver()
    install(found, generated([one.uuid for one in nvml.found]))
    return found


def install(host: FakeHost, spec: Any, version: str = "1.20.1") -> None:
    host.commands[("nvidia-ctk",)] = ""
    host.commands[(CTK, "--version")] = f"NVIDIA Container Toolkit CLI version {version}\n"
    host.commands[(CTK, "cdi", "generate")] = spec if isinstance(spec, str) else json.dumps(spec)


def capability(host: FakeHost, *, check_mode: bool = False, **params: Any) -> cdi.CdiCapability:
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    values = {**defaults, "boot": False, "generator": "nvidia-ctk", **params}
    return cdi.CdiCapability(host, values, check_mode=check_mode)


def converge(host: FakeHost, **params: Any) -> list[str]:
    one = capability(host, **params)
    steps = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    return [step.summary for step in steps]


def test_it_is_written_whole_and_left_alone_then(host: HostWithDriver, nvml: FakeNvml) -> None:
    uuids = [one.uuid for one in nvml.found]
    assert len(converge(host)) == 1
    words = (CTK, "cdi", "generate", "--format=json", "--device-name-strategy=index")
    assert (*words, "--device-name-strategy=uuid") in host.ran
    assert problems(host.spec()) == []
    assert sorted(host.names()) == sorted(["0", "1", *uuids, "all"])
    assert [one["args"][1] for one in host.spec()["containerEdits"]["hooks"]] == [
        "create-symlinks",
        "enable-cuda-compat",
        "update-ldcache",
    ]
    shuffled = generated(uuids)
    shuffled["devices"].reverse()
    shuffled["containerEdits"]["mounts"].reverse()
    install(host, shuffled)
    assert converge(host) == [], "the order in which things are found means nothing"
    one = capability(host)
    assert one.result(one.observe(), one.plan(one.observe()))["hook"] == CTK


def test_what_is_gone_from_it_goes_from_the_file(host: HostWithDriver, nvml: FakeNvml) -> None:
    converge(host)
    uuids = [one.uuid for one in nvml.found]
    install(host, generated(uuids[:1]))
    assert converge(host) == [f"{PATH}: remove 1, {uuids[1]}"]


def test_it_is_not_asked_where_there_is_no_device(host: HostWithDriver, nvml: FakeNvml) -> None:
    converge(host)
    nvml.found.clear()
    host.ran.clear()
    assert converge(host) == [f"remove {PATH}"]
    assert not [words for words in host.ran if "generate" in words]


def test_driver_below_another_root_is_told_to_it(nvml: FakeNvml) -> None:
    host = HostWithDriver("/run/driver")
    install(host, generated([nvml.found[0].uuid]))
    converge(host, driver_root="/run/driver")
    assert any("--driver-root=/run/driver" in words for words in host.ran)


def test_going_back_to_our_own(host: HostWithDriver) -> None:
    converge(host)
    host.commands.pop(("nvidia-ctk",))
    assert len(converge(host, generator="nvml")) == 1
    assert "hooks" not in host.spec()["containerEdits"]


@pytest.mark.parametrize("params", [{}, {"generator": "nvml", "compare": True}])
def test_without_the_program_it_is_named(nvml: FakeNvml, params: dict[str, Any]) -> None:
    host = HostWithDriver()
    with pytest.raises(NodeError, match=r"nvidia-ctk is not on the node: .*container_toolkit"):
        capability(host, **params).observe()
    one = capability(host, check_mode=True, **params)
    plan = one.plan(one.observe())
    assert plan.steps[0].summary.endswith("once nvidia-ctk is installed")
    assert "known only after it is installed" in plan.warnings[0]


def test_a_version_with_known_holes_is_refused(host: HostWithDriver) -> None:
    install(host, {}, "1.19.0")
    with pytest.raises(NodeError, match=r"has version 1\.19\.0: before 1\.19\.1 containers"):
        converge(host)
    assert PATH not in host.files


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda spec: spec.update(extra=1), "extra: there is no such key"),
        (lambda spec: spec["devices"].clear(), "there must be one at least"),
        (lambda spec: spec["devices"][0].update(name="a b"), "'a b' is not a device name"),
        (lambda spec: spec.update(kind="nvidia.com/nic"), "'nvidia.com/nic' is not nvidia.com/gpu"),
        (lambda spec: spec.update(cdiVersion="9.9.9"), "'9.9.9' is not one of"),
        (lambda spec: spec.update(cdiVersion="0.3.0"), "the content needs 0.5.0"),
    ],
)
def test_what_is_not_valid_is_not_written(host: HostWithDriver, damage: Any, told: str) -> None:
    converge(host)
    before = host.files[PATH]
    spec = json.loads(str(host.commands[(CTK, "cdi", "generate")]))
    damage(spec)
    install(host, spec)
    with pytest.raises(NodeError, match=f"wrote no valid CDI specification: .*{told}"):
        converge(host)
    install(host, "Failed: no GPU\n")
    with pytest.raises(NodeError, match="wrote no valid CDI specification"):
        converge(host)
    host.commands[(CTK, "cdi", "generate")] = Completed(1, "", "no NVML")
    with pytest.raises(NodeError, match="no NVML"):
        converge(host)
    assert host.files[PATH] == before


@pytest.mark.parametrize("params", [{"hooks": "never"}, {"library_folders": ["/usr/lib64"]}])
def test_options_of_our_own_generator_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match="generator: 'nvidia-ctk' is not valid: expected hooks auto"
    ):
        capability(FakeHost(), **params)


def test_comparison_tells_what_each_has_alone(host: HostWithDriver, nvml: FakeNvml) -> None:
    one = capability(host, generator="nvml", compare=True, check_mode=True)
    state = one.observe()
    found = one.result(state, one.plan(state))["differences"]
    libraries = [row["name"] for row in found if row["what"] == "mount" and row["only"] == "nvml"]
    assert f"{CURRENT}/libnvidia-ml.so.{VERSION}" in libraries
    rest = [row for row in found if row["what"] != "mount"]
    whole = {"device": "", "only": "nvidia-ctk"}
    assert rest == [
        {"what": "env", "name": f"NVIDIA_CTK_LIBCUDA_DIR={CURRENT}", **whole},
        {"what": "hook", "name": "disable-device-node-modification", "device": "", "only": "nvml"},
    ]
    assert PATH not in host.files
    assert "differences" not in capability(host).result(state, one.plan(state))


def test_differences_of_devices_and_nodes() -> None:
    ours = generated(["GPU-a", "GPU-b"])
    theirs = copy.deepcopy(ours)
    assert cdi_generated.differences(ours, theirs) == []
    theirs["devices"] = [one for one in theirs["devices"] if one["name"] != "GPU-b"]
    theirs["devices"][0]["containerEdits"]["deviceNodes"].append({"path": "/dev/dri/card0"})
    theirs["containerEdits"]["mounts"][0]["containerPath"] = "/elsewhere"
    path = f"{CURRENT}/libcuda.so.{VERSION}"
    assert cdi_generated.differences(ours, theirs) == [
        {"what": "device", "name": "GPU-b", "device": "", "only": "nvml"},
        {"what": "node", "name": "/dev/dri/card0", "device": "0", "only": "nvidia-ctk"},
        {"what": "mount", "name": path, "device": "", "only": "nvml"},
        {"what": "mount", "name": f"{path} at /elsewhere", "device": "", "only": "nvidia-ctk"},
    ]


def test_newer_parts_of_the_format_are_known() -> None:
    spec = generated(["GPU-a"])
    spec["containerEdits"]["netDevices"] = [{"hostInterfaceName": "ib0", "name": "net0"}]
    assert problems(spec) == ["cdiVersion: the content needs 1.1.0, not 0.5.0"]
    assert problems({**spec, "cdiVersion": "1.1.0"}) == []


def newer(uuids: list[str], version: str = "1.2.0") -> dict[str, Any]:
    """Return what a later release of the toolkit may write: a version and keys that are not known here."""
    spec = {**generated(uuids), "cdiVersion": version, "labels": {"a": "b"}}
    spec["devices"][0]["containerEdits"]["deviceNodes"][0]["slot"] = 1
    return spec


def test_newer_keys_in_a_newer_version_of_the_format_are_taken_over(
    host: HostWithDriver, nvml: FakeNvml
) -> None:
    install(host, newer([one.uuid for one in nvml.found]))
    one = capability(host)
    (warning,) = one.plan(one.observe()).warnings
    assert (
        "wrote version 1.2.0 of the CDI format, and this collection knows it up to 1.1.0" in warning
    )
    assert "labels, devices[0].containerEdits.deviceNodes[0].slot are not checked" in warning
    converge(host)
    assert host.spec()["labels"] == {"a": "b"}
    assert converge(host) == []


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.1.0", "labels: there is no such key"),
        ("0.2.0", "cdiVersion: '0.2.0' is not one of 0.3.0"),
        ("1.2", "cdiVersion: '1.2' is not one of 0.3.0"),
    ],
)
def test_what_no_runtime_would_read_is_still_refused(
    host: HostWithDriver, nvml: FakeNvml, version: str, said: str
) -> None:
    """Runtimes refuse a key that the version which they know it by does not have."""
    spec = newer([one.uuid for one in nvml.found], version)
    if version != "1.1.0":
        spec = {**generated([nvml.found[0].uuid]), "cdiVersion": version}
    install(host, spec)
    with pytest.raises(NodeError, match=said):
        converge(host)


def test_the_rest_of_a_newer_version_is_checked(host: HostWithDriver, nvml: FakeNvml) -> None:
    install(host, {**newer([nvml.found[0].uuid]), "kind": "nvidia.com"})
    with pytest.raises(NodeError, match=r"kind: 'nvidia\.com' is not vendor/class"):
        converge(host)
