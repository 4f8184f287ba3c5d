# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gRPC edge of the DRA driver: a socket that the kubelet finds it by, and one for all that it calls.

Each claim gets an answer in time, whatever hangs behind it: it is worked on in a thread of its own. What takes too
long goes on, and the kubelet's next call finds it done or waits for the same work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from .._shared._base.dra.names import DRIVER
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
from .health import DeviceHealth, HealthNews
from .prepare.apply import PreparedDevice, Preparer

WORKERS: Final = 16
GRACE: Final = 2.0  # seconds that calls have to end
VERSIONS: Final = (v1.VERSION, health_rpc.VERSION)
MARGIN: Final = 5.0  # seconds that an answer comes before the kubelet stops waiting for it
KUBELETS: Final = 45.0  # seconds that it waits
STATES: Final = {None: health_pb2.UNKNOWN, True: health_pb2.HEALTHY, False: health_pb2.UNHEALTHY}
Handlers = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
MOST: Final = 256  # claims that are worked on at a time
LONGEST: Final = 1024  # characters of an error, which becomes an Event of the pod
T = TypeVar("T")
Answers = dict[str, T | Exception]
Took = Callable[[str, float, bool], None]  # the call, its seconds, and whether it failed


class Claim(NamedTuple):
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


class Calls:
    """Any thread may call. ``took`` is told how long each claim took."""

    def __init__(self, preparer: Preparer, took: Took) -> None:
        self._preparer, self._took = preparer, took
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str], Future[Any]] = {}

    def prepare(
        self, claims: Sequence[Claim], seconds: float
    ) -> Answers[tuple[PreparedDevice, ...]]:
        """Return what containers get by the claims' UIDs, or why not; within so many seconds."""
        return self._all(PREPARE, claims, seconds, lambda claim: self._preparer.prepare(*claim))

    def unprepare(self, claims: Sequence[Claim], seconds: float) -> Answers[None]:
        """Give back what claims hold; return by their UIDs why that failed, if so."""
        return self._all(
            UNPREPARE, claims, seconds, lambda claim: self._preparer.unprepare(claim.uid)
        )

    def _all(
        self, call: str, claims: Sequence[Claim], seconds: float, work: Callable[[Claim], T]
    ) -> Answers[T]:
        deadline = time.monotonic() + seconds
        begun = {claim.uid: self._begin(call, claim, work) for claim in claims}
        answers: Answers[T] = {}
        for uid, future in begun.items():
            answers[uid] = _answer(future, deadline)
        return answers

    def _begin(self, call: str, claim: Claim, work: Callable[[Claim], T]) -> Future[T]:
        """Return the work on a claim: that which is under way, or else one that begins."""
        key = (call, claim.uid)
        with self._lock:
            if result := self._under_way.get(key):
                return result
            future: Future[T] = Future()
            if len(self._under_way) >= MOST:
                future.set_exception(
                    NodeError(f"{MOST} claims are worked on, and no more at a time")
                )
                return future
            self._under_way[key] = future
        threading.Thread(
            target=self._work, args=(key, claim, work, future), name="claim", daemon=True
        ).start()
        return future

    def _work(
        self, key: tuple[str, str], claim: Claim, work: Callable[[Claim], T], future: Future[T]
    ) -> None:
        begun = time.perf_counter()
        try:
            answer, error = work(claim), None
        except Exception as failure:  # also what nobody foresaw is an answer to the kubelet
            answer, error = None, _foreseen(failure)
            where = f"{claim.namespace}/{claim.name}"
            logs.warning(f"{key[0]} failed", claim=where, uid=claim.uid, cause=error)
        self._took(key[0], time.perf_counter() - begun, error is not None)
        with self._lock:
            del self._under_way[key]
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)  # type: ignore[arg-type]


def _answer(work: Future[Any], deadline: float) -> Any:
    try:
        return work.result(max(deadline - time.monotonic(), 0.0))
    except TooLate:
        return NodeError("it takes longer than the kubelet waits", hint="none: it goes on")
    except Exception as error:
        return error


def _foreseen(failure: Exception) -> NodeError:
    text = (
        str(failure) if isinstance(failure, NodeError) else f"{type(failure).__name__}: {failure}"
    )
    return NodeError(cut(printable(text), LONGEST))


