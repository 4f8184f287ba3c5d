# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a kubelet reads of Allocate's answer that was built before the field cdi_devices, as all up to 1.26 were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpu_plugin.proto.v1beta1 as package
import grpc
import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.role_config import whole
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from gpu_plugin.config import configuration
from gpu_plugin.kubelet.server import Published, ResourceServer
from gpu_plugin.model.inventory import HostState
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

from tests.fakes.daemon.gpu_builders import device, snapshot
from tests.support.waiting import LIMIT

GPU = "nvidia.com/gpu"
HOST = HostState(("/dev/nvidiactl",), ("0",), frozenset({"GPU-0"}))


def old_response() -> Any:
    """Return the class of AllocateResponse by the api.proto of Kubernetes 1.26."""
    described = descriptor_pb2.FileDescriptorSet.FromString(
        (Path(package.__file__).parent / "api.binpb").read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        for message in file.message_type:
            fields = [field for field in message.field if field.name != "cdi_devices"]
            del message.field[:]
            message.field.extend(fields)
        pool.Add(file)
    name = api_pb2.AllocateResponse.DESCRIPTOR.full_name
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def allocated(config: dict[str, Any], folder: Path) -> Any:
    """Return what an old kubelet reads of the answer for a container with one GPU."""
    published = Published()
    server = ResourceServer(GPU, folder, published)
    parsed = configuration.parse(str(whole(config)))
    published.put(snapshot({GPU: (device(0),)}, parsed, HOST))
    server.start()
    request = api_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=["GPU-0"])
    try:
        with grpc.insecure_channel(f"unix://{server.socket}") as channel:
            serialize, read = api_pb2.AllocateRequest.SerializeToString, old_response().FromString
            answer = channel.unary_unary(rpc.ALLOCATE, serialize, read)(request, timeout=LIMIT)
    finally:
        server.stop()
    return answer.container_responses[0]


def test_the_roles_default_names_the_device_in_an_annotation(tmp_path: Path) -> None:
    (name,) = allocated({}, tmp_path).annotations.values()
    assert name.endswith("nvidia.com/gpu=GPU-0")


@pytest.mark.parametrize(
    ("strategy", "names_it"),
    [("cdi-cri", False), ("cdi-annotations", True), ("envvar", True), ("volume-mounts", True)],
)
def test_each_strategy_but_the_cris_field_names_the_device(
    strategy: str, names_it: bool, tmp_path: Path
) -> None:
    plugin = {"flags": {"plugin": {"deviceListStrategy": [strategy]}}}
    assert ("GPU-0" in str(allocated(plugin, tmp_path))) == names_it
