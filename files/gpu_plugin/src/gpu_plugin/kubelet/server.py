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
GRACE: Final = 1.0  # seconds that calls have to end
MOST_STREAMS: Final = 4  # each holds a worker for as long as it is open; the kubelet has one


@dataclass(frozen=True)
class Snapshot:
    """What is advertised, and all that answers about it are made of: both are published as one."""

    resources: Mapping[str, Devices] = field(default_factory=dict)
    config: Config = field(default_factory=Config)
    host: HostState = field(default_factory=HostState)
    topology: Topology = field(default_factory=Topology)


class Published:
    """The snapshot that all servers answer from. ``changed`` wakes those that watch."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.snapshot = Snapshot()
        self.changed = threading.Condition()
        self.observer = observer or Observer()

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that are advertised."""
        return tuple(self.snapshot.resources)

    def put(self, snapshot: Snapshot) -> None:
        """Advertise this from now on. Devices that are the same stay the same object."""
        before, resources = self.snapshot.resources, dict(snapshot.resources)
        for name, devices in snapshot.resources.items():
            old = before.get(name, NO_DEVICES)
            if devices == old:
                resources[name] = old
            elif _log(name, old, devices):
                self.observer.count(REENUMERATIONS, name)
        with self.changed:
            self.snapshot = replace(snapshot, resources=resources)
            self.changed.notify_all()


class ResourceServer:
    """Serves one resource from what is published: no answer asks anybody else."""

    def __init__(self, resource: str, folder: Path, published: Published) -> None:
        self.resource = resource
        self.socket = folder / f"nvidia-{resource.rpartition('/')[2]}.sock"
        self._streams: list[grpc.ServicerContext] = []  # the oldest first
        self._crowded = False
        self._published, self._observer = published, published.observer
        self._closing = False
        self._listener = Listener(self.socket, lambda: (self._handlers(),), WORKERS, GRACE)

    # --- life ---

    def start(self) -> None:
        """Listen, in place of where it listened before."""
        self.stop()
        self._closing = False
        self._listener.start()

    @property
    def intact(self) -> bool:
        """Whether the socket is still the one that this server listens on."""
        return self._listener.intact

    @property
    def displaced(self) -> bool:
        """Whether another process listens where this server did."""
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

    def stop(self) -> None:
        """Stop listening, after what was published last has been sent."""
        self._closing = True
        self._wake()
        self._listener.stop()

    @property
    def streams(self) -> int:
        """How many listen to what is advertised."""
        return len(self._streams)

    def made_room(self) -> bool:
        """Tell, once, whether a stream had to end for a newer one: it may have been the kubelet's."""
        crowded, self._crowded = self._crowded, False
        return crowded

    # --- what the kubelet calls ---

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
            while (sent := self._news(sent, context)) is not None:
                yield api_pb2.ListAndWatchResponse(devices=[_message(device) for device in sent])
        finally:
            with self._published.changed:
                if context in self._streams:
                    self._streams.remove(context)

    def _admit(self, context: grpc.ServicerContext) -> None:
        """Count a stream. Where it is one too many the oldest ends, so that calls find a worker."""
        with self._published.changed:
            self._streams.append(context)
            oldest = self._streams[:-MOST_STREAMS]
            del self._streams[:-MOST_STREAMS]
            self._crowded |= bool(oldest)
        for stream in oldest:
            stream.cancel()  # type: ignore[no-untyped-call]

    def _news(self, sent: Devices | None, context: grpc.ServicerContext) -> Devices | None:
        """Wait for other devices than were sent, and return them; None: who asked has gone, or will."""
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
        answer = api_pb2.PreferredAllocationResponse()
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
                answer.container_responses.add(deviceIDs=chosen)
        return answer

    def _allocate(
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        answer = api_pb2.AllocateResponse()
        snapshot = self._published.snapshot
        devices = snapshot.resources.get(self.resource, NO_DEVICES)
        with self._observed("Allocate", context):
            for container_request in request.container_requests:
                token = str(uuid.uuid4())
                granted = grant(
                    devices, container_request.devices_ids, snapshot.config, snapshot.host, token
                )
                answer.container_responses.append(_response(granted))
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
            unknown = isinstance(refusal, UnknownDevice)
            code = grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.INVALID_ARGUMENT
            context.abort(code, str(refusal))
        finally:
            self._observer.took(time.perf_counter() - begun, self.resource, call)


def _message(device: Device) -> api_pb2.Device:
    message = api_pb2.Device(ID=device.id, health=rpc.UNHEALTHY if device.problem else rpc.HEALTHY)
    if device.numa_node is not None:
        message.topology.nodes.add(ID=device.numa_node)
    return message


def _response(granted: Grant) -> api_pb2.ContainerAllocateResponse:
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


def _log(resource: str, before: tuple[Device, ...], devices: tuple[Device, ...]) -> bool:
    """Log what is new. Returns whether devices came or went."""
    changed = {device.id for device in before} != {device.id for device in devices}
    if changed:
        logs.info("devices", resource=resource, count=len(devices))
    old = {device.uuid: device.problem for device in before}
    for device_uuid, problem in {device.uuid: device.problem for device in devices}.items():
        if problem and problem != old.get(device_uuid):
            logs.warning("device is unhealthy", device=device_uuid, cause=problem)
        elif not problem and old.get(device_uuid):
            logs.info("device is healthy again", device=device_uuid)
    return changed