def _listener(path: Path, services: Mapping[str, Handlers]) -> Listener:
    handlers = [
        grpc.method_handlers_generic_handler(name, dict(each)) for name, each in services.items()
    ]
    return Listener(path, lambda: handlers, WORKERS, GRACE)


class Registered:
    """What the kubelet said last of the registration."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.is_registered, self.problem = False, ""

    def handlers(self) -> Handlers:
        """Return what answers the kubelet's calls."""
        return {
            "GetInfo": _unary(self._info, registration_pb2.InfoRequest),
            "NotifyRegistrationStatus": _unary(
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
    """Both sockets. All that is done happens in ``calls``; ``health`` has what is told of devices."""

    def __init__(self, socket: Path, registry: Path, calls: Calls, health: HealthNews) -> None:
        self._calls, self._health = calls, health
        self.registered = Registered(socket)
        self._plugin = _listener(socket, self._services())
        self._registry = _listener(
            registry, {registration.REGISTRATION: self.registered.handlers()}
        )

    def tick(self) -> None:
        """Bring back what is lost of the sockets, the kubelet's way to the driver last. SocketUnusable."""
        for endpoint in (self._plugin, self._registry):
            if not endpoint.intact:
                self.registered.is_registered = False
                endpoint.start()
            if endpoint is self._plugin and not self._plugin.intact:
                return

    def stop(self) -> None:
        """Stop both, the kubelet's way to the driver first."""
        self._health.close()
        self._registry.stop()
        self._plugin.stop()

    def _services(self) -> dict[str, Handlers]:
        return {
            v1.DRA_PLUGIN: {
                PREPARE: _unary(self._prepare, v1_pb2.NodePrepareResourcesRequest),
                UNPREPARE: _unary(self._unprepare, v1_pb2.NodeUnprepareResourcesRequest),
            },
            health_rpc.HEALTH: {
                "NodeWatchResources": grpc.unary_stream_rpc_method_handler(
                    self._watch,
                    health_pb2.NodeWatchResourcesRequest.FromString,
                    lambda answer: answer.SerializeToString(),
                )
            },
        }

    def _prepare(
        self, request: v1_pb2.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1_pb2.NodePrepareResourcesResponse:
        return _prepared(self._calls.prepare(_claims(request), _seconds(context)))

    def _unprepare(
        self, request: v1_pb2.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1_pb2.NodeUnprepareResourcesResponse:
        answers = self._calls.unprepare(_claims(request), _seconds(context))
        answer = v1_pb2.NodeUnprepareResourcesResponse()
        for uid, result in answers.items():
            answer.claims[uid].error = str(result) if isinstance(result, Exception) else ""
        return answer

    def _watch(
        self, _request: object, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.NodeWatchResourcesResponse]:
        """Stream the health of all devices, at each change."""
        if not context.add_callback(self._health.wake):
            return
        for devices in self._health.follow(context.is_active):
            yield health_pb2.NodeWatchResourcesResponse(devices=map(_health, devices))


def _unary(call: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        call, request.FromString, lambda answer: answer.SerializeToString()
    )


def _claims(request: Any) -> list[Claim]:
    return [Claim(claim.namespace, claim.name, claim.uid) for claim in request.claims]


def _seconds(context: grpc.ServicerContext) -> float:
    """Return how long an answer may take."""
    return max(min(context.time_remaining() or KUBELETS, KUBELETS) - MARGIN, 0.0)


def _prepared(answers: Answers[tuple[PreparedDevice, ...]]) -> v1_pb2.NodePrepareResourcesResponse:
    answer = v1_pb2.NodePrepareResourcesResponse()
    for uid, those in answers.items():
        if isinstance(those, Exception):
            answer.claims[uid].error = str(those)
            continue
        answer.claims[uid].SetInParent()
        for device in those:
            answer.claims[uid].devices.add(
                request_names=device.requests,
                pool_name=device.pool,
                device_name=device.device,
                cdi_device_ids=[device.cdi],
                share_id=device.share_id or None,
            )
    return answer


def _health(device: DeviceHealth) -> health_pb2.DeviceHealth:
    return health_pb2.DeviceHealth(
        device=health_pb2.DeviceIdentifier(pool_name=device.pool, device_name=device.device),
        health=STATES[device.healthy],
        last_updated_time=int(time.time()),
        message=device.message,
    )
