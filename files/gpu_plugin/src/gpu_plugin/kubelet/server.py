# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One resource's device plugin: a gRPC server on a socket of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import grpc

from ..advertise.allocation import AllocationRefused, Grant, UnknownDevice, grant
from ..advertise.preference import prefer
from ..config.configuration import Config
from ..model.inventory import Device, Devices, HostState
from ..model.topology import Topology
from ..observer import ALLOCATIONS, REENUMERATIONS, REFUSALS, Observer
from ..proto.v1beta1 import api_pb2, rpc
from ..tools import logs
from .client import options
from .listener import Listener, identity

NO_DEVICES: Final = Devices()
WORKERS: Final = 8
GRACE: Final = 1.0  # seconds for calls in progress when a server stops
MAX_STREAMS: Final = 4  # an open stream occupies a worker; the kubelet needs one stream


@dataclass(frozen=True)
class Snapshot:
    """The devices of each resource, with all that the answers about them depend on.

    They are published together, so that no answer mixes devices and a configuration of different rounds.
    """

    resources: Mapping[str, Devices] = field(default_factory=dict)
    config: Config = field(default_factory=Config)
    host: HostState = field(default_factory=HostState)
    topology: Topology = field(default_factory=Topology)


class Published:
    """The snapshot that all servers answer from. ``changed`` is notified when there is another."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.snapshot = Snapshot()
        self.changed = threading.Condition()
        self.observer = observer or Observer()

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that are advertised."""
        return tuple(self.snapshot.resources)

    def put(self, snapshot: Snapshot) -> None:
        """Publish a snapshot.

        Devices that have not changed stay the same object: streams compare by identity to see whether to send.
        """
        before, resources = self.snapshot.resources, dict(snapshot.resources)
        for name, devices in snapshot.resources.items():
            devices_before = before.get(name, NO_DEVICES)
            if devices == devices_before:
                resources[name] = devices_before
            elif _log_changes(name, devices_before, devices):
                self.observer.count(REENUMERATIONS, name)
        with self.changed:
            self.snapshot = replace(snapshot, resources=resources)
            self.changed.notify_all()


