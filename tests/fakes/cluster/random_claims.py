# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Random nodes with GPUs, and random pods with claims, from a seed.

The answers that genuine allocators gave to them are in genuine/answers-*.txt: a change here needs new recordings.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

Json = dict[str, Any]
_A = 'device.attributes["gpu.node"]'

SELECTORS = (
    f'{_A}.productName == "A100"',
    f'{_A}.uuid != "GPU-0"',
    f"{_A}.numaNode == 0",
    f'{_A}.profile == "1g.8gb"',
    f'{_A}.productName.lowerAscii().contains("h1")',
    f'{_A}.uuid in ["GPU-1", "GPU-2"]',
    f'{_A}.cc.compareTo(semver("8.5.0")) >= 0',
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0',
    f"has({_A}.numaNode) && {_A}.numaNode > 0",
    f"{_A}.ecc",
    f'!{_A}.ecc || {_A}.uuid.endsWith("1")',
    f'{_A}.productName.matches("^(A|B)1")',
    '"memory" in device.capacity["gpu.node"]'
    ' && device.capacity["gpu.node"].memory.isGreaterThan(quantity("20Gi"))',
    f"{_A}.numaNode == 1 ? true : false",
    f'{_A}["uuid"].startsWith("GPU-") && device.driver == "gpu.node"',
    'device.attributes["nobody"].x == 1',
    f'["A1", "H1"].exists(p, {_A}.productName.startsWith(p))',
    f'cel.bind(a, {_A}, a.uuid == "GPU-0" || a.numaNode == 1)',
)
CLASSES = {
    "gpu": f'device.driver == "gpu.node" && {_A}.type == "gpu"',
    "share": f'device.driver == "gpu.node" && {_A}.type == "share"',
    "mig": f'device.driver == "gpu.node" && {_A}.type == "mig"',
    "any": 'device.driver.startsWith("gpu.")',
    "alone": "!device.allowMultipleAllocations",
}
POLICIES: dict[str, Json | None] = {
    "range": {"validRange": {"min": "1Mi", "step": "1Mi"}},
    "no step": {"default": "1Gi", "validRange": {"min": "1Gi"}},
    "max": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "512Mi"}},
    "values": {"default": "2Gi", "validValues": ["2Gi", "4Gi", "8Gi"]},
    "default": {"default": "3Gi"},
    "none": None,
}
TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "sick", "operator": "Exists"},
    {"key": "sick", "operator": "Equal", "value": "1"},
    {"key": "gpu.node/xid", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "sick"},
)
ALONE = 400  # seeds below it make a node by itself
ATTRIBUTES = ("uuid", "numaNode", "productName", "ecc", "cc", "none")


