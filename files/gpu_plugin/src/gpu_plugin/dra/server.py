# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gRPC services of the DRA driver: one socket to register with the kubelet, and one that the kubelet calls.

Each claim is prepared in a thread of its own, so that one that hangs delays no other and every call is answered before
the kubelet gives up. Work that takes longer goes on, and the kubelet's next call waits for it or gets its result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from .._shared._base.dra.checkpoint import PreparedClaim
from .._shared._base.dra.names import CDI_KIND, DRIVER
from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, printable
from ..kubelet.listener import Listener
from ..proto.dra_health_v1alpha1 import api_pb2 as health_pb2
from ..proto.dra_health_v1alpha1 import rpc as health_rpc
from ..proto.dra_v1 import api_pb2 as v1_pb2
from ..proto.dra_v1 import rpc as v1
from ..proto.registration_v1 import api_pb2 as registration_pb2
from ..proto.registration_v1 import rpc as registration
from ..tools import logs
from .health import HealthNews
from .prepare.apply import Preparer
from .prepare.cdi import cdi_name

WORKERS: Final = 16
GRACE: Final = 2.0  # seconds for calls in progress when a server stops
VERSIONS: Final = (v1.VERSION, health_rpc.VERSION)
KUBELET_TIMEOUT: Final = 45.0  # seconds that the kubelet waits for an answer
MARGIN: Final = 5.0  # seconds before that, when it is answered at the latest
HEALTH_STATES: Final = {
    None: health_pb2.UNKNOWN,
    True: health_pb2.HEALTHY,
    False: health_pb2.UNHEALTHY,
}
Handlers = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
MAX_CLAIMS: Final = 256  # in progress at the same time
MAX_ERROR_LENGTH: Final = 1024  # characters; the kubelet makes an Event of the pod of each error
T = TypeVar("T")
Results = dict[str, T | Exception]  # by the UIDs of claims
RecordDuration = Callable[[str, float, bool], None]  # the call, its seconds, and whether it failed


class Claim(NamedTuple):
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


class Calls:
    """The work that the kubelet's calls ask for, each claim in a thread of its own. Thread-safe.

    ``record_duration`` is called once the work on a claim has ended.
    """

    def __init__(self, preparer: Preparer, record_duration: RecordDuration) -> None:
        self._preparer, self._record_duration = preparer, record_duration
        self._lock = threading.Lock()
        self._in_progress: dict[tuple[str, str], Future[Any]] = {}  # by call and UID

    def prepare(self, claims: Sequence[Claim], seconds: float) -> Results[PreparedClaim]:
        """Prepare claims; return within ``seconds`` what each has, or why it has nothing."""
        return self._run(PREPARE, claims, seconds, lambda claim: self._preparer.prepare(*claim))

    def unprepare(self, claims: Sequence[Claim], seconds: float) -> Results[None]:
        """Free the devices of claims; return within ``seconds`` None for each, or why that failed."""
        return self._run(
            UNPREPARE, claims, seconds, lambda claim: self._preparer.unprepare(claim.uid)
        )

    def _run(
        self, call: str, claims: Sequence[Claim], seconds: float, work: Callable[[Claim], T]
    ) -> Results[T]:
        deadline = time.monotonic() + seconds
        futures = {claim.uid: self._start(call, claim, work) for claim in claims}
        results: Results[T] = {}
        for uid, future in futures.items():
            try:
                results[uid] = future.result(max(deadline - time.monotonic(), 0.0))
            except FutureTimeout:
                reason = "it takes longer than the kubelet waits"
                results[uid] = NodeError(reason, hint="none: it goes on")
            except Exception as error:
                results[uid] = error
        return results

    def _start(self, call: str, claim: Claim, work: Callable[[Claim], T]) -> Future[T]:
        """Start the work on a claim, or join the work that an earlier call has started."""
        key = (call, claim.uid)
        with self._lock:
            if running := self._in_progress.get(key):
                return running
            future: Future[T] = Future()
            if len(self._in_progress) >= MAX_CLAIMS:
                future.set_exception(
                    NodeError(f"{MAX_CLAIMS} claims are worked on, and no more at a time")
                )
                return future
            self._in_progress[key] = future
        threading.Thread(
            target=self._work, args=(key, claim, work, future), name="claim", daemon=True
        ).start()
        return future

    def _work(
        self, key: tuple[str, str], claim: Claim, work: Callable[[Claim], T], future: Future[T]
    ) -> None:
        call, _uid = key
        started = time.perf_counter()
        try:
            result, error = work(claim), None
        except Exception as failure:  # the kubelet gets an answer whatever fails
            name = f"{claim.namespace}/{claim.name}"
            is_known = isinstance(failure, NodeError)
            text = str(failure) if is_known else f"{type(failure).__name__}: {failure}"
            result, error = None, NodeError(cut(printable(text), MAX_ERROR_LENGTH))
            logs.warning(f"{call} failed", claim=name, uid=claim.uid, cause=error)
        self._record_duration(call, time.perf_counter() - started, error is not None)
        # Before the result is there: a call that gets it may ask for the same claim again at once.
        with self._lock:
            del self._in_progress[key]
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]


