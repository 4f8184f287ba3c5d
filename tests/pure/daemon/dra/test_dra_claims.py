# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is read of a claim, and what is refused of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.dra.prepare.claims import ClaimApi, check_uid, parameters, parse, quantity
from gpu_plugin.dra.values import ALL, Claim, Container

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
SHARE = "11111111-aaaa-bbbb-cccc-0123456789ab"
CONFIG = {"apiVersion": "gpu.node/v1", "kind": "ShareConfig"}


def claim(*config: Any, uid: str = UID, **result: Any) -> Claim:
    one = {"request": "gpu", "driver": "gpu.node", "pool": "gpu.node/n", **result}
    one = {"device": "gpu-0-share", **one}
    other = {"request": "nic", "driver": "nic.example.com", "pool": "n", "device": "eth0"}
    devices = {"results": [one, other], "config": list(config)}
    users = [
        {"resource": "pods", "name": "p", "uid": "pod-1"},
        {"resource": "podgroups", "apiGroup": "scheduling.k8s.io", "name": "g", "uid": "group-1"},
    ]
    status = {"allocation": {"devices": devices}, "reservedFor": users}
    meta = {"namespace": "ns", "name": "c", "uid": UID}
    return parse({"metadata": meta, "status": status}, uid, "n")


def config(source: str, *requests: str, driver: str = "gpu.node", **said: Any) -> dict[str, Any]:
    opaque = {"driver": driver, "parameters": {**CONFIG, **said}}
    return {"source": source, "requests": list(requests), "opaque": opaque}


def test_results_of_our_driver_are_read_and_no_others() -> None:
    capacity = {"memory": "10000Mi", "gpu.node/cores": "30", "shares": "1", "x/other": "bad"}
    found = claim(shareID=SHARE, consumedCapacity=capacity)
    (result,) = found.results
    assert (found.namespace, found.name, found.pods) == ("ns", "c", ("pod-1",))
    assert result.consumed == {"memory": 10000 << 20, "cores": 30, "shares": 1}
    assert (result.request, result.share_id) == ("gpu", SHARE)


def test_what_is_given_to_administrators_is_told_apart() -> None:
    assert claim(device="gpu-0", adminAccess=True).results[0].admin
    assert not claim().results[0].admin


