# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The compiled description says what api.proto says, and what the public API says."""

from __future__ import annotations

from pathlib import Path

import gpu_plugin.proto.podresources_v1 as podresources
import gpu_plugin.proto.v1beta1 as package
import pytest
from google.protobuf import descriptor_pb2
from gpu_plugin.proto.podresources_v1 import api_pb2 as pods
from gpu_plugin.proto.podresources_v1 import rpc as pods_rpc
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from grpc_tools import protoc  # type: ignore[import-untyped]

FOLDERS = (Path(package.__file__).parent, Path(podresources.__file__).parent)
SOURCE = FOLDERS[0].parents[2]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_description_is_the_compiled_proto(folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "api.binpb"
    name = folder.relative_to(SOURCE) / "api.proto"
    words = ["protoc", f"-I{SOURCE}", f"--descriptor_set_out={made}", str(SOURCE / name)]
    assert protoc.main(words) == 0
    ours = (folder / "api.binpb").read_bytes()
    read = descriptor_pb2.FileDescriptorSet.FromString
    assert read(made.read_bytes()) == read(ours)


def test_bytes_on_the_wire_are_those_of_the_public_api() -> None:
    topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=1)])
    device = api_pb2.Device(ID="a", health="b", topology=topology)
    assert device.SerializeToString() == b"\x0a\x01a\x12\x01b\x1a\x04\x0a\x02\x08\x01"
    request = api_pb2.RegisterRequest(
        version="1",
        endpoint="2",
        resource_name="3",
        options=api_pb2.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    assert request.SerializeToString() == b"\x0a\x011\x12\x012\x1a\x013\x22\x02\x10\x01"
    answer = api_pb2.ContainerAllocateResponse(
        envs={"e": "v"},
        mounts=[api_pb2.Mount(container_path="c", host_path="h", read_only=True)],
        devices=[api_pb2.DeviceSpec(container_path="c", host_path="h", permissions="r")],
        annotations={"a": "b"},
        cdi_devices=[api_pb2.CDIDevice(name="n")],
    )
    assert answer.SerializeToString() == (
        b"\x0a\x06\x0a\x01e\x12\x01v"
        b"\x12\x08\x0a\x01c\x12\x01h\x18\x01"
        b"\x1a\x09\x0a\x01c\x12\x01h\x1a\x01r"
        b"\x22\x06\x0a\x01a\x12\x01b"
        b"\x2a\x03\x0a\x01n"
    )
    preferred = api_pb2.ContainerPreferredAllocationRequest(
        available_deviceIDs=["a"], must_include_deviceIDs=["m"], allocation_size=2
    )
    assert preferred.SerializeToString() == b"\x0a\x01a\x12\x01m\x18\x02"


def test_method_paths_are_those_of_the_services() -> None:
    services = api_pb2.DESCRIPTOR.services_by_name.values()
    paths = {f"/{one.full_name}/{method.name}" for one in services for method in one.methods}
    assert paths == {
        rpc.REGISTER,
        rpc.GET_DEVICE_PLUGIN_OPTIONS,
        rpc.LIST_AND_WATCH,
        rpc.GET_PREFERRED_ALLOCATION,
        rpc.ALLOCATE,
        rpc.PRE_START_CONTAINER,
    }


def test_pods_on_the_wire_are_those_of_the_public_api() -> None:
    devices = pods.ContainerDevices(resource_name="r", device_ids=["d", "e"])
    container = pods.ContainerResources(name="c", devices=[devices])
    answer = pods.ListPodResourcesResponse(
        pod_resources=[pods.PodResources(name="p", namespace="n", containers=[container])]
    )
    assert answer.SerializeToString() == (
        b"\x0a\x16\x0a\x01p\x12\x01n\x1a\x0e\x0a\x01c\x12\x09\x0a\x01r\x12\x01d\x12\x01e"
    )
    given = pods.ClaimResource(
        cdi_devices=[pods.CDIDevice(name="k")], driver_name="d", pool_name="p", device_name="g"
    )
    claim = pods.DynamicResource(claim_name="c", claim_namespace="n", claim_resources=[given])
    assert pods.ContainerResources(dynamic_resources=[claim]).SerializeToString() == (
        b"\x2a\x16\x12\x01c\x1a\x01n\x22\x0e\x0a\x03\x0a\x01k\x12\x01d\x1a\x01p\x22\x01g"
    )
    there = pods.AllocatableResourcesResponse(devices=[devices])
    assert there.SerializeToString() == b"\x0a\x09\x0a\x01r\x12\x01d\x12\x01e"
    (service,) = pods.DESCRIPTOR.services_by_name.values()
    paths = {f"/{service.full_name}/{method.name}" for method in service.methods}
    assert paths == {pods_rpc.LIST, pods_rpc.GET_ALLOCATABLE}
