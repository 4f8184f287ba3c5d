# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ask the kubelet who has which devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from .._shared._core.errors import NodeError
from ..offer.overview import Holder
from ..proto.podresources_v1 import api_pb2, rpc

TIMEOUT: Final = 3.0
LARGEST: Final = 64 << 20  # bytes: a node with many pods and shares answers much
T = TypeVar("T")


class KubeletSilent(NodeError):
    """The kubelet did not say who has which devices."""


class PodResources:
    """The kubelet's answers. KubeletSilent: there were none."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def holders(self) -> dict[str, list[Holder]]:
        """Return the containers that have each device, by the device's id."""
        found: dict[str, list[Holder]] = {}
        answer = self._ask(
            rpc.LIST, api_pb2.ListPodResourcesRequest(), api_pb2.ListPodResourcesResponse
        )
        for pod in answer.pod_resources:
            for container in pod.containers:
                holder = Holder(pod.namespace, pod.name, container.name)
                for devices in container.devices:
                    for device in devices.device_ids:
                        found.setdefault(device, []).append(holder)
        return found

    def allocatable(self) -> dict[str, int]:
        """Return how many devices of each resource the kubelet can allocate."""
        found: dict[str, int] = {}
        answer = self._ask(
            rpc.GET_ALLOCATABLE,
            api_pb2.AllocatableResourcesRequest(),
            api_pb2.AllocatableResourcesResponse,
        )
        for devices in answer.devices:
            name = devices.resource_name
            found[name] = found.get(name, 0) + len(devices.device_ids)
        return found

    def _ask(self, method: str, request: Any, answer: type[T]) -> T:
        options = [("grpc.max_receive_message_length", LARGEST)]
        with grpc.insecure_channel(f"unix://{self._socket}", options=options) as channel:
            call = channel.unary_unary(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,  # type: ignore[attr-defined]
            )
            try:
                found: T = call(request, timeout=TIMEOUT)
            except grpc.RpcError as error:
                details = str(getattr(error, "details", lambda: "")())
                raise KubeletSilent(
                    f"the kubelet does not report which pods have which devices ({self._socket})",
                    cause=details,
                ) from error
            return found
