# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Several specifications of the node's GPUs: each device is taken from where container runtimes take it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu_plugin._shared._cdi.rules import problems
from gpu_plugin.cdi import specification as cdi
from gpu_plugin.cdi.files import CdiFile
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode

ETC, RUN = "etc/cdi", "var/run/cdi"


def spec(*names: str, env: str = "A=b", kind: str = cdi.SOURCE_KIND) -> dict[str, Any]:
    return {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/{name}"}]}}
            for name in names
        ],
        "containerEdits": {"env": [env]},
    }


def write(root: Path, path: str, content: dict[str, Any] | str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def served(root: Path) -> dict[str, str]:
    """By name of our devices what their specification adds to a container. Each is in one file only."""
    found: dict[str, str] = {}
    for path in (root / RUN).glob("k8s.device-plugin.nvidia.com-gpu*.json"):
        one = json.loads(path.read_text())
        assert (problems(one), one["kind"]) == ([], cdi.KIND)
        for device in one["devices"]:
            assert device["name"] not in found
            found[device["name"]] = one["containerEdits"]["env"][0]
    return found


def test_gpus_in_one_file_and_mig_devices_in_another_are_all_known(tmp_path: Path) -> None:
    write(tmp_path, f"{ETC}/nvidia.yaml", spec("GPU-0", "GPU-1", env="A=etc"))
    mig = write(tmp_path, f"{RUN}/mig.json", spec("MIG-0", env="A=run"))
    kept = CdiFile(tmp_path)
    kept.refresh()
    assert kept.names == {"GPU-0", "GPU-1", "MIG-0"}
    assert served(tmp_path) == {"GPU-0": "A=etc", "GPU-1": "A=etc", "MIG-0": "A=run"}
    mig.unlink()
    kept.refresh()
    assert kept.names == {"GPU-0", "GPU-1"} == served(tmp_path).keys()
    assert [path.name for path in (tmp_path / RUN).iterdir()] == [Path(cdi.FILE).name]


def test_of_two_folders_the_later_wins_for_each_device(tmp_path: Path) -> None:
    write(tmp_path, f"{ETC}/nvidia.yaml", spec("0", "1", env="A=etc"))
    write(tmp_path, f"{RUN}/nvidia.json", spec("1", "2", env="A=run"))
    kept = CdiFile(tmp_path)
    kept.refresh()
    assert served(tmp_path) == {"0": "A=etc", "1": "A=run", "2": "A=run"}


def test_what_two_files_of_a_folder_have_is_nobodys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, f"{ETC}/a.json", spec("0", "1"))
    write(tmp_path, f"{ETC}/b.yaml", spec("1", "2"))
    write(tmp_path, f"{RUN}/c.json", spec("1", "3"))  # which CDI's cache does not let win any more
    kept = CdiFile(tmp_path)
    for _time in range(2):
        kept.refresh()
    assert kept.names == {"0", "2", "3"} == served(tmp_path).keys()
    told = capsys.readouterr().err
    assert told.count("several CDI specifications of one folder have the same devices") == 1
    assert "devices=1" in told


def test_one_of_our_files_that_goes_comes_back(tmp_path: Path) -> None:
    write(tmp_path, f"{ETC}/a.json", spec("0"))
    write(tmp_path, f"{RUN}/b.json", spec("1"))
    kept = CdiFile(tmp_path)
    kept.refresh()
    (second,) = (tmp_path / RUN).glob("*-gpu-2.json")
    second.unlink()
    kept.refresh()
    assert served(tmp_path).keys() == {"0", "1"}


def as_cdis_cache_does(files: Iterable[tuple[int, list[str]]]) -> dict[str, int]:
    """The number of the file that each device is from, as pkg/cdi/cache.go of CDI resolves it."""
    devices: dict[str, tuple[int, int]] = {}
    conflicts = set()
    for number, (priority, names) in enumerate(files):
        for name in names:
            if name in devices:
                if priority == devices[name][0]:
                    conflicts.add(name)
                if priority <= devices[name][0]:
                    continue
            devices[name] = (priority, number)
    return {name: number for name, (_priority, number) in devices.items() if name not in conflicts}


NAMES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)


