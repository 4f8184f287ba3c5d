# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tell the kubelet of a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import grpc

from .._shared._core.errors import NodeError
from ..proto.v1beta1 import api_pb2, rpc

TIMEOUT: Final = 3.0


class RegistrationFailed(NodeError):
    """The kubelet did not take the registration."""


def options() -> api_pb2.DevicePluginOptions:
    """What the kubelet may ask a plugin for."""
    return api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)


def register(kubelet_socket: Path, endpoint: str, resource: str) -> None:
    """Announce the plugin that listens on ``endpoint`` beside the kubelet's socket."""
    request = api_pb2.RegisterRequest(
        version=rpc.VERSION, endpoint=endpoint, resource_name=resource, options=options()
    )
    with grpc.insecure_channel(f"unix://{kubelet_socket}") as channel:
        call = channel.unary_unary(
            rpc.REGISTER,
            request_serializer=api_pb2.RegisterRequest.SerializeToString,
            response_deserializer=api_pb2.Empty.FromString,
        )
        try:
            call(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            details = str(getattr(error, "details", lambda: "")())
            raise RegistrationFailed(f"can't register {resource}", cause=details) from error
