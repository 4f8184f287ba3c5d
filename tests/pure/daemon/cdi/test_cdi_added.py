# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CDI devices besides GPUs, and the hooks of those that there are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._cdi.rules import problems
from gpu_plugin.advertise.allocation import grant
from gpu_plugin.cdi import specification as cdi
from gpu_plugin.cdi.files import CdiAdded, CdiFile
from gpu_plugin.config.configuration import Config, ContainerConfig, DriverConfig
from gpu_plugin.model.inventory import HostState
from gpu_plugin.tools.chores import Chore

from tests.fakes.daemon.gpu_builders import device

VENDOR = "k8s.device-plugin.nvidia.com"
HAVE = (
    "dev/gdrdrv",
    "dev/nvidia-fs0",
    "dev/nvidia-fs1",
    "dev/infiniband/uverbs0",
    "dev/infiniband/rdma_cm",
    "dev/nvidia-caps-imex-channels/channel0",
    "etc/cufile.json",
)
ALL: dict[str, Any] = {"gdrcopy": True, "gds": True, "mofed": True, "imex_channels": ("0",)}
NAMES = {f"{VENDOR}/{kind}" for kind in ("gdrcopy=all", "gds=all", "mofed=all", "imex-channel=0")}


def node(root: Path, *have: str) -> Path:
    for name in have:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return root


def config(*strategies: str, **more: Any) -> Config:
    containers = ContainerConfig(device_list_strategies=strategies or ("cdi-cri",), **more)
    return Config(containers=containers)


def written(root: Path) -> dict[str, Any]:
    return {
        spec["kind"].partition("/")[2]: spec
        for path in (root / "var/run/cdi").glob("*.json")
        for spec in [json.loads(path.read_text())]
    }


def test_what_is_there_is_described(tmp_path: Path) -> None:
    kept = CdiAdded(node(tmp_path, *HAVE))
    kept.refresh(config(**ALL))
    assert kept.names == NAMES
    found = written(tmp_path)
    assert {problem for spec in found.values() for problem in problems(spec)} == set()
    edits = {kind: spec["devices"][0]["containerEdits"] for kind, spec in found.items()}
    assert {kind: [one["path"] for one in part["deviceNodes"]] for kind, part in edits.items()} == {
        "gdrcopy": ["/dev/gdrdrv"],
        "gds": ["/dev/nvidia-fs0", "/dev/nvidia-fs1"],
        "mofed": ["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"],
        "imex-channel": ["/dev/nvidia-caps-imex-channels/channel0"],
    }
    assert [one["containerPath"] for one in edits["gds"]["mounts"]] == ["/etc/cufile.json"]
    assert "mounts" not in edits["gdrcopy"]
    path = tmp_path / f"var/run/cdi/{VENDOR}-gds.json"
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat().st_ino
    kept.refresh(config(**ALL))
    assert path.stat().st_ino == before


def test_what_is_not_there_is_left_out_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = CdiAdded(node(tmp_path, "dev/gdrdrv", "etc/cufile.json"))
    for _time in range(3):
        kept.refresh(config(**ALL))
    assert kept.names == {f"{VENDOR}/gdrcopy=all"}
    said = capsys.readouterr().err
    assert said.count("wanted=gds") == said.count("wanted=mofed") == 1
    node(tmp_path, *HAVE)
    kept.refresh(config(**ALL))
    assert kept.names == NAMES


def test_what_is_not_asked_for_goes(tmp_path: Path) -> None:
    for other in (config(), config("envvar", **ALL), config("volume-mounts", "envvar", **ALL)):
        kept = CdiAdded(node(tmp_path, *HAVE))
        kept.refresh(config(**ALL))
        kept.refresh(other)
        assert kept.names == frozenset()
        assert written(tmp_path) == {}


def test_device_nodes_below_another_root(tmp_path: Path) -> None:
    node(tmp_path, "run/nvidia/driver/dev/gdrdrv")
    kept = CdiAdded(tmp_path)
    kept.refresh(replace(config(gdrcopy=True), driver=DriverConfig(dev_root="/run/nvidia/driver")))
    (spec,) = written(tmp_path).values()
    assert spec["cdiVersion"] == "0.5.0"
    assert spec["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/gdrdrv", "hostPath": "/run/nvidia/driver/dev/gdrdrv"}
    ]


def test_a_file_that_can_not_be_written_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = CdiAdded(node(tmp_path, *HAVE, "var/run"))
    chore = Chore("cdi_added", "a CDI specification can't be kept", kept.refresh)
    for _time in range(3):
        chore.run(config(**ALL))
    assert kept.names == frozenset()
    assert capsys.readouterr().err.count("can't be kept") == 1


HOST = HostState((), ("0",), frozenset({"GPU-0"}), frozenset(NAMES))


