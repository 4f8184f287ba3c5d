# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ours beside what the genuine nvidia-ctk 1.20.0 wrote of the same node: Debian's driver with all of its parts.

``genuine_cdi`` has the node's files, what its ldconfig told, and what ``nvidia-ctk cdi generate`` answered
there: NVIDIA's program from its public source, on two A100 of the simulated driver, one of them partitioned.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu, MigDevice
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._cdi.capabilities import CAPABILITIES
from ansible_collections.gpu.node.plugins.module_utils._cdi.generated import differences
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu, mig
from tests.fakes.packages.driver_fakes import CDI_SPEC, CURRENT, LIB, VERSION, FakeNvml
from tests.support.paths import FAKES

GENUINE = FAKES / "cdi"
THEIRS: dict[str, Any] = json.loads((GENUINE / "nvidia-ctk.json").read_text())
HOOK = "/usr/bin/nvidia-cdi-hook"
MINORS = (
    "gpu1/gi1/access 147\ngpu1/gi1/ci0/access 148\ngpu1/gi7/access 201\ngpu1/gi7/ci0/access 202\n"
)
READ_ONLY = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def names(kind: str) -> list[str]:
    return [one["name"] for one in THEIRS["devices"] if one["name"].startswith(kind)]


def gpus() -> list[Gpu]:
    whole, cut = gpu(0), gpu(1, mig=True)
    values = {**vars(whole), "uuid": names("GPU-")[0], "pci_bus_id": "0000:18:00.0"}
    return [Gpu(**values), Gpu(**{**vars(cut), "pci_bus_id": "0000:29:00.0"})]


def migs(parent: Gpu) -> tuple[MigDevice, ...]:
    """Return the MIG devices; the one in GPU instance 1 has the higher nodes in neither name's order."""
    found = []
    for index, instance in enumerate((1, 7)):
        nodes = nodes_of(f"1:{index}")
        uuid = next(one for one in names("MIG-") if nodes_of(one) == nodes)
        found.append(MigDevice(**{**vars(mig(parent, index, instance)), "uuid": uuid}))
    return tuple(found)


def nodes_of(name: str) -> list[str]:
    device = next(one for one in THEIRS["devices"] if one["name"] == name)
    return [one["path"] for one in device["containerEdits"]["deviceNodes"]]


@pytest.fixture
def host() -> FakeHost:
    """Return the node with the toolkit's hook program."""
    node = FakeHost()
    for line in (GENUINE / "files.txt").read_text().splitlines():
        path, arrow, target = line.partition(" -> ")
        if arrow:
            node.links[path] = target
        else:
            node.files[path] = ""
    node.files["/proc/driver/nvidia-caps/mig-minors"] = MINORS
    node.commands[("ldconfig", "-p")] = (GENUINE / "ldconfig.txt").read_text()
    node.commands[("nvidia-cdi-hook",)] = ""
    node.commands[(HOOK, "--version")] = "NVIDIA CDI Hook version 1.20.0"
    return node


@pytest.fixture(autouse=True)
def nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpus()
    fake = FakeNvml(*found, migs=migs(found[1]))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)


def specification(host: FakeHost, **params: Any) -> dict[str, Any]:
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    one = cdi.CdiCapability(host, {**defaults, "boot": False, **params}, check_mode=False)
    plan = one.plan(one.observe())
    for step in plan.steps:
        one.apply(step)
    found: dict[str, Any] = json.loads(host.files[CDI_SPEC])
    return found


def mounts(spec: dict[str, Any]) -> dict[str, str]:
    return {one["containerPath"]: one["hostPath"] for one in spec["containerEdits"]["mounts"]}


def test_with_all_capabilities_and_the_hook_it_is_what_nvidia_ctk_writes(host: FakeHost) -> None:
    found = differences(specification(host, capabilities=["all"]), THEIRS)
    # Ours names the files behind the links of Debian's alternatives, which is the same file in containers.
    mounted = [one for one in found if one["what"] == "mount"]
    assert {one["name"].rpartition(" at ")[2] for one in mounted if one["only"] == "nvml"} == {
        one["name"] for one in mounted if one["only"] == "nvidia-ctk"
    }
    assert [one for one in found if one["what"] != "mount"] == [
        {
            "what": "env",
            "name": f"NVIDIA_CTK_LIBCUDA_DIR={LIB}:{CURRENT}",
            "device": "",
            "only": "nvidia-ctk",
        }
    ]


