# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What tests write into a claim's status by hand, against what the genuine kube-scheduler writes for the same claim."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from gpu_plugin._shared._base.dra.names import (
    API_VERSION,
    DRA,
    DRIVER,
    GPU_CLASS,
    MIG_CLASS,
    SHARE_CLASS,
    SHARE_CONFIG,
    pool_name,
)

from tests.fakes.cluster.allocation_modes import MONITORING, REQUESTS, Mode, ModesCluster
from tests.fakes.dra import allocated

Json = dict[str, Any]
ALL, GPU, SHARE = (Mode(DRA, publish) for publish in ("all", "gpu", "share"))
MIG = "gpu-2-mig-3g40gb-9-4"
PARAMETERS: Final = {"apiVersion": API_VERSION, "kind": SHARE_CONFIG, "priority": 1}


class Replay(NamedTuple):
    """A request, and what a test would write for it."""

    mode: Mode
    request: Json
    results: tuple[tuple[str, Json], ...]
    namespace: str = "default"
    parameters: Json | None = None


def monitor(name: str, **more: Any) -> Json:
    return {"deviceClassName": name, "adminAccess": True, **more}


REPLAYS = {
    "gpu": Replay(ALL, REQUESTS["gpu claim"], (("gpu-0", {}),)),
    "share": Replay(ALL, REQUESTS["share claim"], (("gpu-0-share", {}),)),
    "share of all memory": Replay(
        SHARE,
        {"deviceClassName": SHARE_CLASS},
        (("gpu-0-share", {"capacity": {"memory": "80Gi", "cores": "0", "shares": "1"}}),),
    ),
    "share with parameters": Replay(
        SHARE, REQUESTS["share claim"], (("gpu-0-share", {}),), parameters=PARAMETERS
    ),
    "two GPUs": Replay(
        GPU, {"deviceClassName": GPU_CLASS, "count": 2}, (("gpu-0", {}), ("gpu-1", {}))
    ),
    "mig": Replay(ALL, REQUESTS["mig claim"], ((MIG, {}),)),
    "monitor": Replay(GPU, monitor(GPU_CLASS), (("gpu-0", {"adminAccess": True}),), MONITORING),
    "monitor of MIG": Replay(ALL, monitor(MIG_CLASS), ((MIG, {"adminAccess": True}),), MONITORING),
    "monitor of shares": Replay(
        SHARE,
        monitor(SHARE_CLASS, capacity={"requests": {"memory": "1Mi"}}),
        (
            (
                "gpu-0-share",
                {
                    "adminAccess": True,
                    "capacity": {"memory": "1Mi", "cores": "0", "shares": "1"},
                },
            ),
        ),
        MONITORING,
    ),
}


@pytest.mark.parametrize("replay", REPLAYS.values(), ids=REPLAYS)
def test_the_scheduler_writes_what_tests_write_in_its_place(
    modes_cluster: ModesCluster, replay: Replay
) -> None:
    opaque = {"driver": DRIVER, "parameters": replay.parameters}
    config = [{"requests": ["gpu"], "opaque": opaque}] if replay.parameters else []
    modes_cluster.create_pod("job", replay.mode, replay.request, replay.namespace, config=config)
    assert modes_cluster.is_placed("job", replay.namespace)
    (claim,) = modes_cluster.claims("job", replay.namespace)
    devices = claim["status"]["allocation"]["devices"]
    by_hand = [
        allocated.result(pool_name(replay.mode.node), device, **more)
        for device, more in replay.results
    ]
    assert [_without_id(one) for one in devices["results"]] == [_without_id(one) for one in by_hand]
    for written, expected in zip(devices["results"], by_hand, strict=True):
        assert len(written.get("shareID", "")) == len(expected.get("shareID", ""))
    expected_config = [{**one, "requests": ["gpu"]} for one in allocated.config(replay.parameters)]
    assert devices.get("config", []) == expected_config
    uid = modes_cluster.get("Pod", "job", replay.namespace)["metadata"]["uid"]
    assert claim["status"]["reservedFor"] == [allocated.user("job", uid)]


def test_the_scheduler_makes_the_claim_of_an_extended_resource(modes_cluster: ModesCluster) -> None:
    modes_cluster.create_pod("job", GPU, REQUESTS["gpu resource"])
    assert modes_cluster.is_placed("job")
    (result,) = modes_cluster.results("job")
    by_hand = allocated.result(pool_name(GPU.node), "gpu-0", request=result["request"])
    assert result == by_hand


def _without_id(result: Json) -> Json:
    return {key: value for key, value in result.items() if key != "shareID"}
