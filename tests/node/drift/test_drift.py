# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What drifts on a node by other hands: one look names it, and the run mends it or the plan refuses it by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpunode_tool.testing import Node, Play

from tests.node.runtime.containers import KIND_OF_NODE, install, write
from tests.node.whole_node import differences, picture
from tests.support.waiting import eventually

Drift = dict[str, str]
ROOMS: dict[str, list[Drift]] = yaml.safe_load(Path(__file__).with_name("drifts.yml").read_text())
SHARED = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}
KIND: dict[str, Any] = {
    **KIND_OF_NODE,
    "device_plugin_sharing": SHARED,
    "nvidia_driver_module_options": {"NVreg_EnableGpuFirmware": 1},
    "host_acs": "disabled",
    "host_memlock": "unlimited",
    "settings_rules": [
        {"persistence": True, "power_limit": "80%", "ecc": True},
        {
            "match": {"index": 0},  # the other is in MIG mode
            "accounting": True,
            "compute_mode": "default",
            "gpu_clocks": 1200,
        },
    ],
}
# What of a part is known only once those before it are as declared.
BEHIND = {
    "layout": {"driver", "environment", "packages"},
    "GPU settings": {"driver", "environment", "packages", "layout"},
    "specification": {"driver", "environment", "packages", "layout"},
    # Other instances or nodes start gpu-cdi.service, with which /run/gpu-node has its mode again.
    "modes": {"driver", "layout"},
    "systemd": {"driver", "environment", "layout", "packages", "services", "settings", "units"},
}
UNITS = "systemctl list-units --all --plain --no-legend 'gpu-*' 'nvidia-*' 'docker*' 'containerd*'"
# What has times of day or the UUIDs of MIG devices in it, and what others have made of a runtime's files, which nobody
# else knows.
MOVES = (
    "/.complete",
    "/docker/",
    "/forms.json",
    "/gpu-device-plugin/health.json",
    "/mig.json",
    "/node-feature-discovery/",
    "/nvidia.yaml",
    "/settings.json",
    "containerd",
)
MOVES += ("/container_runtime.json",)
THING = re.compile(r"/[\w./-]+|\b(?:gpu|nvidia|containerd|docker)[\w-]*")

# Some thirty rounds of three runs each, on a machine that has more to do.
pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(7200)]


def drifts(runtime: str, who: str) -> list[tuple[str, Drift]]:
    """Return what drifts on a node with containerd, alone or below Docker, and is mended by such, with its room."""
    return [
        (room, one)
        for room, of in ROOMS.items()
        for one in of
        if one.get("runtime") in (None, "containerd", runtime) and one.get("who", "run") == who
    ]


def beside_each_other(runtime: str) -> list[list[Drift]]:
    """Return what a run mends, together what the plan can name together: of different rooms and different things."""
    rounds: list[list[tuple[str, Drift]]] = []
    for one in drifts(runtime, "run"):
        free = [of for of in rounds if not any(clash(one, other) for other in of)]
        if free:
            free[0].append(one)
        else:
            rounds.append([one])
    return [[one for _room, one in of] for of in rounds]


def clash(one: tuple[str, Drift], other: tuple[str, Drift]) -> bool:
    """Return whether two drifts are of a room or a thing, or one hides the other from the plan."""
    rooms = {one[0], other[0]}
    if len(rooms) == 1 or any(hidden in rooms and rooms & by for hidden, by in BEHIND.items()):
        return True
    ones, others = (
        {*found, *(Path(name).stem for name in found)} for found in map(things, (one, other))
    )
    return any(concerns(a, b) or concerns(b, a) for a in ones for b in others)


def things(drift: tuple[str, Drift]) -> list[str]:
    return THING.findall(drift[1]["by"])