class ResourceServer:
    """Serves one resource. Answers are made of the published snapshot alone, so none waits for the driver."""

    def __init__(self, resource: str, folder: Path, published: Published) -> None:
        self.resource = resource
        self.socket = folder / f"nvidia-{resource.rpartition('/')[2]}.sock"
        self._streams: list[grpc.ServicerContext] = []  # the oldest first
        self._crowded = False
        self._published, self._observer = published, published.observer
        self._closing = False
        self._listener = Listener(self.socket, lambda: (self._handlers(),), WORKERS, GRACE)

    # --- lifecycle ---

    def start(self) -> None:
        """Listen on the socket, anew if the server does already.

        Raises:
            SocketUnusable: if the socket can't be listened on.
        """
        self.stop()
        self._closing = False
        self._listener.start()

    def stop(self) -> None:
        """Stop listening, once open streams have sent the devices that were published last."""
        self._closing = True
        self._wake()
        self._listener.stop()

    @property
    def intact(self) -> bool:
        """Whether the socket is still the one that this server listens on."""
        return self._listener.intact

    @property
    def displaced(self) -> bool:
        """Whether another process listens on a socket in the place of this server's."""
        socket_identity, own = identity(self.socket), self._listener.identity
        if own is None or socket_identity is None or socket_identity == own:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(1.0)
            try:
                channel.connect(str(self.socket))
            except OSError:
                return False
        return True

    @property
    def streams(self) -> int:
        """The number of open ListAndWatch streams."""
        return len(self._streams)

    def made_room(self) -> bool:
        """Return whether a stream was ended for a newer one since the last call. It may have been the kubelet's."""
        crowded, self._crowded = self._crowded, False
        return crowded

    # --- the kubelet's calls ---

    def _handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        started = api_pb2.PreStartContainerResponse()
        methods: dict[str, tuple[Any, Callable[..., Any], Any]] = {
            rpc.GET_DEVICE_PLUGIN_OPTIONS: (unary, lambda *_: options(), api_pb2.Empty),
            rpc.LIST_AND_WATCH: (stream, self._list_and_watch, api_pb2.Empty),
            rpc.GET_PREFERRED_ALLOCATION: (unary, self._prefer, api_pb2.PreferredAllocationRequest),
            rpc.ALLOCATE: (unary, self._allocate, api_pb2.AllocateRequest),
            rpc.PRE_START_CONTAINER: (unary, lambda *_: started, api_pb2.PreStartContainerRequest),
        }
        handlers = {
            path.rpartition("/")[2]: kind(
                method, request.FromString, lambda answer: answer.SerializeToString()
            )
            for path, (kind, method, request) in methods.items()
        }
        return grpc.method_handlers_generic_handler(rpc.DEVICE_PLUGIN, handlers)

    def _list_and_watch(
        self, _request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        if not context.add_callback(self._wake):
            return
        sent: Devices | None = None
        self._admit(context)
        try:
            while (sent := self._wait_for_change(sent, context)) is not None:
                yield api_pb2.ListAndWatchResponse(devices=map(_device_message, sent))
        finally:
            with self._published.changed:
                if context in self._streams:
                    self._streams.remove(context)

    def _admit(self, context: grpc.ServicerContext) -> None:
        """Add a stream, and end the oldest if there are too many, so that a worker is left for other calls."""
        with self._published.changed:
            self._streams.append(context)
            oldest = self._streams[:-MAX_STREAMS]
            del self._streams[:-MAX_STREAMS]
            self._crowded |= bool(oldest)
        for stream in oldest:
            stream.cancel()  # type: ignore[no-untyped-call]

    def _wait_for_change(
        self, sent: Devices | None, context: grpc.ServicerContext
    ) -> Devices | None:
        """Wait for other devices than those sent last, and return them; None ends the stream."""
        with self._published.changed:
            self._published.changed.wait_for(
                lambda: self._devices() is not sent or self._closing or not context.is_active()
            )
            devices = self._devices()
            return None if devices is sent or not context.is_active() else devices

    def _devices(self) -> Devices:
        return self._published.snapshot.resources.get(self.resource, NO_DEVICES)

    def _wake(self) -> None:
        with self._published.changed:
            self._published.changed.notify_all()

    def _prefer(
        self, request: api_pb2.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreferredAllocationResponse:
        response = api_pb2.PreferredAllocationResponse()
        snapshot = self._published.snapshot
        devices = snapshot.resources.get(self.resource, NO_DEVICES)
        with self._observed("GetPreferredAllocation", context):
            for container_request in request.container_requests:
                chosen = prefer(
                    devices,
                    container_request.available_deviceIDs,
                    container_request.must_include_deviceIDs,
                    container_request.allocation_size,
                    snapshot.config.sharing.allocation_policy,
                    snapshot.topology,
                )
                response.container_responses.add(deviceIDs=chosen)
        return response

    def _allocate(
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        response = api_pb2.AllocateResponse()
        snapshot = self._published.snapshot
        devices = snapshot.resources.get(self.resource, NO_DEVICES)
        with self._observed("Allocate", context):
            for container_request in request.container_requests:
                token = str(uuid.uuid4())
                granted = grant(
                    devices, container_request.devices_ids, snapshot.config, snapshot.host, token
                )
                response.container_responses.append(_container_response(granted))
            self._observer.count(ALLOCATIONS, self.resource)
        return response

    @contextlib.contextmanager
    def _observed(self, call: str, context: grpc.ServicerContext) -> Iterator[None]:
        """Observe the duration of a call, and abort it with a status code if the allocation is refused."""
        started = time.perf_counter()
        try:
            yield
        except AllocationRefused as refusal:
            self._observer.count(REFUSALS, self.resource, call, refusal.reason)
            unknown = isinstance(refusal, UnknownDevice)
            code = grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.INVALID_ARGUMENT
            context.abort(code, str(refusal))
        finally:
            self._observer.took(time.perf_counter() - started, self.resource, call)


def _device_message(device: Device) -> api_pb2.Device:
    message = api_pb2.Device(ID=device.id, health=rpc.UNHEALTHY if device.problem else rpc.HEALTHY)
    if device.numa_node is not None:
        message.topology.nodes.add(ID=device.numa_node)
    return message


def _container_response(granted: Grant) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=granted.envs,
        mounts=[
            api_pb2.Mount(
                container_path=mount.inside, host_path=mount.outside, read_only=mount.read_only
            )
            for mount in granted.mounts
        ],
        devices=[
            api_pb2.DeviceSpec(container_path=inside, host_path=outside, permissions="rw")
            for inside, outside in granted.nodes
        ],
        annotations=granted.annotations,
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in granted.cdi_devices],
    )


def _log_changes(resource: str, before: tuple[Device, ...], devices: tuple[Device, ...]) -> bool:
    """Log changes of devices and of their health. Return whether devices were added or removed."""
    changed = {device.id for device in before} != {device.id for device in devices}
    if changed:
        logs.info("devices", resource=resource, count=len(devices))
    # By UUID: the shares of a device have its health, which is logged once.
    problems_before = {device.uuid: device.problem for device in before}
    problems = {device.uuid: device.problem for device in devices}
    for device_uuid, problem in problems.items():
        if problem and problem != problems_before.get(device_uuid):
            logs.warning("device is unhealthy", device=device_uuid, cause=problem)
        elif not problem and problems_before.get(device_uuid):
            logs.info("device is healthy again", device=device_uuid)
    return changed
