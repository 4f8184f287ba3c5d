# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether all devices that a container has fit together, by whichever claims and resources it has them. Pure.

A container is the client of one MPS control daemon, which sees one GPU. HAMi-core has limits by the numbers that CUDA
gives to GPUs, and a GPU without a limit of its own is used without any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..._shared._base.dra.checkpoint import Device, PreparedClaim
from ..._shared._base.dra.names import HAMI_CORE, MPS
from ..._shared._base.errors import NodeError
from .plan import is_share

LIMITED: Final = (MPS, HAMI_CORE)  # enforcements that work by what a container has
RESOURCES: Final = "nvidia.com/"
ALL: Final = ""  # requests of a claim
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Container:
    """A container's devices of ours.

    Attributes:
        claims: The claims' names, each with the name of the one request that the container has of it, or ALL.
        resources: Its extended resources of NVIDIA, such as nvidia.com/gpu, which may be the device plugin's.
    """

    name: str
    claims: tuple[tuple[str, str], ...]
    resources: tuple[str, ...] = ()


def from_pod(pod: Json) -> tuple[Container, ...]:
    """Return the containers of a pod (v1). Its status names the claims that were made for it."""
    spec, status = pod["spec"], pod.get("status") or {}
    names = {
        item["name"]: item["resourceClaimName"]
        for item in (
            *(spec.get("resourceClaims") or ()),
            *(status.get("resourceClaimStatuses") or ()),
        )
        if item.get("resourceClaimName")
    }
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return tuple(_from_spec(container, names) for container in containers)


def _from_spec(container: Json, names: Mapping[str, str]) -> Container:
    resources = container.get("resources") or {}
    claims = tuple(
        (names[claim["name"]], str(claim.get("request") or ALL))
        for claim in resources.get("claims") or ()
        if claim["name"] in names
    )
    extended = tuple(
        name
        for name, amount in (resources.get("limits") or {}).items()
        if name.startswith(RESOURCES) and str(amount) != "0"
    )
    return Container(str(container.get("name", "")), claims, extended)


def is_affected(
    held: PreparedClaim, claims: Iterable[PreparedClaim], *, plugin_uses_mps: bool
) -> bool:
    """Return whether it matters what the containers of a claim have in addition to it."""
    return plugin_uses_mps or any(
        claim.enforcement in LIMITED and claim.namespace == held.namespace
        for claim in (held, *claims)
    )


def check(
    held: PreparedClaim,
    other_claims: Sequence[PreparedClaim],
    containers: Sequence[Container] | None,
    *,
    plugin_uses_mps: bool,
) -> None:
    """Refuse a claim that leaves a container without access to a GPU, or with a GPU without a limit.

    Args:
        held: The claim that is about to be prepared.
        others: The claims that are prepared on this node.
        containers: Those of the claim's pods, or None if the pods can't be read: a pod then counts as one container.
        plugin_uses_mps: Whether the device plugin shares GPUs of this node by MPS.

    Raises:
        NodeError: if the devices of a container don't fit together.
    """
    claims = {claim.name: claim for claim in other_claims if claim.namespace == held.namespace}
    claims[held.name] = held
    if containers is None:
        names = [name for name, claim in claims.items() if {*claim.pods} & {*held.pods}]
        containers = [Container("", tuple((name, ALL) for name in {*names, held.name}))]
    for container in containers:
        if any(name == held.name for name, _request in container.claims):
            _check_container(container, claims, plugin_uses_mps and bool(container.resources))


def _check_container(
    container: Container, claims: Mapping[str, PreparedClaim], is_client: bool
) -> None:
    devices = list(_devices(container, claims))
    shares = [(claim, device) for claim, device in devices if is_share(device)]
    limited = {claim.enforcement for claim, _device in shares} & {*LIMITED}
    if not (limited or is_client) or len(devices) + len(container.resources) == 1:
        return
    together = [f"{device.device} of {claim}" for claim, device in devices]
    together += [f"{name} of the device plugin" for name in container.resources]
    if MPS in limited or is_client:
        raise _refused(
            container,
            together,
            "a container with a share is the client of one MPS control daemon, and sees its GPU alone",
        )
    if len({claim.uid for claim, _device in devices}) > 1 or len(shares) < len(together):
        raise _refused(
            container,
            together,
            "HAMi-core limits the GPUs of one claim, all of which have to be shares that are alike",
        )


def _devices(
    container: Container, claims: Mapping[str, PreparedClaim]
) -> Iterator[tuple[PreparedClaim, Device]]:
    for name, request in container.claims:
        if (claim := claims.get(name)) is not None:
            for device in claim.devices:
                if request in (ALL, device.request, device.request.partition("/")[0]):
                    yield claim, device


def _refused(container: Container, together: Sequence[str], cause: str) -> NodeError:
    named = f"container {container.name}" if container.name else "one pod"
    return NodeError(
        f"{', '.join(together)} can't be given to {named} together",
        cause=cause,
        hint="give each of them to a container of its own, or set gpuNode.dra.enforcement to another one",
    )