def test_links_and_arguments_of_hooks_are_those_of_nvidia_ctk(host: FakeHost) -> None:
    def calls(spec: dict[str, Any]) -> dict[str, set[str]]:
        """Return by name what all containers' hooks are called with."""
        found: dict[str, set[str]] = {}
        for one in spec["containerEdits"]["hooks"]:
            found.setdefault(one["args"][1], set()).update(one["args"][2:])
        return found

    ours, theirs = calls(specification(host, capabilities=["all"])), calls(THEIRS)
    links = [
        {one.partition("::")[2] for one in side.pop("create-symlinks")} for side in (ours, theirs)
    ]
    # Where the loader's name of a library is its file's there is nothing to link.
    assert links[1] <= links[0]
    assert ours == theirs


def test_devices_are_the_same_to_the_last_node_and_link(host: FakeHost) -> None:
    def read(spec: dict[str, Any]) -> dict[str, tuple[set[str], list[list[str]]]]:
        return {
            one["name"]: (
                {node["path"] for node in one["containerEdits"]["deviceNodes"]},
                [hook["args"] for hook in one["containerEdits"].get("hooks", ())],
            )
            for one in spec["devices"]
        }

    assert read(specification(host, capabilities=["all"])) == read(THEIRS)


def test_by_default_there_is_nothing_to_draw_with(host: FakeHost) -> None:
    found = differences(specification(host), THEIRS)
    lacking = {one["name"].rpartition("/")[2] for one in found if one["only"] == "nvidia-ctk"}
    assert {"10_nvidia.json", "nvidia_icd.json", "card1", f"libGLX_nvidia.so.{VERSION}"} < lacking
    given = {path.rpartition("/")[2] for path in mounts(specification(host))}
    assert {
        "nvidia.icd",
        "gsp_ga10x.bin",
        "nvidia-smi",
        f"libcuda.so.{VERSION}",
        f"libnvidia-encode.so.{VERSION}",
    } < given


@pytest.mark.parametrize("name", CAPABILITIES)
def test_each_capability_is_a_part_of_all_and_no_other_is(host: FakeHost, name: str) -> None:
    whole = mounts(specification(host, capabilities=["all"]))
    part = mounts(specification(host, capabilities=[name]))
    assert part.items() <= whole.items()
    assert len(part) < len(whole)


def test_libraries_for_32_bit_programs(host: FakeHost) -> None:
    folder = "/usr/lib/i386-linux-gnu"
    for stem in ("libcuda", "libGLX_nvidia"):
        host.files[f"{folder}/nvidia/current/{stem}.so.{VERSION}"] = ""
    host.links[f"{folder}/nvidia/current/libcuda.so.1"] = f"libcuda.so.{VERSION}"
    host.commands[("ldconfig", "-p")] += (
        f"\tlibcuda.so.1 (libc6) => {folder}/nvidia/current/libcuda.so.1\n"
    )
    assert folder not in json.dumps(specification(host))
    spec = specification(host, capabilities=["compute", "compat32"], hooks="never")
    found = {path: at for path, at in mounts(spec).items() if at.startswith(folder)}
    cuda = f"{folder}/nvidia/current/libcuda.so.{VERSION}"
    assert found == {
        f"{place}/{name}": cuda
        for place in (folder, "/usr/lib")
        for name in ("libcuda.so", "libcuda.so.1", f"libcuda.so.{VERSION}")
    }
    assert mounts(spec)[f"{LIB}/libcuda.so.1"] == f"{CURRENT}/libcuda.so.{VERSION}"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"capabilities": []}, "one at least of compute, utility"),
        ({"capabilities": ["graphics"], "generator": "nvidia-ctk"}, "none with generator"),
    ],
)
def test_capabilities_that_cannot_be(host: FakeHost, params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^capabilities: .*{said}"):
        specification(host, **params)


def test_without_the_hook_everything_is_there_by_mounts_and_nodes(host: FakeHost) -> None:
    spec = specification(host, capabilities=["graphics", "compute"], hooks="never")
    assert "hooks" not in json.dumps(spec)
    found = mounts(spec)
    for folder in (LIB, "/usr/lib64"):
        assert (
            found[f"{folder}/gbm/nvidia-drm_gbm.so"]
            == f"{CURRENT}/libnvidia-allocator.so.{VERSION}"
        )
        assert found[f"{folder}/libnvidia-egl-gbm.so.1"] == f"{LIB}/libnvidia-egl-gbm.so.1.1.2"
        assert f"{folder}/libGLX_nvidia.so.0" in found
    edits = next(one["containerEdits"] for one in spec["devices"] if one["name"] == "0")
    by_path = "/dev/dri/by-path/pci-0000:18:00.0"
    assert [(one["path"], one.get("hostPath")) for one in edits["deviceNodes"]] == [
        ("/dev/nvidia0", None),
        ("/dev/dri/card1", None),
        ("/dev/dri/renderD128", None),
        (f"{by_path}-card", "/dev/dri/card1"),
        (f"{by_path}-render", "/dev/dri/renderD128"),
    ]