class Case:
    """A node and its pods."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._simple = seed % 2 == 0
        self._alone = seed < ALONE
        self._number = 0

    def made(self) -> Json:
        """Return slices, classes and pods, the latter as lists of claims."""
        slices = self._slices("gpu.node")
        if self._happens(0.1):
            slices += self._slices("gpu.other")
        if not self._alone:
            slices += [one for node in ("node-2", "node-3") for one in self._beside(node)]
        pods = [self._pod() for _pod in range(self._random.randint(1, 8))]
        if self._happens(0.5):
            pods += [self._again(pods[0], number) for number in range(6)]
        classes = [
            {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": one}}]}}
            for name, one in CLASSES.items()
        ]
        return {"slices": slices, "classes": classes, "pods": pods}

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _beside(self, node: str) -> list[Json]:
        """Return the slices of another node, whose pool may be just being replaced."""
        slices = self._slices("gpu.node", node)
        if self._happens(0.1):
            pool = {"name": node, "generation": 3, "resourceSliceCount": 2}
            spec = {"driver": "gpu.node", "nodeName": node, "pool": pool, "devices": []}
            slices.append({"metadata": {"name": f"{node}-new"}, "spec": spec})
        return slices

    def _slices(self, driver: str, node: str = "node-1") -> list[Json]:
        devices: list[Json] = []
        sets = [self._gpu(number, devices) for number in range(self._random.randint(1, 3))]
        split = len(devices) > 1 and self._happens(0.4)
        parts = [devices[::2], devices[1::2]] if split else [devices]
        odd = self._random.random()
        if 0.04 <= odd < 0.06 and parts[0]:
            parts[0].append(dict(parts[0][0]))
        names = list("abc")
        self._random.shuffle(names)
        pool = {
            "name": node,
            "generation": 2,
            "resourceSliceCount": 1 + len(parts) + (odd < 0.04),
        }
        spec = {"driver": driver, "nodeName": node, "pool": pool}
        made = [{**spec, "sharedCounters": sets}, *({**spec, "devices": part} for part in parts)]
        if self._happens(0.1):
            old = {**spec, "pool": {**pool, "generation": 1}}
            made.append(
                {**old, "devices": [{"name": "old", "attributes": {"type": {"string": "gpu"}}}]}
            )
            names[3:] = ["z"]
        return [
            {"metadata": {"name": f"{node}-{driver}-{name}"}, "spec": one}
            for name, one in zip(names, made, strict=False)
        ]

    def _gpu(self, number: int, devices: list[Json]) -> Json:
        memory, halves = self._one(8, 16, 32), self._one(0, 2)
        counters = {"memory": f"{memory}Gi", "whole": "0" if self._happens(0.05) else "1"}
        counters |= {f"slice-{half}": "1" for half in range(halves)}
        name = f"gpu-{number}-counter-set"
        charged = self._happens(0.85)
        every = self._consumes(name, counters) if charged else []
        common = self._common(number)
        if self._happens(0.8):
            devices.append(self._whole(number, memory, every, common))
        if self._happens(0.85):
            devices.append(self._share(number, memory, every, common))
        for half in range(halves):
            part = {"memory": f"{memory // 2}Gi", f"slice-{half}": "1"}
            devices.append(
                self._mig(
                    number, half, memory // 2, self._consumes(name, part) if charged else [], common
                )
            )
        return {
            "name": name,
            "counters": {key: {"value": value} for key, value in counters.items()},
        }

    @staticmethod
    def _consumes(name: str, counters: dict[str, str]) -> list[Json]:
        return [
            {
                "counterSet": name,
                "counters": {key: {"value": value} for key, value in counters.items()},
            }
        ]

    def _common(self, number: int) -> Json:
        attributes: Json = {
            "uuid": {"string": f"GPU-{number}"},
            "productName": {"string": self._one("A100", "H100")},
            "cc": {"version": self._one("8.0.0", "9.0.0")},
            "ecc": {"bool": self._happens(0.5)},
        }
        if self._happens(0.85):
            attributes["numaNode"] = {"int": self._one(0, 1)}
        effect, value = self._one("NoSchedule", "NoExecute", "None"), self._one("", "1")
        taint = {"key": self._one("sick", "gpu.node/xid"), "effect": effect, "value": value}
        return {"attributes": attributes, "taints": [taint] if self._happens(0.15) else []}

    def _device(
        self, name: str, kind: str, common: Json, consumes: list[Json], **more: Any
    ) -> Json:
        attributes = {**common["attributes"], "type": {"string": kind}}
        return {
            **common,
            "name": name,
            "attributes": attributes,
            "consumesCounters": consumes,
            **more,
        }

    def _whole(self, number: int, memory: int, every: list[Json], common: Json) -> Json:
        capacity = {"gpu.nvidia.com/memory": {"value": f"{memory}Gi"}}
        return self._device(f"gpu-{number}", "gpu", common, every, capacity=capacity)

    def _mig(self, number: int, half: int, memory: int, part: list[Json], common: Json) -> Json:
        capacity = {"gpu.nvidia.com/memory": {"value": f"{memory}Gi"}}
        made = self._device(f"gpu-{number}-mig-{half}", "mig", common, part, capacity=capacity)
        made["attributes"]["profile"] = {"string": f"1g.{memory}gb"}
        return made

    def _share(self, number: int, memory: int, every: list[Json], common: Json) -> Json:
        total = f"{memory * self._one(1, 1, 1, 3)}Gi"
        policy = POLICIES[self._one(*POLICIES)]
        if policy is not None:
            policy = {"default": total, **policy}
        cores = {
            "default": "0",
            "validRange": {"min": "0", "max": "100", "step": self._one("1", "10")},
        }
        shares = {"default": "1", "validValues": ["1"]}
        capacity: Json = {
            "memory": {"value": total} | ({"requestPolicy": policy} if policy else {}),
            "cores": {"value": "100", "requestPolicy": cores},
            "shares": {"value": str(self._one(1, 2, 3, 10)), "requestPolicy": shares},
        }
        capacity = {name: one for name, one in capacity.items() if self._happens(0.93)}
        more = {"allowMultipleAllocations": True, "capacity": capacity}
        return self._device(f"gpu-{number}-share", "share", common, every, **more)

    def _pod(self) -> list[Json]:
        return [
            self._claim()
            for _claim in range(self._one(1, 1, 1, 1, 2) if self._simple else self._one(1, 2, 3))
        ]

    def _claim(self) -> Json:
        self._number += 1
        few = self._one(1, 1, 1, 1, 2) if self._simple else self._one(1, 1, 2, 3)
        devices: Json = {"requests": [self._request(f"r{number}") for number in range(few)]}
        if self._happens(0.1 if self._simple else 0.3):
            devices["constraints"] = [self._constraint() for _one in range(self._one(1, 1, 2))]
        return self._named(f"c{self._number}", {"devices": devices})

    @staticmethod
    def _named(name: str, spec: Json) -> Json:
        return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}

    def _again(self, pod: list[Json], number: int) -> list[Json]:
        return [self._named(f"{one['metadata']['name']}-{number}", one["spec"]) for one in pod]

    def _request(self, name: str) -> Json:
        if self._happens(0.2):
            several = [{"name": f"s{one}", **self._exactly()} for one in range(self._one(1, 2, 3))]
            return {"name": name, "firstAvailable": several}
        return {"name": name, "exactly": self._exactly()}

    def _exactly(self) -> Json:
        kind = self._one("share", "share", "share", "share", "gpu", "mig", "mig", "any", "alone")
        made: Json = {"deviceClassName": kind, "allocationMode": "All"}
        if not self._happens(0.1):
            made |= {"allocationMode": "ExactCount", "count": self._one(1, 1, 1, 1, 2, 3)}
        if self._happens(0.12 if self._simple else 0.3):
            expressions = [self._one(*SELECTORS) for _one in range(self._one(1, 1, 2))]
            made["selectors"] = [{"cel": {"expression": one}} for one in expressions]
        if kind in ("share", "any") and self._happens(0.75):
            made["capacity"] = {"requests": self._amounts()}
        if self._happens(0.15):
            made["tolerations"] = [self._one(*TOLERATIONS)]
        return made

    def _amounts(self) -> Json:
        small = ("1Gi", "2Gi", "3Gi", "500Mi", "1500k")
        large = (*small, "1", "5Gi", "8Gi", "11Gi", "40Gi", "100Gi")
        amounts = {"memory": self._one(*(small if self._simple else large))}
        if self._happens(0.5):
            amounts["cores"] = (
                self._one("0", "10", "20", "33") if self._simple else self._one("30", "100", "101")
            )
        if self._happens(0.1):
            amounts["shares"] = self._one("1", "2")
        if self._happens(0.03):
            amounts["bogus"] = "1"
        return amounts

    def _constraint(self) -> Json:
        attribute = f"gpu.node/{self._one(*ATTRIBUTES)}"
        made: Json = {self._one("matchAttribute", "distinctAttribute"): attribute}
        if self._happens(0.4):
            made["requests"] = [self._one("r0", "r1", "r0/s0")]
        return made


if __name__ == "__main__":  # FIRST LAST: cases for genuine/recorder.go
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(Case(seed).made()))
