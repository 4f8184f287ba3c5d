# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding S10: hostile inputs at what the modules read; a clear error at once, and no growth."""

from __future__ import annotations

import dataclasses
import json
import sys
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base import linker
from ansible_collections.gpu.node.plugins.module_utils._base import toolkit as toolkit_version
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import nvidia_device, parse_minors
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet import pods
from ansible_collections.gpu.node.plugins.module_utils._base.services import mps as mps_units
from ansible_collections.gpu.node.plugins.module_utils._base.services.mps import idle_servers
from ansible_collections.gpu.node.plugins.module_utils._base.text import json_data
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import LONGEST, shown
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi import generated as cdi_generated
from ansible_collections.gpu.node.plugins.module_utils._cdi import specification as cdi
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine import rollback
from ansible_collections.gpu.node.plugins.module_utils._driver import record as driver_record
from ansible_collections.gpu.node.plugins.module_utils._mig import boot as mig_boot
from ansible_collections.gpu.node.plugins.module_utils._mig import label
from ansible_collections.gpu.node.plugins.module_utils._mig.config import (
    Declared,
    entries_by_gpu,
    select,
)
from ansible_collections.gpu.node.plugins.module_utils._runtime import edits, json_text
from ansible_collections.gpu.node.plugins.module_utils._runtime import state as runtime
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit import plan as toolkit

from tests.fakes.library.gpu_values import gpu
from tests.support.hostile import Thrown, inputs
from tests.support.waiting import alarm

GPU = dataclasses.replace(
    gpu(0),
    uuid="GPU-00000000-0000-0000-0000-000000000001",
    pci_device_id=0x2330,
    name="NVIDIA A100",
)
ENTRY = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "1c.3g.40gb": 3}}
FILTERED = {
    "device-filter": ["0x233010DE:0x16C110DE", "A100-SXM4-40GB"],
    "devices": [0, GPU.uuid, "00000000:01:00.0"],
    "mig-enabled": False,
    "mig-devices": {},
}
LAYOUTS = {"version": "v1", "mig-configs": {"some": [ENTRY, FILTERED], "off": [FILTERED]}}
FILES = (
    json.dumps({"config": LAYOUTS, "selected": "some"}),
    json.dumps({"config": {"some": [ENTRY]}, "selected": ""}),
    json.dumps({"config": [ENTRY], "selected": ""}),
    json.dumps({"config": {}, "selected": "all-1g.10gb"}),
)
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    "containerEdits": {
        "env": ["A=b"],
        "mounts": [{"hostPath": "/a", "containerPath": "/a", "options": ["ro"]}],
        "hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h", "chmod"]}],
    },
}
DAEMON = (
    '{\n  "runtimes": {"nvidia": {"path": "/x"}},\n  "features": {"cdi": true}\n}\n',
    '{"exec-opts": ["native.cgroupdriver=systemd"], "log-driver": "json-file"}',
    '{\n\t"data-root": "/var/lib/docker"\n}\n',
)
RECORDS = (
    '{"packages": ["a"], "holds": [], "keys": [], "repository": true}',
    '{"packages": ["a"], "fabric": true, "runfile": "550", "stream": ""}',
    '{"servers": [{"pid": 7, "clients": []}], "pipe": "/run/x", "clients": 2}',
    '{"path": "/etc/cdi/x", "hooks": "", "library_folders": ["/l"], "driver_root": "", "generator": "nvml"}',
)


def deep(levels: int) -> t.Any:
    found: t.Any = []
    for _level in range(levels):
        found = [found]
    return found


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mig-devices": {"1g.10gb": 10**12}}, "up to 64"),
        ({"mig-devices": {"1c.99999999g.10gb": 1}}, "a MIG profile such as"),
        ({"mig-devices": {f"1g.{'1' * 5000}gb": 1}}, "a MIG profile such as"),
        ({"mig-devices": {"1c.12g.10gb": 64, "5c.12g.10gb": 64, "3c.12g.10gb": 64}}, "8 slices"),
        ({"mig-devices": {7: 1}}, "a MIG profile such as"),
        ({"mig-devices": {f"{n}g.1gb": 1 for n in range(1000)}}, "a mapping from profiles"),
        ({"mig-devices": deep(800)}, "a mapping from profiles"),
        ({"devices": deep(5000)}, "a list of indices"),
        ({"devices": ["x" * 100_000]}, "a list of indices"),
        ({"device-filter": "9" * 5000}, "a PCI id"),
        ({"device-filter": 16**5000}, "a PCI id"),
        ({"device-filter": "0x" + "f" * 5000}, "a PCI id"),
        ({"k" * 100_000: 1}, "only the keys"),
    ],
)
def test_layout_that_would_fill_the_memory_is_refused(
    changed: t.Dict[t.Any, t.Any], words: str
) -> None:
    with alarm(), pytest.raises(InputError) as caught:
        select([{**ENTRY, **changed}], "")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.attack("hostile-configuration")
def test_many_entries_are_checked_in_time() -> None:
    """A profile's compute instances in every mixture that a GPU can be asked for, a thousand times."""
    layout = {f"{size}c.8g.80gb": 64 for size in range(1, 5)}
    with alarm():
        select([{**ENTRY, "mig-devices": layout}] * 1000, "")


