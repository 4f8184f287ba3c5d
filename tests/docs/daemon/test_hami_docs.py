# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What becomes of the manifests in HAMi's examples/nvidia (2.10): the page's table is what the webhook does.

The pods are ours, with the amounts, annotations and mounts of those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Device, Published
from gpu_cluster.hami.settings import Settings
from gpu_plugin._shared._base.dra.names import GPU, MIG, MPS, NONE, SHARE

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/fractions/hami-examples.md"
HEAD = "| Manifest | shares under `mps` | shares under another enforcement | GPUs in MIG mode |"
CARD = "NVIDIA A100-SXM4-80GB"
PROFILES = (9728, 19968, 40192, 81151)
NODES = (
    *(
        Published(tuple(Device(SHARE, 81920, CARD, f"GPU-{n}", how) for n in (0, 1)))
        for how in (MPS, NONE)
    ),
    Published(tuple(Device(MIG, size, CARD, f"GPU-{n}") for size in PROFILES for n in (0, 1))),
)
WORDS = {SHARE: "share", MIG: "MIG device", GPU: "whole GPU"}
UUID = "GPU-00000000-0000-0000-0000-000000000000"


def wishing(amounts: Json, **wishes: str) -> Json:
    keys = {key: f"nvidia.com/{key}" for key in wishes if not key.endswith("policy")}
    named = {keys.get(key, f"hami.io/{key}").replace("_", "-"): one for key, one in wishes.items()}
    return pod(amounts, annotations=named)


def both(amounts: Json, **more: Any) -> Json:
    return pod({"name": "vllm", "resources": {"limits": amounts, "requests": amounts}, **more})


THIRD = limits(gpu=2, gpumem_percentage=30, gpucores=30)
SHM = [{"name": "shm", "mountPath": "/dev/shm"}]
EXAMPLES: dict[str, list[Json]] = {
    "default_use": [pod(limits(gpu=1, gpumem=3000, gpucores=30))],
    "default_use_legacy": [pod(limits(gpu=2))],
    "dynamic_mig_example": [
        wishing(limits(gpu=2, gpumem=8000), vgpu_mode="mig", gpu_scheduler_policy="binpack")
    ],
    "example": [pod(limits(gpu=1, gpumem=3000), schedulerName="default-scheduler")],
    "mig_example": [pod({"nvidia.com/mig-3g.20gb": 1})],
    "specify_card_type_not_use": [wishing(limits(gpu=2), nouse_gputype="1080,2080")],
    "specify_card_type_to_use": [wishing(limits(gpu=2), use_gputype="A100,V100")],
    "specify_scheduling_policy": [
        wishing(limits(gpu=1), node_scheduler_policy="spread", gpu_scheduler_policy="binpack")
    ],
    "specify_uuid_not_use": [wishing(limits(gpu=2), nouse_gpuuuid=UUID)],
    "specify_uuid_to_use": [wishing(limits(gpu=1), use_gpuuuid=UUID)],
    "use_as_normal": [pod(limits(gpu=1)), pod(limits(gpu=1))],
    "use_exclusive_card": [pod(limits(gpu=2, gpumem_percentage=100, gpucores=100))],
    "use_memory_fraction": [pod(limits(gpu=2, gpumem_percentage=50, gpucores=30))],
    "use_sharing_card": [
        pod(limits(gpu=1, gpumem_percentage=40, gpucores=60)),
        pod(limits(gpu=1, gpumem_percentage=60, gpucores=40)),
    ],
    "vllm_cross_vgpu": [both(THIRD, volumeMounts=SHM)],
}


def said(one: Json, published: Published) -> str:
    """Return what becomes of a pod."""
    try:
        found = mutate(one, Settings(), published)
    except Refused as error:
        return f"refused: {error.cause.partition(',')[0]}"
    told = ", with a warning" if found.warnings else ""
    if not found.templates:
        return f"{'changed' if found.patch else 'as it is'}{told}"
    (template,) = found.templates
    (request,) = template.spec["spec"]["devices"]["requests"]
    ways = request.get("firstAvailable") or [request["exactly"]]
    return ", else ".join(dict.fromkeys(way(one) for one in ways)) + told


def way(one: Json) -> str:
    """Return what one way to have a claim asks for."""
    kind = WORDS[one["deviceClassName"].partition(".")[0]]
    amounts = (one.get("capacity") or {}).get("requests") or {}
    of = [amounts["memory"]] if "memory" in amounts else []
    of += [f"{amounts['cores']} %"] if "cores" in amounts else []
    chosen = any("productName" in text or "uuid" in text.lower() for text in selectors(one))
    words = f"{one['count']} {kind}{'s' if one['count'] > 1 else ''}"
    return f"{words}{f' of {chr(44).join(of)}' if of else ''}{' by a selector' if chosen else ''}".replace(
        ",", ", "
    )


def selectors(one: Json) -> Iterator[str]:
    return (each["cel"]["expression"] for each in one.get("selectors") or ())


def table() -> list[str]:
    rows = []
    for name, pods in EXAMPLES.items():
        cells = ["; ".join(dict.fromkeys(said(one, nodes) for one in pods)) for nodes in NODES]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return [HEAD, "| --- | --- | --- | --- |", *rows]


def test_the_page_has_what_becomes_of_each_of_hamis_examples() -> None:
    lines = PAGE.read_text().splitlines()
    start = lines.index(HEAD) if HEAD in lines else 0
    shown = lines[start : start + len(EXAMPLES) + 2]
    assert shown == table(), "\n".join(table())
    assert lines[start + len(shown)] == ""