@given(st.lists(st.tuples(st.integers(0, 1), NAMES), max_size=5))
def test_devices_are_resolved_as_by_cdis_cache(files: list[tuple[int, list[str]]]) -> None:
    files.sort(key=lambda one: one[0])
    specs, nobodys = cdi.merge(
        (priority, spec(*names, env=f"N={number}"))
        for number, (priority, names) in enumerate(files)
    )
    found = {
        device["name"]: int(one["containerEdits"]["env"][0][2:])
        for one in specs
        for device in one["devices"]
    }
    assert found == as_cdis_cache_does(files)
    assert nobodys == {name for _at, names in files for name in names} - found.keys()
    assert all(one["devices"] for one in specs)


ODD: dict[str, Any] = {
    "a name that is a list": {**spec("0"), "devices": [{"name": ["GPU-0"]}]},
    "a name that is a number": {**spec("0"), "devices": [{"name": 0}]},
    "an empty name": {**spec("0"), "devices": [{"name": ""}]},
    "no name": {**spec("0"), "devices": [{"containerEdits": {}}]},
    "a device twice": spec("0", "0"),
    "a version that is a number": {**spec("9"), "cdiVersion": 0.5},
    "a kind that is a list": {**spec("9"), "kind": ["nvidia.com/gpu"]},
    "a date": "kind: nvidia.com/gpu\ndevices: [{name: x}]\nannotations: {since: 2001-01-01}\n",
    "a date for a name": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: 2001-01-01}]\n",
    "nested deep in JSON": '{"a": ' * 50_000,
    "nested deep in YAML": "a: " + "[" * 50_000,
    "keys that are no words": "{1: 2, kind: nvidia.com/gpu, devices: [{name: x, [a]: b}]}",
    "no devices": spec(),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("folder", [ETC, RUN])
def test_an_odd_file_of_others_is_left_aside(tmp_path: Path, folder: str, what: str) -> None:
    write(tmp_path, f"{ETC}/nvidia.json", spec("GPU-0"))
    write(tmp_path, f"{folder}/other.yaml", ODD[what])
    kept = CdiFile(tmp_path)
    kept.refresh("/opt/nvidia-ctk", ("update-ldcache",))
    assert kept.names == {"GPU-0"} == served(tmp_path).keys()


ARGS: tuple[Any, ...] = (7, None, "create-symlinks", {"a": 1}, [7, None], [])


@pytest.mark.parametrize("args", ARGS, ids=str)
def test_a_hook_with_odd_arguments_is_passed_on(tmp_path: Path, args: Any) -> None:
    hook = {"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk", "args": args}
    content = {**spec("GPU-0"), "containerEdits": {"env": ["A=b"], "hooks": [hook]}}
    write(tmp_path, f"{ETC}/nvidia.json", content)
    kept = CdiFile(tmp_path)
    kept.refresh("/opt/nvidia-ctk", ("update-ldcache",))
    assert kept.names == {"GPU-0"}


def test_a_link_that_leads_nowhere_is_left_aside(tmp_path: Path) -> None:
    write(tmp_path, f"{ETC}/nvidia.json", spec("GPU-0"))
    (tmp_path / ETC / "a.json").symlink_to("gone.json")
    (tmp_path / ETC / "loop.json").symlink_to("loop.json")
    (tmp_path / ETC / "folder.json").mkdir()
    kept = CdiFile(tmp_path)
    kept.refresh()
    assert kept.names == {"GPU-0"}


def test_devices_of_two_files_are_advertised_and_given(make_node: MakeNode) -> None:

    node = make_node(2)
    first, second = (one["uuid"] for one in node.sim.ctl("status")["gpus"])
    root = Path(node.sim.root)
    write(root, f"{ETC}/nvidia.yaml", spec(first))
    write(root, f"{RUN}/second.json", spec(second))
    node.start_kubelet()
    node.start_daemon("flags: {plugin: {deviceListStrategy: cdi-cri}}")
    node.wait("nvidia.com/gpu", 2)
    assert sorted(node.admit("one", gpu=2)["cdi_devices"]) == sorted(
        f"{cdi.KIND}={uuid}" for uuid in (first, second)
    )
    os.unlink(root / RUN / "second.json")
    eventually(lambda: node.health("nvidia.com/gpu")[second] == "Unhealthy")
