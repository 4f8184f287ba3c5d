# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet's part in Dynamic Resource Allocation, as that of Kubernetes 1.36 plays it.

It looks for registration sockets in a folder (pkg/kubelet/pluginmanager), takes drivers of the API v1
(cm/dra/plugin), asks for claims to be prepared and unprepared (cm/dra/manager.go), listens to the health of
devices, and counts a driver that was without a connection at so many looks, ``WIPE``, as one whose slices are removed.
"""

from __future__ import annotations

import contextlib
import json
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from gpu_plugin.proto.dra_health_v1alpha1 import api_pb2 as health_pb2
from gpu_plugin.proto.dra_health_v1alpha1 import rpc as health_rpc
from gpu_plugin.proto.dra_v1 import api_pb2 as v1_pb2
from gpu_plugin.proto.dra_v1 import rpc as v1
from gpu_plugin.proto.registration_v1 import api_pb2 as registration_pb2
from gpu_plugin.proto.registration_v1 import rpc as registration

READY = grpc.ChannelConnectivity.READY.value[0]
LOOK, INFO, NOTIFY, CALL, STREAM = 0.1, 1.0, 5.0, 45.0, 5.0  # seconds
WIPE = 300  # looks in a row, which is half a minute
# A new connection each, as the kubelet makes: a driver may serve where another one still does.
UNSHARED = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1000))
Stamp = tuple[int, int]
Claim = tuple[str, str, str]  # namespace, name, UID


class DraError(Exception):
    """What keeps a pod from starting, or from ending, in the kubelet's words."""


@dataclass
class Given:
    """A claim as the kubelet keeps it: its devices, the pods that have it, and whether it is prepared."""

    devices: list[Any] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    prepared: bool = False

    def cdi(self, request: str = "") -> list[str]:
        """Return the CDI devices that a container with one of the claim's requests gets."""
        return [
            name
            for one in self.devices
            if not request or not one.request_names or request in one.request_names
            for name in one.cdi_device_ids
        ]


class Plugin:
    """A registered driver: its connection, and what it tells of its devices."""

    def __init__(self, name: str, endpoint: str, call: float) -> None:
        self.name, self.endpoint, self.seconds = name, endpoint, call
        self.connected, self.missed = False, 0
        self.health: dict[tuple[str, str], Any] = {}
        self.heard = 0
        self._closed = threading.Event()
        self._channel = grpc.insecure_channel(f"unix:{endpoint}", options=UNSHARED)
        threading.Thread(target=self._follow, daemon=True).start()

    def look(self) -> None:
        """Notice whether it is connected, and connect where it is not; ``missed`` are such looks in a row."""
        # subscribe() raises in a thread of its own when the channel is closed.
        channel: Any = self._channel
        self.connected = channel._channel.check_connectivity_state(True) == READY
        self.missed = 0 if self.connected else self.missed + 1

    def prepare(self, claims: list[Claim]) -> Any:
        """Call NodePrepareResources."""
        return self._call(v1.PREPARE, claims, "Prepare")

    def unprepare(self, claims: list[Claim]) -> Any:
        """Call NodeUnprepareResources."""
        return self._call(v1.UNPREPARE, claims, "Unprepare")

    def _call(self, method: str, claims: list[Claim], verb: str) -> Any:
        request = getattr(v1_pb2, f"Node{verb}ResourcesRequest")()
        for namespace, name, uid in claims:
            request.claims.add(namespace=namespace, name=name, uid=uid)
        call = self._channel.unary_unary(
            method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(v1_pb2, f"Node{verb}ResourcesResponse").FromString,
        )
        try:
            return call(request, timeout=self.seconds)
        except grpc.RpcError as error:
            details = f"{error.code().name}: {error.details()}"
            raise DraError(f"Node{verb}Resources: rpc error: {details}") from error

    def _follow(self) -> None:
        """Listen to the health of devices, and begin again where that ends."""
        watch = self._channel.unary_stream(
            health_rpc.WATCH,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=health_pb2.NodeWatchResourcesResponse.FromString,
        )
        while not self._closed.is_set():
            with contextlib.suppress(grpc.RpcError, ValueError):
                for answer in watch(health_pb2.NodeWatchResourcesRequest()):
                    self.heard += 1
                    self.health = {
                        (one.device.pool_name, one.device.device_name): one
                        for one in answer.devices
                    }
            self.health = {}
            self._closed.wait(STREAM)

    def close(self) -> None:
        """Let go of the connection."""
        self._closed.set()
        self._channel.close()


