# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers can ask for, and what they get."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    CONTROL_NODES,
    Gpu,
    MigDevice,
    parse_minors,
)
from ansible_collections.gpu.node.plugins.module_utils._cdi import specification as cdi
from ansible_collections.gpu.node.plugins.module_utils._cdi.libraries import Library
from ansible_collections.gpu.node.plugins.module_utils._cdi.rules import (
    VERSIONS,
    minimum_version,
    problems,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.gpu_values import gpu, mig, minors_text

MINORS = parse_minors(minors_text(*range(16)))
NODES = frozenset(
    [
        *CONTROL_NODES,
        *(f"/dev/nvidia{minor}" for minor in range(16)),
        *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in MINORS.values()),
    ]
)
CUDA = Library("/l/current/libcuda.so.550", ("libcuda.so", "libcuda.so.1", "libcuda.so.550"))
FILES = cdi.Files(
    (CUDA,), (("/usr/lib/nvidia/nvidia-smi", "/usr/bin/nvidia-smi"),), ("/run/x/socket",)
)
PLAIN = cdi.Layout(("/usr/lib64",))


def spec_of(
    gpus: Sequence[Gpu],
    migs: Sequence[MigDevice] = (),
    *,
    nodes: frozenset[str] = NODES,
    files: cdi.Files = FILES,
    layout: cdi.Layout = PLAIN,
) -> dict[str, Any]:
    found, _left_out = cdi.list_devices(gpus, migs, MINORS, nodes, {})
    return cdi.build_specification(found, nodes, files, layout)


def nodes_of(spec: dict[str, Any], name: str) -> list[str]:
    edits = next(one["containerEdits"] for one in spec["devices"] if one["name"] == name)
    return [one["path"] for one in edits["deviceNodes"]]


def mounts_of(spec: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    return {
        one["containerPath"]: (one["hostPath"], one["options"])
        for one in spec["containerEdits"]["mounts"]
    }


def test_whole_gpus_by_index_uuid_and_all() -> None:
    first, second = gpu(0, minor=3), gpu(1, minor=1)
    spec = spec_of([second, first])
    assert [one["name"] for one in spec["devices"]] == ["0", first.uuid, "1", second.uuid, "all"]
    assert nodes_of(spec, "0") == nodes_of(spec, first.uuid) == ["/dev/nvidia3"]
    assert nodes_of(spec, "all") == ["/dev/nvidia3", "/dev/nvidia1"]
    assert (spec["kind"], spec["cdiVersion"]) == ("nvidia.com/gpu", "0.5.0")


def test_a_partitioned_gpu_is_there_by_its_parts() -> None:
    whole, cut = gpu(0), gpu(1, mig=True)
    parts = [mig(cut, 1, gi=2), mig(cut, 0, gi=9)]
    spec = spec_of([whole, cut], parts)
    names = [one["name"] for one in spec["devices"]]
    assert names == ["0", whole.uuid, "1:0", parts[1].uuid, "1:1", parts[0].uuid, "all"]
    caps = [MINORS["gpu1/gi9/access"], MINORS["gpu1/gi9/ci0/access"]]
    expected = ["/dev/nvidia1", *(f"/dev/nvidia-caps/nvidia-cap{cap}" for cap in caps)]
    assert nodes_of(spec, "1:0") == nodes_of(spec, parts[1].uuid) == expected
    assert len(nodes_of(spec, "all")) == len(set(nodes_of(spec, "all"))) == 6


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("/dev/nvidia0", "0 is left out: /dev/nvidia0 does not exist"),
        ("/dev/nvidia1", "1:0 is left out: /dev/nvidia1 does not exist"),
        ("gpu1/gi7/access", "1:0 is left out: /dev/nvidia-caps/nvidia-cap"),
    ],
)
def test_what_has_no_node_is_left_out(missing: str, words: str) -> None:
    path = f"/dev/nvidia-caps/nvidia-cap{MINORS[missing]}" if missing in MINORS else missing
    cut = gpu(1, mig=True)
    found, left_out = cdi.list_devices([gpu(0), cut], [mig(cut, 0)], MINORS, NODES - {path}, {})
    assert len(found) == 1
    assert len(left_out) == 1
    assert words in left_out[0]


def test_what_the_driver_has_no_capability_for_is_left_out() -> None:
    cut = gpu(1, mig=True)
    found, left_out = cdi.list_devices([cut], [mig(cut, 0)], {}, NODES, {})
    assert found == []
    assert "the driver does not list gpu1/gi7/access" in left_out[0]


def test_mig_mode_without_devices_is_said() -> None:
    found, left_out = cdi.list_devices([gpu(0, mig=True)], [], MINORS, NODES, {})
    assert found == []
    assert left_out == ["GPU 0 is left out: it is in MIG mode and has no MIG devices"]