@pytest.mark.attack("hostile-configuration")
def test_text_that_could_not_be_read_again_is_not_written() -> None:
    layouts = {f"name{number}": [ENTRY] for number in range(12_000)}
    with pytest.raises(InputError, match=r"config: .* at most 1024 KiB of JSON"):
        Declared(layouts, "name1").dump()


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    "value",
    ["x" * 10**7, deep(900), 16**9000, [["y" * 999] * 999] * 999, {"a": deep(500)}, b"z" * 10**6],
    ids=lambda value: type(value).__name__,
)
def test_value_in_a_message_is_short(value: t.Any) -> None:
    with alarm(1):
        assert len(shown(value)) <= LONGEST + 3


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize("value", [1, "a'b", ["a", {"b": None}], (1,), (), {}, True, 1.5, "\x1b"])
def test_short_value_is_shown_as_ever(value: t.Any) -> None:
    assert shown(value) == repr(value)


@pytest.mark.attack("hostile-configuration")
def test_value_that_holds_itself_is_shown() -> None:
    value: t.List[t.Any] = []
    value.append(value)
    assert shown(value).startswith("[[[[")


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    "text",
    ["[" * 3000, "[" * 100 + "]" * 100, '{"a":' * 65 + "1" + "}" * 65, " " * (2 << 20), "9" * 5000],
    ids=lambda text: text[:9],
)
def test_json_beyond_a_limit_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is|digits|Expecting"):
        json_data.loads(text)


@pytest.mark.attack("hostile-configuration")
def test_json_up_to_the_limits_is_read() -> None:
    assert json_data.loads("[" * 64 + "]" * 64)
    assert len(json_data.loads(json.dumps(["x" * 100] * 10_000))) == 10_000


@pytest.mark.attack("hostile-configuration")
def test_hostile_mig_layouts() -> None:
    def read(text: str) -> None:
        declared = Declared.load(text, mig_boot.CONFIG)
        chosen = declared.selection("some")
        label.refusal(declared, "some")
        declared.dump()
        if chosen.specs is not None:
            entries_by_gpu(chosen.specs, [GPU])

    words = (
        '"1g.10gb": 1',
        '"mig-devices": ',
        '"0x233010DE"',
        '{"1g.5gb": 1e9}',
        '"7c.8g.80gb": 64',
    )
    Thrown(read, NodeError).throw(inputs(FILES, words))


@pytest.mark.attack("hostile-configuration")
def test_hostile_cdi_specification_of_nvidia_ctk() -> None:
    def read(text: str) -> None:
        spec = cdi_generated.parse(text, "nvidia-ctk")
        cdi_generated.differences(spec, spec)

    def every(text: str) -> None:
        cdi.device_names(text)
        cdi.describes_gpus(text)
        linker.parse_ldconfig(f"\tlibcuda.so.1 (libc6,x86-64) => {text}\n{text}")
        read(text)

    Thrown(every, NodeError).throw(inputs((json.dumps(SPEC), json.dumps(SPEC, indent=1))))


@pytest.mark.attack("hostile-configuration")
def test_hostile_daemon_json() -> None:
    changes: t.List[edits.Change] = [
        (("runtimes", "nvidia", "path"), "/usr/bin/nvidia-container-runtime"),
        (("features", "cdi"), True),
    ]

    def read(text: str) -> None:
        config = json_text.parse(text, "/etc/docker/daemon.json")
        entries = edits.note(config, changes, ())
        after = json_text.edit(text, changes)
        changed = json_text.parse(after, "the edited file")
        back, removals = edits.revert(changed, entries)
        json_text.parse(json_text.edit(after, back, removals), "the file edited back")

    Thrown(read, NodeError).throw(inputs(DAEMON, ('"runtimes": ', '"features": ', "{", "}")))


@pytest.mark.attack("hostile-configuration")
def test_hostile_records() -> None:
    def read(text: str) -> None:
        rollback.parse(text)
        mps_units.state_file("GPU-1", text)
        mps_units.daemon("GPU-1", text, text)
        idle_servers([text])
        for load in (toolkit.Record.load, driver_record.Record.load, cdi_boot.load):
            load(text, "the record")

    def one(text: str) -> None:
        try:
            read(text)
        except NodeError:
            cdi_boot.load(text, "the record")

    Thrown(one, NodeError).throw(inputs(RECORDS))


@pytest.mark.attack("hostile-configuration")
def test_hostile_texts_of_the_kernel_and_of_programs() -> None:
    def read(text: str) -> None:
        names = ("vendor", "device", "class", "numa_node")
        nvidia_device("0000:01:00.0", dict(zip(names, text.split("|"), strict=False)))
        parse_minors(text)
        pods.name_of(pods.uid_of(text), [text])
        toolkit_version.is_safe(text)
        toolkit_version.described(text)
        runtime.parse_version(text, "containerd")

    samples = (
        "0x10de|0x2330|0x030200|0\n",
        "gpu0/gi1/ci0/access 14\n",
        "containerd github.com/containerd/containerd v1.7.24 abc",
        "NVIDIA Container Toolkit CLI version 1.17.8-rc.1",
        "0::/kubepods/burstable/pod0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/x\n",
        "# x\nGPU_MPS_ROOT=/run\n",
    )
    assert sys.get_int_max_str_digits() == 4300  # which is what makes long numbers an error
    Thrown(read, NodeError).throw(inputs(samples))