class Registration:
    """The registration service, and how the kubelet's last registration of the driver ended."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.is_registered, self.problem = False, ""

    def handlers(self) -> Handlers:
        """Return the handlers of the service's methods."""
        return {
            "GetInfo": _unary_handler(self._info, registration_pb2.InfoRequest),
            "NotifyRegistrationStatus": _unary_handler(
                self._note_status, registration_pb2.RegistrationStatus
            ),
        }

    def _info(self, _request: object, _context: object) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(
            type=registration.DRA_PLUGIN,
            name=DRIVER,
            endpoint=str(self._endpoint),
            supported_versions=VERSIONS,
        )

    def _note_status(
        self, status: registration_pb2.RegistrationStatus, _context: object
    ) -> registration_pb2.RegistrationStatusResponse:
        self.is_registered, self.problem = status.plugin_registered, status.error
        if self.is_registered:
            logs.info("registered", driver=DRIVER)
        else:
            logs.error("the kubelet does not take the driver", cause=status.error)
        return registration_pb2.RegistrationStatusResponse()


class Driver:
    """The servers on both sockets.

    Args:
        socket: The socket of the driver, which the kubelet calls.
        registry: The socket that the kubelet finds the driver by.
        calls: Prepares and unprepares claims.
        health: The health of the devices, which the kubelet watches.
    """

    def __init__(self, socket: Path, registry: Path, calls: Calls, health: HealthNews) -> None:
        self._calls, self._health = calls, health
        self.registered = Registration(socket)
        services = {
            v1.DRA_PLUGIN: {
                PREPARE: _unary_handler(self._prepare, v1_pb2.NodePrepareResourcesRequest),
                UNPREPARE: _unary_handler(self._unprepare, v1_pb2.NodeUnprepareResourcesRequest),
            },
            health_rpc.HEALTH: {
                "NodeWatchResources": grpc.unary_stream_rpc_method_handler(
                    self._watch,
                    health_pb2.NodeWatchResourcesRequest.FromString,
                    lambda answer: answer.SerializeToString(),
                )
            },
        }
        self._plugin = _make_listener(socket, services)
        self._registry = _make_listener(
            registry, {registration.REGISTRATION: self.registered.handlers()}
        )

    def tick(self) -> None:
        """Listen on sockets that are not there, or not ours, any more.

        The registration socket comes last, since the kubelet calls the driver as soon as it finds that.

        Raises:
            SocketUnusable: if a socket can't be listened on.
        """
        for listener in (self._plugin, self._registry):
            if not listener.intact:
                self.registered.is_registered = False
                listener.start()
            if listener is self._plugin and not self._plugin.intact:
                return

    def stop(self) -> None:
        """Stop both servers, the one that the kubelet finds the driver by first."""
        self._health.close()
        self._registry.stop()
        self._plugin.stop()

    def _prepare(
        self, request: v1_pb2.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1_pb2.NodePrepareResourcesResponse:
        results = self._calls.prepare(_claims(request), _time_limit(context))
        response = v1_pb2.NodePrepareResourcesResponse()
        for uid, result in results.items():
            if isinstance(result, Exception):
                response.claims[uid].error = str(result)
                continue
            response.claims[uid].SetInParent()  # a claim without devices is in the response too
            for device in result.devices:
                response.claims[uid].devices.add(
                    request_names=[device.request.partition("/")[0]],  # subrequests have its name
                    pool_name=device.pool,
                    device_name=device.device,
                    cdi_device_ids=[f"{CDI_KIND}={cdi_name(uid, device)}"],
                    share_id=device.share_id or None,
                )
        return response

    def _unprepare(
        self, request: v1_pb2.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1_pb2.NodeUnprepareResourcesResponse:
        results = self._calls.unprepare(_claims(request), _time_limit(context))
        response = v1_pb2.NodeUnprepareResourcesResponse()
        for uid, result in results.items():
            # Indexing adds the claim: the kubelet expects each in the response.
            response.claims[uid].error = str(result) if isinstance(result, Exception) else ""
        return response

    def _watch(
        self, _request: object, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.NodeWatchResourcesResponse]:
        """Stream the health of all devices, again at each change."""
        if not context.add_callback(self._health.wake):
            return
        for devices in self._health.follow(context.is_active):
            yield health_pb2.NodeWatchResourcesResponse(
                devices=[
                    health_pb2.DeviceHealth(
                        device={"pool_name": device.pool, "device_name": device.device},
                        health=HEALTH_STATES[device.healthy],
                        last_updated_time=int(time.time()),
                        message=device.message,
                    )
                    for device in devices
                ]
            )


def _make_listener(path: Path, services: Mapping[str, Handlers]) -> Listener:
    handlers = [
        grpc.method_handlers_generic_handler(name, dict(methods))
        for name, methods in services.items()
    ]
    return Listener(path, lambda: handlers, WORKERS, GRACE)


def _unary_handler(call: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        call, request.FromString, lambda answer: answer.SerializeToString()
    )


def _claims(request: Any) -> list[Claim]:
    return [Claim(claim.namespace, claim.name, claim.uid) for claim in request.claims]


def _time_limit(context: grpc.ServicerContext) -> float:
    """Return how many seconds an answer may take, so that the kubelet gets it before it gives up."""
    return max(min(context.time_remaining() or KUBELET_TIMEOUT, KUBELET_TIMEOUT) - MARGIN, 0.0)
