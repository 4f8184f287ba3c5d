# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The compiled description says what api.proto says, and what the public API says."""

from __future__ import annotations

from pathlib import Path

import gpu_plugin.proto.v1beta1 as package
import pytest
from google.protobuf import descriptor_pb2
from gpu_plugin.proto.dra_health_v1alpha1 import api_pb2 as health
from gpu_plugin.proto.dra_health_v1alpha1 import rpc as health_rpc
from gpu_plugin.proto.dra_v1 import api_pb2 as dra
from gpu_plugin.proto.dra_v1 import rpc as dra_rpc
from gpu_plugin.proto.podresources_v1 import api_pb2 as pods
from gpu_plugin.proto.podresources_v1 import rpc as pods_rpc
from gpu_plugin.proto.registration_v1 import api_pb2 as registration
from gpu_plugin.proto.registration_v1 import rpc as registration_rpc
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from grpc_tools import protoc  # type: ignore[import-untyped]

ROOM = Path(package.__file__).parents[1]
FOLDERS = sorted(path.parent for path in ROOM.glob("*/api.proto"))
SOURCE = ROOM.parents[1]


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


def test_claims_on_the_wire_are_those_of_the_public_api() -> None:
    # As Kubernetes 1.36.2's own messages are (k8s.io/kubelet/pkg/apis): the field's number and type, the length.
    claim = dra.Claim(namespace="n", uid="u", name="c")
    assert dra.NodePrepareResourcesRequest(claims=[claim]).SerializeToString() == (
        b"\x0a\x09\x0a\x01n\x12\x01u\x1a\x01c"
    )
    fields = {"request_names": ["r"], "pool_name": "p", "device_name": "d", "cdi_device_ids": ["i"]}
    device = dra.Device(**fields, share_id="s")
    wire = b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x01i"
    assert device.SerializeToString() == wire + b"\x2a\x01s"
    assert dra.Device(**fields, share_id=None).SerializeToString() == wire
    answer = dra.NodePrepareResourcesResponse(claims={"u": {"error": "e"}})
    assert answer.SerializeToString() == b"\x0a\x08\x0a\x01u\x12\x03\x12\x01e"
    undone = dra.NodeUnprepareResourcesResponse(claims={"u": {"error": "e"}})
    assert undone.SerializeToString() == b"\x0a\x08\x0a\x01u\x12\x03\x0a\x01e"
    told = registration.PluginInfo(type="t", name="n", endpoint="e", supported_versions=["v"])
    assert told.SerializeToString() == b"\x0a\x01t\x12\x01n\x1a\x01e\x22\x01v"
    status = registration.RegistrationStatus(plugin_registered=True, error="e")
    assert status.SerializeToString() == b"\x08\x01\x12\x01e"
    found = health.DeviceHealth(
        device=health.DeviceIdentifier(pool_name="p", device_name="d"),
        health=health.UNHEALTHY,
        last_updated_time=3,
        health_check_timeout_seconds=4,
        message="m",
    )
    assert found.SerializeToString() == (
        b"\x0a\x06\x0a\x01p\x12\x01d\x10\x02\x18\x03\x20\x04\x2a\x01m"
    )


def test_method_paths_of_claims_are_those_of_the_services() -> None:
    for messages, names in (
        (dra, {dra_rpc.PREPARE, dra_rpc.UNPREPARE}),
        (registration, {registration_rpc.GET_INFO, registration_rpc.NOTIFY}),
        (health, {health_rpc.WATCH}),
    ):
        (service,) = messages.DESCRIPTOR.services_by_name.values()
        assert {f"/{service.full_name}/{method.name}" for method in service.methods} == names
