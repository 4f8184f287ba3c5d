# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices fit together in a container, by claims, by an extended resource, and of the device plugin."""

from __future__ import annotations

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, Instance, PreparedClaim
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.dra.prepare.plan import check_containers, is_affected
from gpu_plugin.dra.values import ALL, Container

MPS, HAMI_CORE, CGROUP, NONE = "mps", "hami-core", "cgroup", "none"
WHOLE = Device("whole", "n", "gpu-0", "GPU-0", 0)
MIG = Device("mig", "n", "gpu-2-mig-1g10gb-19-3", "GPU-2", 2, instance=Instance(19, 3, made=True))
PLUGIN = ("nvidia.com/gpu",)


def share(number: int = 1) -> Device:
    return Device(f"share-{number}", "n", f"gpu-{number}-share", f"GPU-{number}", number)


def claim(name: str, enforcement: str, *devices: Device, pod: str = "pod") -> PreparedClaim:
    own = enforcement if any(device.device.endswith("-share") for device in devices) else ""
    return PreparedClaim(name, "ns", name, PREPARED, devices, (pod,), own)


def container(*names: str, resources: tuple[str, ...] = ()) -> Container:
    return Container("main", tuple((name, ALL) for name in names), resources)


def fits(
    held: PreparedClaim,
    *others: PreparedClaim,
    containers: tuple[Container, ...] | None = (container("a", "b"),),
    plugin_uses_mps: bool = False,
) -> bool:
    try:
        check_containers(held, others, containers, plugin_uses_mps=plugin_uses_mps)
    except NodeError:
        return False
    return True


@pytest.mark.parametrize("enforcement", [MPS, HAMI_CORE, CGROUP, NONE])
@pytest.mark.parametrize("other", [WHOLE, MIG, share(3)], ids=["gpu", "mig", "share"])
@pytest.mark.parametrize("order", ["share first", "share last"])
def test_a_share_and_another_device_of_two_claims(
    enforcement: str, other: Device, order: str
) -> None:
    claims = [claim("a", enforcement, share()), claim("b", enforcement, other)]
    first, second = claims if order == "share first" else claims[::-1]
    assert fits(second, first) is (enforcement in (CGROUP, NONE))
    apart = (container("a"), container("b"))
    assert fits(second, first, containers=apart)


@pytest.mark.parametrize(
    ("enforcement", "devices", "expected"),
    [
        (MPS, (share(),), True),
        (MPS, (WHOLE, share()), False),
        (MPS, (share(1), share(2)), False),
        (MPS, (WHOLE, MIG), True),
        (HAMI_CORE, (share(1), share(2)), True),
        (HAMI_CORE, (WHOLE, share()), False),
        (CGROUP, (WHOLE, share()), True),
        (NONE, (WHOLE, share()), True),
    ],
)
def test_devices_of_one_claim(
    enforcement: str, devices: tuple[Device, ...], expected: bool
) -> None:
    assert fits(claim("a", enforcement, *devices)) is expected


@pytest.mark.parametrize("enforcement", [MPS, HAMI_CORE, CGROUP, NONE])
def test_a_share_and_a_gpu_by_an_extended_resource(enforcement: str) -> None:
    held = claim("a", enforcement, share())
    together = (container("a", resources=PLUGIN),)
    assert fits(held, containers=together) is (enforcement in (CGROUP, NONE))


def test_a_gpu_of_a_claim_and_a_share_of_the_device_plugin_by_mps() -> None:
    held = claim("a", MPS, WHOLE)
    together = (container("a", resources=PLUGIN),)
    assert fits(held, containers=together)
    assert not fits(held, containers=together, plugin_uses_mps=True)
    assert fits(held, containers=(container("a"),), plugin_uses_mps=True)


def test_containers_that_take_requests_of_one_claim_apart_have_one_device_each() -> None:
    held = claim("a", MPS, WHOLE, share())
    apart = tuple(Container(name, (("a", name),)) for name in ("whole", "share-1"))
    assert fits(held, containers=apart)


def test_claims_of_another_namespace_are_of_no_container_here() -> None:
    other = PreparedClaim("b", "other", "b", PREPARED, (WHOLE,), ("pod",))
    assert fits(claim("a", MPS, share()), other)


def test_a_pod_that_can_not_be_read_counts_as_one_container() -> None:
    held = claim("a", MPS, share())
    assert not fits(held, claim("b", MPS, WHOLE), containers=None)
    assert fits(held, claim("b", MPS, WHOLE, pod="another"), containers=None)
    assert fits(held, containers=None)


def test_a_refusal_names_the_devices_and_the_container() -> None:
    held, other = claim("a", MPS, share()), claim("b", MPS, WHOLE)
    with pytest.raises(NodeError, match="together") as refusal:
        check_containers(held, [other], [container("b", "a")], plugin_uses_mps=False)
    assert str(refusal.value).startswith(
        "gpu-0 of claim ns/b, gpu-1-share of claim ns/a can't be given to container main together"
    )


@pytest.mark.parametrize(
    ("held", "others", "expected"),
    [
        (claim("a", MPS, share()), (), True),
        (claim("a", HAMI_CORE, share()), (), True),
        (claim("a", CGROUP, share()), (), False),
        (claim("a", MPS, WHOLE), (), False),
        (claim("a", MPS, WHOLE), (claim("b", MPS, share()),), True),
    ],
)
def test_pods_are_read_where_it_matters(
    held: PreparedClaim, others: tuple[PreparedClaim, ...], expected: bool
) -> None:
    assert is_affected(held, others, plugin_uses_mps=False) is expected
    assert is_affected(held, others, plugin_uses_mps=True)