def test_common_edits_without_a_hook() -> None:
    spec = spec_of([gpu(0)], nodes=frozenset(["/dev/nvidia0", "/dev/nvidiactl"]))
    common = spec["containerEdits"]
    assert common["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert common["deviceNodes"] == [{"path": "/dev/nvidiactl", "permissions": "rw"}]
    assert "hooks" not in common
    assert list(mounts_of(spec)) == sorted(mounts_of(spec))
    read_only = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    assert mounts_of(spec) == {
        "/run/x/socket": ("/run/x/socket", ["nosuid", "nodev", "rbind", "rprivate", "noexec"]),
        "/usr/bin/nvidia-smi": ("/usr/lib/nvidia/nvidia-smi", read_only),
        "/usr/lib64/libcuda.so": (CUDA.path, read_only),
        "/usr/lib64/libcuda.so.1": (CUDA.path, read_only),
        "/usr/lib64/libcuda.so.550": (CUDA.path, read_only),
    }


@pytest.mark.parametrize(
    ("program", "first"),
    [
        ("/usr/bin/nvidia-cdi-hook", ["nvidia-cdi-hook"]),
        ("/usr/bin/nvidia-ctk", ["nvidia-ctk", "hook"]),
    ],
)
def test_with_a_hook_libraries_stay_in_place(program: str, first: list[str]) -> None:
    spec = spec_of([gpu(0)], layout=cdi.Layout(("/usr/lib64",), hook=program))
    libraries = [path for path in mounts_of(spec) if "lib" in path]
    assert libraries == [CUDA.path]
    hooks = spec["containerEdits"]["hooks"]
    assert {(one["hookName"], one["path"]) for one in hooks} == {("createContainer", program)}
    links = [f"libcuda.so.550::/l/current/libcuda.so{end}" for end in ("", ".1")]
    assert [one["args"] for one in hooks] == [
        [*first, "create-symlinks", "--link", links[0], "--link", links[1]],
        [*first, "update-ldcache", "--folder", "/l/current"],
        [*first, "disable-device-node-modification"],
    ]


def test_without_libraries_a_hook_has_no_links_and_folders_to_make() -> None:
    spec = spec_of([gpu(0)], files=cdi.Files(), layout=cdi.Layout((), hook="/x/nvidia-cdi-hook"))
    calls = [one["args"][1] for one in spec["containerEdits"]["hooks"]]
    assert calls == ["disable-device-node-modification"]


def test_a_driver_below_another_root() -> None:
    spec = spec_of([gpu(0)], layout=cdi.Layout(("/usr/lib64",), root="/run/driver"))
    edits = spec["devices"][0]["containerEdits"]
    assert edits["deviceNodes"] == [
        {"path": "/dev/nvidia0", "hostPath": "/run/driver/dev/nvidia0", "permissions": "rw"}
    ]
    hosts = {path: host for path, (host, _options) in mounts_of(spec).items()}
    assert hosts["/usr/lib64/libcuda.so.1"] == f"/run/driver{CUDA.path}"
    assert hosts["/run/x/socket"] == "/run/driver/run/x/socket"


def test_nothing_found_of_the_driver_leaves_no_empty_lists() -> None:
    spec = spec_of([gpu(0)], nodes=frozenset(["/dev/nvidia0"]), files=cdi.Files())
    assert spec["containerEdits"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}


def test_a_name_that_no_runtime_would_take_is_refused() -> None:
    with pytest.raises(NodeError, match=r"not valid: devices\[0\]\.name: 'a b'"):
        cdi.build_specification([cdi.Device(("a b",), ("/dev/nvidia0",))], NODES, FILES, PLAIN)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n", True),
        ('kind: "nvidia.com/gpu"  # ours\n', True),
        ('{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}', True),
        ('{"kind": "nvidia.com/gpu"}', True),
        ("kind: nvidia.com/gpu.large\n", False),
        ("kind: nvidia.com/pgpu\n", False),
        ("# about nvidia.com/gpu\nkind: amd.com/gpu\n", False),
    ],
)
def test_other_files_about_the_same_devices(text: str, same: bool) -> None:
    assert cdi.describes_gpus(text) is same


def test_names_in_a_file() -> None:
    assert cdi.device_names(None) == []
    assert cdi.device_names(cdi.render(spec_of([gpu(0)]))) == ["0", gpu(0).uuid, "all"]
    assert cdi.device_names("kind: nvidia.com/gpu\n") is None
    assert cdi.device_names('{"devices": [{}]}') is None
    assert cdi.device_names("[]") is None


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[Gpu], list[MigDevice]]:
    indexes = draw(st.lists(st.integers(0, 15), min_size=1, max_size=6, unique=True))
    minors = draw(st.permutations(range(16)))
    gpus = [
        gpu(index, minor=minor, mig=draw(st.booleans()))
        for index, minor in zip(indexes, minors, strict=False)
    ]
    migs = []
    for one in gpus:
        if one.mig_current:
            ids = draw(st.lists(st.integers(0, 14), max_size=7, unique=True))
            migs += [mig(one, place, gi=gi) for place, gi in enumerate(ids)]
    return gpus, migs


@given(
    boards(),
    st.sets(st.sampled_from(sorted(NODES)), max_size=8),
    st.sampled_from(["", "/usr/bin/nvidia-cdi-hook"]),
    st.sampled_from(["", "/run/driver"]),
    st.randoms(use_true_random=False),
)
def test_every_specification_is_valid_and_does_not_depend_on_the_order(
    board: tuple[list[Gpu], list[MigDevice]], gone: set[str], hook: str, root: str, random: Any
) -> None:
    gpus, migs = board
    nodes = NODES - gone
    found, _left_out = cdi.list_devices(gpus, migs, MINORS, nodes, {})
    if not found:
        return
    layout = cdi.Layout(("/usr/lib64",), root, hook)
    spec = cdi.build_specification(found, nodes, FILES, layout)
    assert problems(json.loads(cdi.render(spec))) == []
    names = [one["name"] for one in spec["devices"]]
    assert len(names) == len(set(names))
    assert spec["cdiVersion"] == minimum_version(spec)
    older = VERSIONS[: VERSIONS.index(spec["cdiVersion"])]
    assert all(problems({**spec, "cdiVersion": version}) for version in older)
    used = {path for name in names for path in nodes_of(spec, name)}
    assert used == set(nodes_of(spec, "all")) <= nodes
    random.shuffle(gpus)
    random.shuffle(migs)
    shuffled, _left_out = cdi.list_devices(gpus, migs, MINORS, nodes, {})
    assert cdi.render(cdi.build_specification(shuffled, nodes, FILES, layout)) == cdi.render(spec)
