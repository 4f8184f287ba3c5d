# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One resource's device plugin: a gRPC server on a socket of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc

from .._shared._core.errors import NodeError
from ..config.configuration import Config
from ..observer import ALLOCATIONS, REFUSALS, Observer
from ..offer.allocation import AllocationRefused, Grant, Surroundings, grant
from ..offer.devices import Device, Devices
from ..offer.preference import prefer
from ..offer.topology import Topology
from ..proto.v1beta1 import api_pb2, rpc
from .registration import options

WORKERS: Final = 8
GRACE: Final = 1.0
CONNECT_SECONDS: Final = 1.0
Identity = tuple[int, int, int]
Around = Callable[[], Surroundings]


class SocketUnusable(NodeError):
    """The plugin can't listen on its socket."""


def identity(path: Path) -> Identity | None:
    """Return what tells one socket from another of the same name; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)


class ResourceServer:
    """Serves one resource. ``around`` returns what the node has by then."""

    def __init__(
        self,
        resource: str,
        folder: Path,
        config: Config,
        around: Around,
        topology: Callable[[], Topology] = Topology,
        observer: Observer | None = None,
    ) -> None:
        self.resource = resource
        self.socket = folder / f"nvidia-{resource.rpartition('/')[2]}.sock"
        self.devices = Devices()
        self.config = config
        self.streams = 0
        self._around = around
        self._topology = topology
        self._observer = observer or Observer()
        self._changed = threading.Condition()
        self._version = 0
        self._closing = False
        self._server: grpc.Server | None = None
        self._identity: Identity | None = None

    # --- life ---

    def start(self) -> None:
        """Listen."""
        self._closing = False
        pool = futures.ThreadPoolExecutor(WORKERS, thread_name_prefix=self.resource)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((self._handlers(),))
        # gRPC removes the path that it bound when it ends, whoever listens there by then. So it
        # binds one that is nobody else's, which gets its name when it is ready.
        bound = self.socket.with_name(f".gpu-plugin-{os.getpid()}.sock")
        try:
            bound.unlink(missing_ok=True)
            server.add_insecure_port(f"unix://{bound}")
            server.start()
            bound.chmod(0o600)
            bound.replace(self.socket)
        except (RuntimeError, OSError) as error:
            server.stop(0)
            raise SocketUnusable(
                f"can't listen on {self.socket}",
                cause=str(error),
                hint="see that its folder exists, is writable and has a short path",
            ) from error
        self._server, self._identity = server, identity(self.socket)

    @property
    def intact(self) -> bool:
        """Whether the socket is still the one that this server listens on."""
        return self._identity is not None and identity(self.socket) == self._identity

    @property
    def displaced(self) -> bool:
        """Whether another process listens where this server did."""
        found = identity(self.socket)
        if self._identity is None or found is None or found == self._identity:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(CONNECT_SECONDS)
            try:
                channel.connect(str(self.socket))
            except OSError:
                return False
        return True

    def publish(self, devices: tuple[Device, ...]) -> None:
        """Tell the kubelet of these devices, if they are others than before."""
        with self._changed:
            if devices != self.devices or not self._version:
                self.devices = Devices.of(devices)
                self._version += 1
                self._changed.notify_all()

    def stop(self, *, retire: bool = False) -> None:
        """Stop listening; with ``retire`` tell the kubelet first that no device is left."""
        if retire:
            self.publish(())
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(GRACE).wait()
            self._server = None
        if self.intact:
            self.socket.unlink(missing_ok=True)
        self._identity = None

    # --- what the kubelet calls ---

    def _handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        def unary(
            method: Callable[..., Any], request: Any, response: Any
        ) -> grpc.RpcMethodHandler[Any, Any]:
            return grpc.unary_unary_rpc_method_handler(
                method,
                request_deserializer=request.FromString,
                response_serializer=response.SerializeToString,
            )

        methods = {
            rpc.GET_DEVICE_PLUGIN_OPTIONS: unary(
                lambda _request, _context: options(), api_pb2.Empty, api_pb2.DevicePluginOptions
            ),
            rpc.LIST_AND_WATCH: grpc.unary_stream_rpc_method_handler(
                self._list_and_watch,
                request_deserializer=api_pb2.Empty.FromString,
                response_serializer=api_pb2.ListAndWatchResponse.SerializeToString,
            ),
            rpc.GET_PREFERRED_ALLOCATION: unary(
                self._prefer,
                api_pb2.PreferredAllocationRequest,
                api_pb2.PreferredAllocationResponse,
            ),
            rpc.ALLOCATE: unary(self._allocate, api_pb2.AllocateRequest, api_pb2.AllocateResponse),
            rpc.PRE_START_CONTAINER: unary(
                lambda _request, _context: api_pb2.PreStartContainerResponse(),
                api_pb2.PreStartContainerRequest,
                api_pb2.PreStartContainerResponse,
            ),
        }
        names = {path.rpartition("/")[2]: handler for path, handler in methods.items()}
        return grpc.method_handlers_generic_handler(rpc.DEVICE_PLUGIN, names)

    def _list_and_watch(
        self, _request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        if not context.add_callback(self._wake):
            return
        seen = 0
        with self._changed:
            self.streams += 1
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda seen=seen: (  # type: ignore[misc]
                            self._version != seen or self._closing or not context.is_active()
                        )
                    )
                    if self._version == seen or not context.is_active():
                        return
                    seen, devices = self._version, self.devices
                yield api_pb2.ListAndWatchResponse(devices=[_message(one) for one in devices])
        finally:
            with self._changed:
                self.streams -= 1

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _prefer(
        self, request: api_pb2.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreferredAllocationResponse:
        answer = api_pb2.PreferredAllocationResponse()
        with self._observed("GetPreferredAllocation", context):
            for one in request.container_requests:
                chosen = prefer(
                    self.devices,
                    one.available_deviceIDs,
                    one.must_include_deviceIDs,
                    one.allocation_size,
                    self.config.allocation_policy,
                    self._topology(),
                )
                answer.container_responses.add(deviceIDs=chosen)
        return answer

    def _allocate(
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        answer = api_pb2.AllocateResponse()
        with self._observed("Allocate", context):
            for one in request.container_requests:
                around, token = self._around(), str(uuid.uuid4())
                given = grant(self.devices, one.devices_ids, self.config, around, token)
                answer.container_responses.append(_response(given))
            self._observer.count(ALLOCATIONS, self.resource)
        return answer

    @contextlib.contextmanager
    def _observed(self, call: str, context: grpc.ServicerContext) -> Iterator[None]:
        """Note how long an answer takes. What is refused ends the call."""
        begun = time.perf_counter()
        try:
            yield
        except AllocationRefused as refusal:
            self._observer.count(REFUSALS, self.resource, call, refusal.reason)
            _refuse(context, refusal)
        finally:
            self._observer.took(time.perf_counter() - begun, self.resource, call)


def _refuse(context: grpc.ServicerContext, refusal: AllocationRefused) -> NoReturn:
    code = grpc.StatusCode.NOT_FOUND if refusal.unknown else grpc.StatusCode.INVALID_ARGUMENT
    context.abort(code, str(refusal))


def _message(device: Device) -> api_pb2.Device:
    message = api_pb2.Device(ID=device.id, health=rpc.UNHEALTHY if device.problem else rpc.HEALTHY)
    if device.numa_node is not None:
        message.topology.nodes.add(ID=device.numa_node)
    return message


def _response(given: Grant) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=given.envs,
        mounts=[
            api_pb2.Mount(container_path=one.inside, host_path=one.outside, read_only=one.read_only)
            for one in given.mounts
        ],
        devices=[
            api_pb2.DeviceSpec(container_path=inside, host_path=outside, permissions="rw")
            for inside, outside in given.nodes
        ],
        annotations=given.annotations,
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in given.cdi_devices],
    )
