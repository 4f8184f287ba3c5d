# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin status``: who has which device, also when one of those who know is away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from gpu_plugin.advertise.overview import Hardware, Holder, Row, Use, rows, table
from gpu_plugin.kubelet.client import KubeletSilent
from gpu_plugin.model.inventory import Devices, Kind, Problem
from gpu_plugin.report import survey

from tests.fakes.daemon.gpu_builders import device

GPU = "nvidia.com/gpu"
CARD = [Hardware("0", "H100", "GPU-a"), Hardware("1", "H100", "GPU-b")]
HOLDER = Holder("default", "one", "main")


def resource(*ids: str, **problems: str) -> dict[str, Any]:
    health = {one: "Unhealthy" if one in problems else "Healthy" for one in ids}
    return {"devices": health, "problems": problems, "shares": {}, "registered": True}


def test_whole_gpus_have_their_health_and_users() -> None:
    advertised = {GPU: resource("GPU-a", "GPU-b", **{"GPU-b": "XID 48"})}
    assert rows(CARD, advertised, {"GPU-a": [HOLDER]}, []) == [
        Row("0", "H100", "GPU-a", GPU, 1, "Healthy", used_by=[Use("default", "one", "main", 1)]),
        Row("1", "H100", "GPU-b", GPU, 1, "Unhealthy", "XID 48", "XID 48"),
    ]


def test_shares_are_counted_by_device_and_container() -> None:
    advertised = {"nvidia.com/gpu.shared": {**resource("GPU-a"), "shares": {"GPU-a": 4}}}
    other = Holder("team", "two", "main")
    holders = {"GPU-a::0": [HOLDER], "GPU-a::3": [HOLDER], "GPU-a::1": [other]}
    mps = {"device": "GPU-a", "state": "ready", "clients": 3}
    first, second = rows(CARD, advertised, holders, [mps])
    assert (first.shares, first.mps, first.mps_clients) == (4, "ready", 3)
    assert first.used_by == [
        Use("default", "one", "main", 2),
        Use("team", "two", "main", 1),
    ]
    assert (second.resource, second.shares, second.health) == ("", 0, "")
    assert table([first, second]).splitlines() == [
        "DEVICE  NAME  UUID   RESOURCE               SHARES  HEALTH   MPS               USED BY",
        "0       H100  GPU-a  nvidia.com/gpu.shared  3/4     Healthy  ready, 3 clients  "
        "default/one (main) x2, team/two (main)",
        "1       H100  GPU-b  -                      -       -        -                 -",
    ]


def test_what_mends_a_fault_does_not_widen_the_table() -> None:
    for reason in ("XID 48", "it says. Way back: none"):
        why = Problem(Kind.FAULT, reason, recovery="a reset of the GPU")
        those = Devices((replace(device(0, problem="x"), problem=why),))
        advertised = {**resource("GPU-0"), "devices": those.health}
        advertised |= {"problems": those.problems, "causes": those.causes}
        (row,) = rows([Hardware("0", "H100", "GPU-0")], {GPU: advertised}, {}, [])
        assert row.problem == f"{reason}. Way back: a reset of the GPU"
        assert f"Unhealthy: {reason}  " in table([row])
        assert "a reset" not in table([row])


def test_a_daemon_of_an_earlier_release_tells_of_its_problems_as_a_whole() -> None:
    why = "XID 48. Way back: a reset of the GPU"
    (row,) = rows(CARD[:1], {GPU: resource("GPU-a", **{"GPU-a": why})}, {}, [])
    assert f"Unhealthy: {why}" in table([row])


def test_what_the_driver_does_not_know_is_there_too() -> None:
    (row,) = rows([], {GPU: resource("GPU-a")}, {}, [])
    assert (row.index, row.uuid, row.health) == ("", "GPU-a", "Healthy")


def test_a_device_that_is_held_though_nobody_offers_it() -> None:
    first, _second = rows(CARD, {}, {"GPU-a": [HOLDER]}, [])
    assert first.used_by == [Use("default", "one", "main", 1)]


class Older:
    """A kubelet that does not tell what can be allocated."""

    def holders(self, _claimed: dict[str, str]) -> dict[str, list[Holder]]:
        return {"GPU-a": [HOLDER]}

    def allocatable(self) -> dict[str, int]:
        raise KubeletSilent("the kubelet does not report", cause="unknown method")


def test_who_has_what_is_known_also_of_a_kubelet_that_tells_no_more() -> None:
    holders, allocatable, problem = survey._kubelet(cast("Any", Older()), {})
    assert (holders, allocatable) == ({"GPU-a": [HOLDER]}, {})
    assert "unknown method" in str(problem)