def concerns(folder: str, name: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def told(look: Play) -> list[str]:
    """Return what a check says: steps, warnings and refusals."""
    found = []
    for _action, _task, result in look.results():
        found += [*result.get("lines", ()), *result.get("warnings", ())]
        for part in result.get("parts", ()):
            found += [*part["warnings"], *map(str, (part.get("error") or {}).values())]
    return list(dict.fromkeys([*found, *([] if look.ok else [look.message()])]))


class Drifting:
    """A node in service, and how it is while nothing drifts."""

    def __init__(self, node: Node, runtime: str) -> None:
        self.node, self.runtime = node, runtime
        first = node.play(cmdline="--check")
        assert first.ok, first.message()
        self._usual = told(first)
        self._states, self._picture = self._units(), picture(node)

    def _units(self) -> set[str]:
        lines = self.node.run("sh", "-c", UNITS).splitlines()
        return {" ".join(line.split()[:4]) for line in lines}

    def _serves(self) -> bool:
        status = self.node.status()
        return status["state"] == "serving" and not any(
            one["problems"] for one in status["resources"].values()
        )

    def make(self, *drifts: Drift) -> None:
        for one in drifts:
            self.node.run("sh", "-c", one["by"])

    def look(self) -> list[str]:
        """Return what the plan says, but what it says of the node as it was brought up."""
        return [one for one in told(self.node.play(cmdline="--check")) if one not in self._usual]

    def unnamed(self, drifts: list[Drift]) -> dict[str, Any]:
        """Return the drifts that the plan does not name, with what it says."""
        said = self.look()
        text = " ".join("\n".join(said).split())
        return {one["what"]: said for one in drifts if one["named"] not in text}

    def left(self) -> list[str]:
        """Return what is not as it was, to the plan and to who looks at all that the node keeps."""
        eventually(self._serves)
        units = {f"unit {one}" for one in self._units() ^ self._states}
        kept = differences(self._picture, picture(self.node))
        kept = [one for one in kept if not any(name in one for name in MOVES)]
        return [*self.look(), *units, *kept]


@pytest.fixture(params=["containerd", "docker"])
def drifting(request: pytest.FixtureRequest, brought_up: Callable[..., Node]) -> Drifting:
    """A node in service, with containerd alone or with Docker beside it."""
    node = brought_up(f"drift-{request.param}", "a100-40", 2, **KIND)
    if request.param == "docker":
        install(node, "docker.io")
        write(node, "/etc/docker/daemon.json", '{"storage-driver": "vfs"}')
        up = node.play()
        assert up.ok, up.message()
    return Drifting(node, request.param)


def test_what_drifts_is_named_and_the_run_mends_it(drifting: Drifting) -> None:
    unnamed: dict[str, Any] = {}
    unmended: dict[str, Any] = {}
    for together in beside_each_other(drifting.runtime):
        drifting.make(*together)
        unnamed |= drifting.unnamed(together)
        run = drifting.node.play()
        if found := drifting.left() if run.ok else [run.message()]:
            unmended[" and ".join(one["what"] for one in together)] = found
        if not run.ok:
            break  # the node is not in service, where all others begin
    assert unmended == {}
    assert unnamed == {}


def test_what_is_not_the_runs_to_mend_is_refused_by_name(drifting: Drifting) -> None:
    unnamed: dict[str, Any] = {}
    for _room, one in drifts(drifting.runtime, "you"):
        drifting.make(one)
        unnamed |= drifting.unnamed([one])
        drifting.node.run("sh", "-c", one["back"])
    left = drifting.left()
    assert left == []
    assert unnamed == {}


def test_what_nobody_tells_is_not_seen(drifting: Drifting) -> None:
    """As long as that is so the page says it."""
    for _room, one in drifts(drifting.runtime, "nobody"):
        drifting.make(one)
        assert drifting.look() == []
        drifting.node.run("sh", "-c", one["back"])


def test_what_heals_by_itself_needs_no_run(drifting: Drifting) -> None:
    for _room, one in drifts(drifting.runtime, "itself"):
        drifting.make(one)
        eventually(lambda: drifting.left(), [])
