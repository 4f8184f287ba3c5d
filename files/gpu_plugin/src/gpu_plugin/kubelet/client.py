# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Calls of the kubelet: plugins are registered, and it is asked which containers have which devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc

from .._shared._base.dra.names import DRIVER
from .._shared._base.errors import NodeError
from .._shared._node.users.allocated import ROOTS, SOCKET, Allocation
from ..advertise.overview import Holder
from ..proto.v1beta1 import api_pb2, rpc

T = TypeVar("T")


class RegistrationFailed(NodeError):
    """The kubelet did not take the registration."""


class KubeletSilent(NodeError):
    """The kubelet did not answer who has which devices."""


def options() -> api_pb2.DevicePluginOptions:
    """Return the options of a plugin."""
    return api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)


def register(kubelet_socket: Path, endpoint: str, resource: str) -> None:
    """Announce the plugin that listens on ``endpoint`` beside the kubelet's socket.

    Raises:
        RegistrationFailed: if the kubelet does not take it.
    """
    request = api_pb2.RegisterRequest(
        version=rpc.VERSION, endpoint=endpoint, resource_name=resource, options=options()
    )
    try:
        _ask(kubelet_socket, rpc.REGISTER, request, api_pb2.Empty)
    except grpc.RpcError as error:
        raise RegistrationFailed(f"can't register {resource}", cause=_details(error)) from error


class PodResources:
    """The kubelet's answers.

    Raises:
        KubeletSilent: if it does not answer.
    """

    def __init__(self, socket: Path) -> None:
        from ..proto.podresources_v1 import api_pb2, rpc  # the daemon starts without them

        self._socket, self._messages, self._methods = socket, api_pb2, rpc

    def allocations(self) -> list[Allocation]:
        """Return which devices containers have, by device plugins and, from Kubernetes 1.34 on, by DRA."""
        request = self._messages.ListPodResourcesRequest()
        answer = self._answer(self._methods.LIST, request, self._messages.ListPodResourcesResponse)
        return [
            Allocation(pod.namespace, pod.name, container.name, resource, device)
            for pod in answer.pod_resources
            for container in pod.containers
            for resource, device in _devices(container)
        ]

    def holders(self, claimed: Mapping[str, str]) -> dict[str, list[Holder]]:
        """Return the containers that have each device, by the device's id.

        Args:
            claimed: The UUIDs of what claims have of the DRA driver gpu.node, by the names of the devices.
        """
        result: dict[str, list[Holder]] = {}
        for allocation in self.allocations():
            uuid = claimed.get(allocation.device) if allocation.resource == DRIVER else None
            holder = Holder(allocation.namespace, allocation.pod, allocation.container)
            result.setdefault(uuid or allocation.device, []).append(holder)
        return result

    def allocatable(self) -> dict[str, int]:
        """Return how many devices of each resource the kubelet can allocate."""
        result: dict[str, int] = {}
        request = self._messages.AllocatableResourcesRequest()
        answer = self._answer(
            self._methods.GET_ALLOCATABLE, request, self._messages.AllocatableResourcesResponse
        )
        for devices in answer.devices:
            name = devices.resource_name
            result[name] = result.get(name, 0) + len(devices.device_ids)
        return result

    def _answer(self, method: str, request: Any, answer: type[T]) -> T:
        try:
            return _ask(self._socket, method, request, answer)
        except grpc.RpcError as error:
            raise KubeletSilent(
                f"the kubelet does not report which pods have which devices ({self._socket})",
                cause=_details(error),
            ) from error


def sockets(kubelet: Path) -> list[Path]:
    """Return where a kubelet may answer: below ``kubelet``, its root folder, or below another known one."""
    return [root / SOCKET for root in (kubelet, *map(Path, ROOTS))]


def answering(places: Iterable[Path]) -> Path | None:
    """Return the first socket that is there, None if no kubelet has run."""
    return next((place for place in places if place.exists()), None)


def allocations(places: Iterable[Path]) -> Sequence[Allocation]:
    """Return what pods have, by the first socket that is there; nothing if no kubelet has run.

    Raises:
        KubeletSilent: if the kubelet does not answer.
    """
    socket = answering(places)
    return PodResources(socket).allocations() if socket else ()


def _devices(container: Any) -> Iterator[tuple[str, str]]:
    """Yield resource and id of each device; of a claim, its driver's name or the kind of its CDI device."""
    for devices in container.devices:
        for device in devices.device_ids:
            yield devices.resource_name, device
    for claim in container.dynamic_resources:
        for claim_resource in claim.claim_resources:
            if claim_resource.device_name:
                yield claim_resource.driver_name, claim_resource.device_name
            for cdi in () if claim_resource.device_name else claim_resource.cdi_devices:
                kind, _mark, name = cdi.name.partition("=")
                yield kind, name


def _ask(socket: Path, method: str, request: Any, answer: type[T]) -> T:
    largest = [("grpc.max_receive_message_length", 64 << 20)]  # many pods and shares say much
    with grpc.insecure_channel(f"unix://{socket}", options=largest) as channel:
        call = channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,  # type: ignore[attr-defined]
        )
        result: T = call(request, timeout=3.0)
        return result


def _details(error: grpc.RpcError) -> str:
    return str(getattr(error, "details", lambda: "")())
