# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The PodResources service: who has which devices, and which there are."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from gpu_plugin.proto.podresources_v1 import api_pb2, rpc

from .devices import CONTAINER, HEALTHY, Ledger

NAMESPACE = "default"


class PodResources:
    """Serves on a socket what a ledger holds."""

    def __init__(self, socket: Path, ledger: Ledger) -> None:
        self._socket = socket
        self._ledger = ledger
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen."""
        self._socket.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._socket.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        handlers = {
            rpc.LIST: grpc.unary_unary_rpc_method_handler(
                self._list,
                api_pb2.ListPodResourcesRequest.FromString,
                lambda message: message.SerializeToString(),
            ),
            rpc.GET_ALLOCATABLE: grpc.unary_unary_rpc_method_handler(
                self._allocatable,
                api_pb2.AllocatableResourcesRequest.FromString,
                lambda message: message.SerializeToString(),
            ),
        }
        names = {path.rpartition("/")[2]: handler for path, handler in handlers.items()}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(rpc.LISTER, names),)
        )
        old = os.umask(0o077)
        try:
            self._server.add_insecure_port(f"unix://{self._socket}")
        finally:
            os.umask(old)
        self._server.start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop(grace=0.2).wait()

    def _list(self, _request: Any, _context: Any) -> Any:
        answer = api_pb2.ListPodResourcesResponse()
        for pod, given in self._ledger.holders().items():
            one = answer.pod_resources.add(name=pod, namespace=NAMESPACE).containers.add(
                name=CONTAINER
            )
            for resource, ids in given.items():
                one.devices.add(resource_name=resource, device_ids=ids)
        for pod, (driver, device) in self._ledger.claims.items():
            one = answer.pod_resources.add(name=pod, namespace=NAMESPACE).containers.add(
                name=CONTAINER
            )
            claim = one.dynamic_resources.add(claim_name=pod, claim_namespace=NAMESPACE)
            if driver:
                claim.claim_resources.add(driver_name=driver, pool_name="node", device_name=device)
            else:
                claim.claim_resources.add().cdi_devices.add(name=device)
        return answer

    def _allocatable(self, _request: Any, _context: Any) -> Any:
        answer = api_pb2.AllocatableResourcesResponse()
        for resource, one in self._ledger.describe().items():
            ids = [key for key, device in one["devices"].items() if device["health"] == HEALTHY]
            if ids:
                answer.devices.add(resource_name=resource, device_ids=ids)
        return answer