class DraKubelet:
    """``registry`` is the folder of registration sockets; ``call`` is how long a driver may take."""

    def __init__(self, registry: Path, call: float = CALL, wipe: int = WIPE) -> None:
        self.registry, self._seconds, self._wipe = registry, call, wipe
        registry.mkdir(parents=True, exist_ok=True)
        self.plugins: dict[str, Plugin] = {}
        self.claims: dict[tuple[str, str], Given] = {}  # by namespace and name, as they are kept
        self._uids: dict[tuple[str, str], str] = {}
        self._seen: dict[Path, tuple[Stamp, str]] = {}
        self.wiped: list[str] = []
        self.errors: list[str] = []
        self._ended, self._keeping = threading.Event(), threading.Lock()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def stop(self) -> None:
        """End, with all connections. What is kept of claims stays."""
        self._ended.set()
        self._watching.join()
        for one in self.plugins.values():
            one.close()
        self.plugins.clear()

    def restart(self) -> DraKubelet:
        """Return a new kubelet. It knows which pods have which claims, and prepares all of them again."""
        self.stop()
        new = DraKubelet(self.registry, self._seconds, self._wipe)
        new.claims, new._uids = self.claims, self._uids
        for one in new.claims.values():
            one.prepared = False
        return new

    # --- registration ---

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            there = dict(self._sockets())
            for path in [
                one for one, (stamp, _name) in self._seen.items() if there.get(one) != stamp
            ]:
                _stamp, name = self._seen.pop(path)
                if plugin := self.plugins.pop(name, None):
                    plugin.close()
            for path, stamp in there.items():
                if path not in self._seen:
                    self._register(path, stamp)
            self._count_lost()

    def _sockets(self) -> Iterator[tuple[Path, Stamp]]:
        for path in self.registry.rglob("*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                if stat.S_ISSOCK(found.st_mode) and not path.name.startswith("."):
                    yield path, (found.st_ino, found.st_mtime_ns)

    def _register(self, path: Path, stamp: Stamp) -> None:
        """Ask a plugin who it is, and tell it whether it is taken."""
        with grpc.insecure_channel(f"unix:{path}", options=UNSHARED) as channel:
            info = _method(channel, registration.GET_INFO, registration_pb2.PluginInfo)
            notify = _method(
                channel, registration.NOTIFY, registration_pb2.RegistrationStatusResponse
            )
            try:
                found = info(registration_pb2.InfoRequest(), timeout=INFO)
                problem = self._problem(found)
                if not problem:
                    endpoint = found.endpoint or str(path)
                    self.plugins[found.name] = Plugin(found.name, endpoint, self._seconds)
                    self._seen[path] = stamp, found.name
                status = registration_pb2.RegistrationStatus(
                    plugin_registered=not problem, error=problem
                )
                notify(status, timeout=NOTIFY)
                self.errors += [problem] if problem else []
            except grpc.RpcError as error:
                self.errors.append(f"{path}: {error.code().name}")  # it is tried again

    def _problem(self, found: Any) -> str:
        if found.type != registration.DRA_PLUGIN:
            return f"no handler registered for plugin type: {found.type}"
        if v1.VERSION not in found.supported_versions:
            return f"none of the services {list(found.supported_versions)} are supported"
        if any(one.endpoint == found.endpoint for one in self.plugins.values()):
            return (
                f"endpoint {found.endpoint} already registered for DRA driver plugin {found.name}"
            )
        return ""

    def _count_lost(self) -> None:
        for name, one in self.plugins.items():
            one.look()
            if one.connected:
                self.wiped = [each for each in self.wiped if each != name]
            elif one.missed > self._wipe and name not in self.wiped:
                self.wiped.append(name)

    # --- pods ---

    def start_pod(self, driver: str, pod: str, *claims: Claim) -> list[str]:
        """Prepare the claims of a pod that starts; return all its CDI devices. DraError: it is tried again."""
        wanted = []
        for namespace, name, uid in claims:
            key = namespace, name
            if self._uids.get(key, uid) != uid:
                raise DraError(f"old ResourceClaim with same name {name} still exists")
            given = self.claims.setdefault(key, Given())
            self._uids[key] = uid
            given.pods.add(pod)
            wanted += [] if given.prepared else [(namespace, name, uid)]
        self._keep()
        if wanted:
            self._prepare(driver, wanted)
        return [each for one in claims for each in self.claims[one[:2]].cdi()]

    def _prepare(self, driver: str, wanted: list[Claim]) -> None:
        answer = self._plugin(driver).prepare(wanted)
        by_uid = {uid: (namespace, name) for namespace, name, uid in wanted}
        for uid, result in answer.claims.items():
            if uid not in by_uid:
                raise DraError(f"NodePrepareResources returned result for unknown claim UID {uid}")
            if result.error:
                name = by_uid[uid][1]
                raise DraError(
                    f"NodePrepareResources failed for ResourceClaim {name}: {result.error}"
                )
            self.claims[by_uid[uid]].devices = list(result.devices)
        if left := len(wanted) - len(answer.claims):
            raise DraError(f"NodePrepareResources skipped {left} ResourceClaims")
        for key in by_uid.values():
            self.claims[key].prepared = True

    def end_pod(self, driver: str, pod: str) -> None:
        """Unprepare the claims that only this pod has. DraError: it is tried again."""
        wanted: list[Claim] = []
        for (namespace, name), given in self.claims.items():
            if given.pods == {pod}:
                wanted.append((namespace, name, self._uids[namespace, name]))
            else:
                given.pods.discard(pod)
        self._keep()
        if not wanted:
            return
        answer = self._plugin(driver).unprepare(wanted)
        for uid, result in answer.claims.items():
            if result.error:
                raise DraError(
                    f"NodeUnprepareResources failed for ResourceClaim {uid}: {result.error}"
                )
        if left := len(wanted) - len(answer.claims):
            raise DraError(f"NodeUnprepareResources skipped {left} ResourceClaims")
        for namespace, name, _uid in wanted:
            del self._uids[namespace, name], self.claims[namespace, name]
        self._keep()

    def _keep(self) -> None:
        """Write down the claims that pods have (cm/dra/state): JSON in a text of JSON."""
        with self._keeping:
            self._write()

    def _write(self) -> None:
        listed = [
            {
                "ClaimUID": uid,
                "ClaimName": name,
                "Namespace": namespace,
                "PodUIDs": {pod: {} for pod in sorted(self.claims[namespace, name].pods)},
            }
            for (namespace, name), uid in list(self._uids.items())
        ]
        data = {
            "kind": "DRACheckpoint",
            "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
            "ClaimInfoStateList": listed,
        }
        text = json.dumps(data, separators=(",", ":"))
        path = self.registry.parent / "dra_manager_state"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({"Data": text, "Checksum": zlib.crc32(text.encode())}))
        temporary.replace(path)

    def _plugin(self, driver: str) -> Plugin:
        if driver not in self.plugins:
            raise DraError(f"DRA driver {driver} is not registered")
        return self.plugins[driver]


def _method(channel: grpc.Channel, path: str, answer: Any) -> Callable[..., Any]:
    return channel.unary_unary(
        path,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )
