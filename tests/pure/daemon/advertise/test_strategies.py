# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each way of telling a container its devices answers, and all of them together."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.advertise.allocation import Grant, grant
from gpu_plugin.cdi import specification as cdi
from gpu_plugin.cdi.files import CdiFile
from gpu_plugin.config.configuration import Config, ContainerConfig
from gpu_plugin.model.inventory import HostState
from gpu_plugin.tools.chores import Chore

from tests.fakes.daemon.gpu_builders import device

STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
GPUS = tuple(device(index) for index in range(4))
HOST = HostState(
    ("/dev/nvidiactl",), ("0",), frozenset(f"{kind}{n}" for n in range(4) for kind in ("", "GPU-"))
)
EVERY = [
    combination for size in range(1, 5) for combination in itertools.combinations(STRATEGIES, size)
]
FOLDER = "/var/run/nvidia-container-devices"


def answer(strategies: tuple[str, ...], host: HostState = HOST, **more: object) -> Grant:
    containers = ContainerConfig(device_list_strategies=strategies, **more)  # type: ignore[arg-type]
    config = Config(containers=containers)
    return grant(GPUS, ["GPU-2", "GPU-1"], config, host, "token")


def test_each_combination_of_strategies_answers_for_all_of_them() -> None:
    for strategies in EVERY:
        _check(strategies, "uuid", ["GPU-2", "GPU-1"])
        _check(strategies, "index", ["2", "1"])


def _check(strategies: tuple[str, ...], ids: str, names: list[str]) -> None:
    found = answer(strategies, device_id_strategy=ids, pass_device_specs=True)
    qualified = tuple(f"k8s.device-plugin.nvidia.com/gpu={name}" for name in names)
    if "volume-mounts" in strategies:
        assert found.envs == {"NVIDIA_VISIBLE_DEVICES": FOLDER}
        assert found.mounts == tuple((f"{FOLDER}/{name}", "/dev/null", False) for name in names)
    elif "envvar" in strategies:
        assert found.envs == {"NVIDIA_VISIBLE_DEVICES": ",".join(names)}
        assert found.mounts == ()
    else:
        assert found.envs == {}
        assert found.mounts == ()
    key = "cdi.k8s.io/nvidia-device-plugin_token"
    wanted = {key: ",".join(qualified)} if "cdi-annotations" in strategies else {}
    assert found.annotations == wanted
    assert found.cdi_devices == (qualified if "cdi-cri" in strategies else ())
    legacy = {"envvar", "volume-mounts"} & set(strategies)
    nodes = ["/dev/nvidiactl", "/dev/nvidia2", "/dev/nvidia1"] if legacy else []
    assert [inside for inside, _outside in found.nodes] == nodes


def test_the_annotations_prefix() -> None:
    assert list(answer(("cdi-annotations",), cdi_annotation_prefix="x.y/").annotations) == [
        "x.y/nvidia-device-plugin_token"
    ]


def test_what_the_runtime_adds_is_asked_for_in_the_environment() -> None:
    assert answer(("envvar",), gdrcopy=True, gds=True, mofed=True).envs == {
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
        "NVIDIA_VISIBLE_DEVICES": "GPU-2,GPU-1",
    }
    assert answer(("volume-mounts",), gds=True).envs["NVIDIA_GDS"] == "enabled"


def test_imex_channels_are_told_to_the_runtime() -> None:
    wanted = {"imex_channels": ("0",)}
    assert answer(("envvar",), **wanted).envs["NVIDIA_IMEX_CHANNELS"] == "0"
    mounted = answer(("volume-mounts",), **wanted)
    assert mounted.mounts[-1] == (f"{FOLDER}/imex/0", "/dev/null", False)
    assert "NVIDIA_IMEX_CHANNELS" not in mounted.envs
    assert "NVIDIA_IMEX_CHANNELS" not in answer(("envvar",), HostState(), **wanted).envs


def test_without_cdi_no_cdi_device_is_named() -> None:
    assert answer(("envvar",), HostState()).cdi_devices == ()


SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
        for name in ("0", "GPU-0", "all")
    ],
    "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
}


def test_the_specification_is_the_nodes_under_another_kind() -> None:
    found = cdi.read(json.dumps(SPEC))
    assert cdi.derive(found) == {**SPEC, "kind": "k8s.device-plugin.nvidia.com/gpu"}
    assert cdi.names([found]) == {"0", "GPU-0", "all"}


def test_specifications_of_other_classes_are_no_matter() -> None:
    nic = cdi.read("kind: nvidia.com/nic\ndevices: []")
    assert cdi.merge([(0, SPEC), (1, nic)]) == ([SPEC], frozenset())
    assert cdi.merge([(0, nic)]) == ([], frozenset())
    for text in ("a: [", "[]", "kind: nvidia.com/gpu", "", "devices: [2001-01-01]", "devices: 1"):
        with pytest.raises(NodeError, match="not a CDI specification"):
            cdi.read(text)


def test_the_file_follows_the_nodes(tmp_path: Path) -> None:
    source = tmp_path / "etc/cdi/nvidia.yaml"
    ours = tmp_path / "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
    kept = CdiFile(tmp_path)
    kept.refresh()
    assert kept.names == frozenset()
    assert not ours.exists()
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(SPEC))
    kept.refresh()
    assert kept.names == {"0", "GPU-0", "all"}
    assert json.loads(ours.read_text())["kind"] == "k8s.device-plugin.nvidia.com/gpu"
    assert [ours.stat().st_mode & 0o777, ours.parent.stat().st_mode & 0o777] == [0o644, 0o755]

    before = ours.stat().st_mtime_ns
    kept.refresh()
    assert ours.stat().st_mtime_ns == before
    ours.unlink()
    kept.refresh()
    assert ours.exists()
    source.write_text(json.dumps({**SPEC, "devices": SPEC["devices"][:1]}))  # type: ignore[index]
    kept.refresh()
    assert kept.names == {"0"}
    source.unlink()
    kept.refresh()
    assert kept.names == frozenset()
    assert not ours.exists()


def test_a_file_that_can_not_be_written_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.json").write_text(json.dumps(SPEC))
    (tmp_path / "var").write_text("in the way")
    kept = CdiFile(tmp_path)
    chore = Chore("cdi_gpus", "the CDI specification can't be kept", kept.refresh)
    for _round in range(3):
        chore.run()
    assert kept.names == frozenset()
    assert capsys.readouterr().err.count("can't be kept") == 1
    assert "Not a directory" in (chore.error or "")
    (tmp_path / "var").unlink()
    chore.run()
    assert "GPU-0" in kept.names
    assert chore.error is None


def test_a_file_that_can_not_be_replaced_still_counts(tmp_path: Path) -> None:
    source = tmp_path / "etc/cdi/nvidia.json"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(SPEC))
    kept = CdiFile(tmp_path)
    kept.refresh()
    source.write_text(json.dumps({**SPEC, "devices": SPEC["devices"][:1]}))  # type: ignore[index]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_plugin.tools.files.replace", no_room)
        with pytest.raises(OSError, match="No space left"):
            kept.refresh()
        assert kept.names == {"0", "GPU-0", "all"}  # what is on the disk
    kept.refresh()
    assert kept.names == {"0"}


def no_room(path: Path, text: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
