# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gRPC side: the Registration service, and a client for every plugin that registers."""

from __future__ import annotations

import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

from .devices import AdmissionError, Device, KubeletError, Ledger
from .pods import PodResources

RESOURCE = re.compile(r"[a-z0-9.-]+\.[a-z]+/[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?")
SECONDS = 5.0
# A new connection each, as the kubelet makes: a plugin may serve where another one still does.
UNSHARED = (("grpc.use_local_subchannel_pool", 1),)


class Endpoint:
    """A registered plugin and the thread that follows its list."""

    def __init__(self, name: str, socket: Path, ledger: Ledger) -> None:
        self.name, self._ledger = name, ledger
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=UNSHARED)
        self.replaced = False
        try:
            grpc.channel_ready_future(self._channel).result(timeout=SECONDS)
            self.options: Any = self.call(
                rpc.GET_DEVICE_PLUGIN_OPTIONS, api_pb2.Empty(), api_pb2.DevicePluginOptions
            )
        except (grpc.FutureTimeoutError, AdmissionError):
            self._channel.close()
            raise

    def follow(self) -> None:
        """Follow the plugin's list from now on."""
        threading.Thread(target=self._follow, daemon=True).start()

    def call(self, method: str, request: Any, answer: Any) -> Any:
        """Call the plugin; AdmissionError carries its complaint."""
        call = self._channel.unary_unary(
            method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            return call(request, timeout=SECONDS)
        except grpc.RpcError as error:
            raise AdmissionError(f"rpc error: {error.code().name}: {error.details()}") from error

    def _follow(self) -> None:
        watch = self._channel.unary_stream(
            rpc.LIST_AND_WATCH,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=api_pb2.ListAndWatchResponse.FromString,
        )
        try:
            for answer in watch(api_pb2.Empty()):
                devices = {
                    one.ID: Device(one.health, [node.ID for node in one.topology.nodes])
                    for one in answer.devices
                }
                with self._ledger.changed:
                    if not self.replaced:
                        self._ledger.update(self.name, devices)
        except (grpc.RpcError, ValueError):
            pass
        with self._ledger.changed:
            if not self.replaced:
                self._ledger.disconnect(self.name)

    def close(self) -> None:
        """Stop following, because another plugin took over or the kubelet restarts."""
        with self._ledger.changed:
            self.replaced = True
        self._channel.close()


class Kubelet:
    """The device manager behind kubelet.sock."""

    def __init__(self, folder: Path, pods: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._folder = folder
        self.ledger = Ledger(folder / "kubelet_internal_checkpoint")
        self._endpoints: dict[str, Endpoint] = {}
        self._starts = 0
        self._server: grpc.Server | None = None
        self._pods = PodResources(pods, self.ledger) if pods else None

    def start(self) -> None:
        """Empty the folder but for the checkpoint, as the kubelet does, and serve Registration."""
        for path in self._folder.iterdir():
            if path != self.ledger.checkpoint and not path.is_dir():
                path.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8))
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=api_pb2.RegisterRequest.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        handlers = {rpc.REGISTER.rsplit("/", 1)[1]: handler}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(rpc.REGISTRATION, handlers),)
        )
        old = os.umask(0o077)
        try:
            self._server.add_insecure_port(f"unix://{self._folder / rpc.KUBELET_SOCKET}")
        finally:
            os.umask(old)
        self._server.start()
        if self._pods is not None:
            self._pods.start()

    def stop(self) -> None:
        """Stop serving and forget the plugins."""
        if self._server is not None:
            self._server.stop(grace=0.2).wait()
        if self._pods is not None:
            self._pods.stop()
        with self.ledger.changed:
            self._starts += 1
            for endpoint in self._endpoints.values():
                endpoint.close()
            self._endpoints.clear()
            self.ledger.forget()

    def restart(self) -> None:
        """Restart: allocations stay, registrations do not."""
        self.stop()
        self.start()

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.version != rpc.VERSION:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"unsupported version {request.version}"
            )
        if not RESOURCE.fullmatch(request.resource_name):
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"invalid resource name {request.resource_name}"
            )
        # The kubelet answers first and connects then: a plugin may serve only once it is registered.
        threading.Thread(target=self._connect, args=(request, self._starts), daemon=True).start()
        return api_pb2.Empty()

    def _connect(self, request: Any, starts: int) -> None:
        name = request.resource_name
        try:
            endpoint = Endpoint(name, self._folder / request.endpoint, self.ledger)
        except (grpc.FutureTimeoutError, AdmissionError) as error:
            why = str(error) or f"no answer within {SECONDS:g} s"
            print(f"plugin {request.endpoint} of {name} is left out: {why}", file=sys.stderr)
            return
        with self.ledger.changed:
            if starts != self._starts:  # this kubelet restarted meanwhile and knows no plugins
                endpoint.close()
                return
            old = self._endpoints.get(name)
            self._endpoints[name] = endpoint
            if old is not None:
                old.close()
            endpoint.follow()

    # --- pods ---

    def admit(self, pod: str, requests: dict[str, int]) -> dict[str, Any]:
        """Give a pod its devices, as the real one does at admission; AdmissionError where it cannot."""
        with self.ledger.changed:
            if pod in self.ledger.pods:
                raise AdmissionError(f"pod {pod} is already admitted")
            given = {name: self._choose(name, count) for name, count in requests.items()}
            answers = [self._allocate(name, ids) for name, ids in given.items()]
            self.ledger.give(pod, given)
        result: dict[str, Any] = {
            "pod": pod,
            "devices": given,
            "envs": {},
            "mounts": [],
            "device_nodes": [],
            "annotations": {},
            "cdi_devices": [],
        }
        for one in answers:
            result["envs"].update(one.envs)
            result["annotations"].update(one.annotations)
            result["mounts"] += [
                {"host": m.host_path, "container": m.container_path, "read_only": m.read_only}
                for m in one.mounts
            ]
            result["device_nodes"] += [
                {"host": d.host_path, "container": d.container_path, "permissions": d.permissions}
                for d in one.devices
            ]
            result["cdi_devices"] += [d.name for d in one.cdi_devices]
        return result

    def _endpoint(self, name: str) -> Endpoint:
        if name not in self._endpoints:
            raise AdmissionError(f"no plugin is registered for {name}")
        return self._endpoints[name]

    def _choose(self, name: str, count: int) -> list[str]:
        available = self.ledger.free(name, count)
        endpoint = self._endpoint(name)
        if not endpoint.options.get_preferred_allocation_available:
            return available[:count]
        request = api_pb2.PreferredAllocationRequest(
            container_requests=[
                api_pb2.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, allocation_size=count
                )
            ]
        )
        answer = endpoint.call(
            rpc.GET_PREFERRED_ALLOCATION, request, api_pb2.PreferredAllocationResponse
        )
        preferred = [one for found in answer.container_responses[:1] for one in found.deviceIDs]
        wanted = [one for one in dict.fromkeys(preferred) if one in available]
        # The kubelet takes the preference as far as it goes and fills up with what is there.
        return (wanted + [one for one in available if one not in wanted])[:count]

    def _allocate(self, name: str, ids: list[str]) -> Any:
        endpoint = self._endpoint(name)
        request = api_pb2.AllocateRequest(
            container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)]
        )
        answer = endpoint.call(rpc.ALLOCATE, request, api_pb2.AllocateResponse)
        if endpoint.options.pre_start_required:
            start = api_pb2.PreStartContainerRequest(devices_ids=ids)
            endpoint.call(rpc.PRE_START_CONTAINER, start, api_pb2.PreStartContainerResponse)
        if len(answer.container_responses) != 1:
            raise AdmissionError(
                f"{name}: the plugin answered for {len(answer.container_responses)} containers"
            )
        return answer.container_responses[0]

    def wait(self, name: str, count: int, seconds: float) -> dict[str, Any]:
        """Wait until so many devices of a resource are allocatable."""

        def there() -> bool:
            found = self.ledger.describe().get(name, {"allocatable": 0})
            return bool(found["allocatable"] == count)

        with self.ledger.changed:
            if not self.ledger.changed.wait_for(there, seconds):
                have = self.ledger.describe().get(name, {}).get("allocatable", 0)
                raise KubeletError(f"{name}: {have} allocatable after {seconds:g} s, not {count}")
            return self.ledger.describe()