def test_a_container_gets_them_by_cdi_too() -> None:
    for strategy in ("cdi-cri", "cdi-annotations"):
        found = grant([device(0)], ["GPU-0"], config(strategy, **ALL), HOST, "token")
        names = (
            f"{VENDOR}/gpu=GPU-0",
            f"{VENDOR}/imex-channel=0",
            f"{VENDOR}/gdrcopy=all",
            f"{VENDOR}/gds=all",
            f"{VENDOR}/mofed=all",
        )
        if strategy == "cdi-cri":
            assert found.cdi_devices == names, strategy
        else:
            assert list(found.annotations.values()) == [",".join(names)], strategy
        assert found.envs == {
            f"NVIDIA_{name}": "enabled" for name in ("GDRCOPY", "GDS", "MOFED")
        }, strategy
        assert found.nodes == found.mounts == (), strategy


def test_what_the_node_lacks_is_dropped() -> None:
    bare = HostState((), (), frozenset({"GPU-0"}))
    assert grant([device(0)], ["GPU-0"], config(**ALL), bare).cdi_devices == (
        f"{VENDOR}/gpu=GPU-0",
    )


# --- hooks ---


def hook(path: str, *args: str) -> dict[str, Any]:
    return {"hookName": "createContainer", "path": path, "args": list(args)}


LINKS = ("create-symlinks", "--link", "a::b")
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {
            "name": "GPU-0",
            "containerEdits": {
                "deviceNodes": [{"path": "/dev/nvidia0"}],
                "hooks": [
                    hook("/usr/bin/nvidia-ctk", "nvidia-ctk", "hook", "chmod", "--mode", "7")
                ],
            },
        }
    ],
    "containerEdits": {
        "env": ["A=b"],
        "hooks": [
            hook("/usr/bin/nvidia-ctk", "nvidia-ctk", "hook", *LINKS),
            hook("/usr/bin/nvidia-cdi-hook", "nvidia-cdi-hook", "update-ldcache"),
            hook("/usr/bin/other", "other", "hook", "create-symlinks"),
        ],
    },
}


def calls(part: dict[str, Any]) -> list[list[str]]:
    return [[one["path"], *one["args"]] for one in part["containerEdits"].get("hooks", [])]


def derived(program: str = "", *disabled: str) -> dict[str, Any]:
    found = cdi.derive(SPEC, program, disabled)
    assert problems(found) == []
    return found


OTHER = ["/usr/bin/other", "other", "hook", "create-symlinks"]


def test_hooks_are_left_out_by_name() -> None:
    for disabled, common, device_too in (
        (("all",), [OTHER], False),
        (
            ("chmod", "update-ldcache"),
            [["/usr/bin/nvidia-ctk", "nvidia-ctk", "hook", *LINKS], OTHER],
            False,
        ),
        (
            ("create-symlinks",),
            [["/usr/bin/nvidia-cdi-hook", "nvidia-cdi-hook", "update-ldcache"], OTHER],
            True,
        ),
    ):
        found = derived("", *disabled)
        assert calls(found) == common, disabled
        assert bool(calls(found["devices"][0])) is device_too, disabled
        assert found["containerEdits"]["env"] == ["A=b"], disabled


def test_another_program_runs_nvidias_hooks() -> None:
    for program, first in (
        ("/opt/nvidia-cdi-hook", ["nvidia-cdi-hook"]),
        ("/opt/nvidia-ctk", ["nvidia-ctk", "hook"]),
    ):
        found = derived(program)
        assert calls(found) == [
            [program, *first, *LINKS],
            [program, *first, "update-ldcache"],
            OTHER,
        ], program
        assert calls(found["devices"][0]) == [[program, *first, "chmod", "--mode", "7"]], program


def test_strange_hooks_are_left_as_they_are() -> None:
    for hooks in (None, 7, [7], [{}], [{"path": 7}], [{"args": ["nvidia-ctk"]}]):
        text = json.dumps({**SPEC, "containerEdits": {"hooks": hooks}})
        found = cdi.derive(cdi.read(text), "/opt/nvidia-ctk", ("chmod",))
        assert found["containerEdits"]["hooks"] == hooks, hooks


def test_other_hooks_make_another_file(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.json").write_text(json.dumps(SPEC))
    kept, path = CdiFile(tmp_path), tmp_path / cdi.FILE
    kept.refresh()
    assert json.loads(path.read_text()) == {**SPEC, "kind": cdi.KIND}
    kept.refresh("/opt/nvidia-ctk", ("all",))
    assert calls(json.loads(path.read_text())) == [OTHER]
    before = path.stat().st_ino
    kept.refresh("/opt/nvidia-ctk", ("all",))
    assert path.stat().st_ino == before