def test_the_containers_of_a_claim_are_those_of_its_pods() -> None:
    def container(*names: str, **limits: str) -> dict[str, Any]:
        claims = [{"name": name} for name in names]
        return {"name": "c", "resources": {"claims": claims, "limits": limits}}

    named = [{"name": name, "resourceClaimName": name} for name in ("c", "other", "own")]
    pod = {
        "spec": {
            "resourceClaims": [*named, {"name": "made", "resourceClaimTemplateName": "t"}],
            "containers": [
                container("c", "other", **{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0"}),
                {"name": "d", "resources": {"claims": [{"name": "own", "request": "big"}]}},
                {"name": "plain"},
            ],
            "initContainers": [container("made", "c", cpu="1")],
        },
        "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "p-made"}]},
    }
    errors: list[ApiError | None] = [
        None,
        ApiError("x", "no right", status=403),
        ApiError("x", "gone", status=404),
    ]
    asked: list[str] = []

    class Access:
        def ask(self, _doing: str, _method: str, path: str, look: Callable[[Any], Any]) -> Any:
            asked.append(path)
            if error := errors.pop(0):
                raise error
            return look(pod)

    access: Any = Access()
    api = ClaimApi(access, "n")
    assert api.containers(claim()) == (
        Container("c", (("p-made", ALL), ("c", ALL))),
        Container("c", (("c", ALL), ("other", ALL)), ("nvidia.com/gpu",)),
        Container("d", (("own", "big"),)),
        Container("plain", ()),
    )
    assert asked == ["/api/v1/namespaces/ns/pods/p"]
    assert api.containers(claim()) is None  # what can't be read is not known
    assert api.containers(claim()) == ()  # the pod is gone


def test_quantities_are_whole_numbers() -> None:
    for text, value in (
        *(("0", 0), ("30", 30), ("1Ki", 1024), ("32Gi", 32 << 30), ("1Ti", 1 << 40)),
        *(("3k", 3000), ("2G", 2 * 10**9), ("1e3", 1000), ("12E2", 1200)),
    ):
        assert quantity(text, "key") == value, text


@pytest.mark.attack("claim-as-a-path-or-a-limit")
def test_another_quantity_is_refused_by_its_key() -> None:
    for text in (
        "",
        "-1",
        "1.5Gi",
        "500m",
        "1 Gi",
        "Gi",
        "9" * 99,
        3,
        None,
        "1Mi\n",
    ):
        with pytest.raises(InputError, match=r"^the\.key: "):
            quantity(text, "the.key")


@pytest.mark.attack("class-undone-by-a-claim")
def test_parameters_are_those_of_the_request_and_the_stricter_ones_win() -> None:
    for configs, said in (
        ([], {}),
        ([config("FromClaim", priority=1)], {"priority": 1}),
        ([config("FromClaim", "gpu", priority=1)], {"priority": 1}),
        ([config("FromClaim", "other", priority=1)], {}),
        ([config("FromClaim", driver="nic.example.com", priority=7)], {}),
        (
            [config("FromClaim", priority=0), config("FromClass", priority=1, coreLimit=False)],
            {"priority": 1, "coreLimit": False},
        ),
        (
            [config("FromClass", coreLimit=True), config("FromClaim", priority=1, coreLimit=False)],
            {"priority": 1, "coreLimit": True},
        ),
        (
            [config("FromClass", coreLimit=False), config("FromClaim", coreLimit=True)],
            {"coreLimit": True},
        ),
    ):
        assert claim(*configs).results[0].parameters == said, configs


def test_parameters_of_a_subrequest_or_of_all_of_a_request() -> None:
    for requests, met in (
        ("gpu", True),
        ("gpu/small", True),
        ("gpu/big", False),
    ):
        found = claim(config("FromClaim", requests, priority=1), request="gpu/small")
        assert bool(found.results[0].parameters) is met, requests


@pytest.mark.attack("claim-as-a-path-or-a-limit")
def test_other_parameters_are_refused_by_their_key() -> None:
    for given, words in (
        ({"kind": "GpuConfig"}, "expected apiVersion gpu.node/v1 and kind ShareConfig"),
        ({"priority": 2}, "parameters.priority: 2 is not valid"),
        ({"priority": True}, "parameters.priority: True is not valid"),
        ({"coreLimit": "no"}, "parameters.coreLimit: 'no' is not valid"),
        ({"memory": "1Gi"}, "parameters.memory: '1Gi' is not valid: expected none"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            parameters({**CONFIG, **given}, "claim ns/c")


@pytest.mark.attack("claim-as-a-path-or-a-limit")
def test_what_is_not_ours_or_not_supported_is_said() -> None:
    for result, words in (
        ({"pool": "other"}, "it is of the pool 'other', and this node's is 'gpu.node/n'"),
        ({"device": "../../etc"}, "is no device of gpu.node"),
        ({"shareID": "x/y"}, "is not valid: expected a UUID"),
        ({"driver": "gpu.nvidia.com"}, "has no device of gpu.node"),
    ):
        with pytest.raises(NodeError, match=re.escape(words)):
            claim(**result)


def test_a_claim_of_an_earlier_releases_pool_is_read_with_that_pool() -> None:
    for pool in ("n", "gpu.node/n"):
        assert claim(pool=pool).results[0].pool == pool


@pytest.mark.attack("claim-as-a-path-or-a-limit")
def test_a_uid_that_would_be_another_path_is_none() -> None:
    for uid in ("", "../../../etc/passwd", UID.upper(), f"{UID}\n", f"{UID}/.."):
        with pytest.raises(NodeError, match="expected a UUID"):
            check_uid(uid)
    with pytest.raises(NodeError, match="another one than the kubelet asks for"):
        claim(uid=SHARE)
