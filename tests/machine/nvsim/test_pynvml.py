# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Unmodified pynvml as a client."""

from __future__ import annotations

import ctypes

import pynvml
import pytest
from nvsim.catalog import product
from nvsim.testing import PROJECT, Sim, client, start

SIZES = {
    "nvmlPciInfo_t": 68,
    "c_nvmlMemory_t": 24,
    "c_nvmlMemory_v2_t": 40,
    "c_nvmlEventData_t": 32,
    "c_nvmlGpuInstancePlacement_t": 8,
    "c_nvmlGpuInstanceProfileInfo_t": 48,
    "c_nvmlGpuInstanceProfileInfo_v2_t": 152,
    "c_nvmlGpuInstanceInfo_t": 24,
    "c_nvmlComputeInstanceProfileInfo_t": 36,
    "c_nvmlComputeInstanceProfileInfo_v2_t": 136,
    "c_nvmlComputeInstanceInfo_t": 32,
    "c_nvmlDeviceAttributes": 40,
    "c_nvmlFieldValue_t": 40,
    "c_nvmlEccSramErrorStatus_v1_t": 104,
    "c_nvmlRepairStatus_t": 12,
    "c_nvmlUnrepairableMemory_v1_t": 8,
    "c_nvmlRemappedRowsInfo_v2_t": 24,
    "c_nvmlGpuFabricInfo_v2_t": 36,
    "c_nvmlGpuFabricInfo_v3_t": 40,
}


def test_structs_have_the_sizes_of_the_c_header() -> None:
    assert {name: ctypes.sizeof(getattr(pynvml, name)) for name in SIZES} == SIZES


@pytest.mark.parametrize(
    "key", ["a100-40", "a100-80", "a30", "b200", "h100-80", "h200-141", "l40s", "t4", "v100"]
)
def test_every_product_describes_itself(key: str) -> None:
    with start(key, 2) as sim:
        found = client(
            sim,
            """
            n.nvmlInit()
            h = n.nvmlDeviceGetHandleByIndex(1)
            pci = n.nvmlDeviceGetPciInfo(h)
            answer({
                "count": n.nvmlDeviceGetCount(), "driver": n.nvmlSystemGetDriverVersion(),
                "name": n.nvmlDeviceGetName(h), "cc": n.nvmlDeviceGetCudaComputeCapability(h),
                "arch": n.nvmlDeviceGetArchitecture(h), "memory": n.nvmlDeviceGetMemoryInfo(h).total,
                "memory2": n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).total,
                "device": pci.pciDeviceId >> 16, "vendor": pci.pciDeviceId & 0xFFFF,
                "same": [n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))),
                         n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(pci.busId)),
                         n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(h)))],
                "mig": code(n.nvmlDeviceGetMigMode, h), "numa": code(n.nvmlDeviceGetNumaNodeId, h),
            })
            """,
        )
    model = product(key)
    assert found["count"] == 2
    assert found["driver"] == "550.163.01"
    assert found["name"] == model.name
    assert found["cc"] == list(model.compute_capability)
    assert found["arch"] == model.architecture
    assert found["memory"] == found["memory2"] == model.memory_mib << 20
    assert (found["device"], found["vendor"]) == (model.pci_device, 0x10DE)
    assert found["same"] == [1, 1, 1]
    assert found["mig"] == (0 if model.mig_capable else 3)
    assert found["numa"] == 3  # of GPUs that are NUMA nodes themselves only


LAYOUT = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def make(profile, start, size):
    place = n.c_nvmlGpuInstancePlacement_t(start, size)
    gi = n.nvmlDeviceCreateGpuInstanceWithPlacement(h, profile, ctypes.byref(place))
    return gi
def ci(gi, profile):
    return n.nvmlGpuInstanceCreateComputeInstance(gi, profile)
def migs():
    found = []
    for i in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):
        try: found.append(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(h, i)))
        except n.NVMLError as error: assert error.value == 6
    return found
"""


def test_instances_from_creation_to_destruction(h100: Sim) -> None:
    found = client(
        h100,
        LAYOUT
        + """
assert n.nvmlDeviceSetMigMode(h, 1) == 0
three, one = make(9, 4, 4), make(19, 0, 1)
out = {"overlap": code(make, 9, 4, 4), "place": code(make, 9, 1, 4), "slices": code(make, 5, 0, 4)}
cis = [ci(three, 2), ci(one, 0)]
out["full"] = code(ci, three, 2)
m = n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)
out["name"] = n.nvmlDeviceGetName(m)
out["attributes"] = n.nvmlDeviceGetAttributes(m).gpuInstanceSliceCount
out["parent"] = n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)) == n.nvmlDeviceGetUUID(h)
out["is_mig"] = [n.nvmlDeviceIsMigDeviceHandle(x).value for x in (m, h)]
out["count"] = len(migs())
out["holds"] = code(n.nvmlGpuInstanceDestroy, three)
out["mode"] = code(n.nvmlDeviceSetMigMode, h, 0)
for x in cis: n.nvmlComputeInstanceDestroy(x)
for x in (three, one): n.nvmlGpuInstanceDestroy(x)
out["stale"] = code(n.nvmlGpuInstanceGetInfo, three)
out["off"] = n.nvmlDeviceSetMigMode(h, 0)
answer(out)
""",
    )
    assert found == {
        "overlap": 23,
        "place": 2,
        "slices": 23,
        "full": 23,
        "name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "attributes": 3,
        "parent": True,
        "is_mig": [1, 0],
        "count": 2,
        "holds": 19,
        "mode": 19,
        "stale": 2,
        "off": 0,
    }


def test_order_trap_of_default_placement(a100: Sim) -> None:
    """What the vendor documents: small ones first leave no room for the large one."""
    found = client(
        a100,
        LAYOUT
        + """
n.nvmlDeviceSetMigMode(h, 1)
answer([code(n.nvmlDeviceCreateGpuInstance, h, p) for p in (19, 19, 14, 9)])
""",
    )
    assert found == [0, 0, 0, 23]


def test_another_process_sees_the_instances_and_may_not_change_them(a100: Sim) -> None:
    client(a100, LAYOUT + "n.nvmlDeviceSetMigMode(h, 1); ci(make(9, 0, 4), 2)")
    assert len(client(a100, LAYOUT + "answer(migs())")) == 1
    found = client(
        a100,
        "os.setuid(65534)\n"
        + LAYOUT
        + "answer([code(n.nvmlDeviceSetMigMode, h, 0), code(make, 9, 4, 4), len(migs())])",
    )
    assert found == [4, 4, 1]


def test_fields_for_mig(a100: Sim, h100: Sim) -> None:
    ask = """
    n.nvmlInit()
    values = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [184, 199, 1])
    answer([[v.nvmlReturn, v.value.uiVal] for v in values])
    """
    assert client(h100, ask) == [[0, 1], [0, 1], [3, 0]]
    assert client(a100, ask) == [[0, 0], [0, 1], [3, 0]]


def test_processes_by_the_two_call_protocol(a100: Sim) -> None:
    ask = """
    n.nvmlInit()
    h = n.nvmlDeviceGetHandleByIndex(0)
    found = [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)]
    answer([found, n.nvmlDeviceGetGraphicsRunningProcesses(h), n.nvmlDeviceGetMemoryInfo(h).used])
    """
    reserved = 480 << 20  # by the driver, which this version of the call counts as used
    assert client(a100, ask) == [[], [], reserved]
    holder = a100.hold(0)
    assert client(a100, ask) == [[[holder.pid, 256 << 20]], [], reserved + (256 << 20)]
    a100.let_go(holder)
    assert client(a100, ask)[0] == []


def test_modes_and_topology(h100: Sim) -> None:
    found = client(
        h100,
        """
        n.nvmlInit()
        h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
        n.nvmlDeviceSetPersistenceMode(h[0], 1); n.nvmlDeviceSetComputeMode(h[0], 3)
        answer([n.nvmlDeviceGetPersistenceMode(h[0]), n.nvmlDeviceGetComputeMode(h[0]),
                [n.nvmlDeviceGetTopologyCommonAncestor(h[0], x) for x in (h[1], h[2], h[7])],
                len(n.nvmlDeviceGetTopologyNearestGpus(h[0], 40)),
                n.nvmlDeviceGetP2PStatus(h[0], h[1], 0),
                n.nvmlDeviceGetNvLinkState(h[0], 17), code(n.nvmlDeviceGetNvLinkState, h[0], 18)])
        """,
    )
    assert found == [1, 3, [10, 40, 50], 3, 0, 1, 2]


def test_events_reach_only_those_who_asked(h100: Sim) -> None:
    waiter = """
    n.nvmlInit()
    events = n.nvmlEventSetCreate()
    h = n.nvmlDeviceGetHandleByIndex(2)
    n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
    out = [code(n.nvmlEventSetWait_v2, events, 20)]
    from nvsim.ctl import Client
    Client().ask("xid", gpu="1", number=31)
    Client().ask("xid", gpu="2", number=79)
    got = n.nvmlEventSetWait_v2(events, 2000)
    out += [got.eventData, n.nvmlDeviceGetIndex(got.device), got.gpuInstanceId]
    out += [code(n.nvmlEventSetWait_v2, events, 20)]
    answer(out)
    """
    h100.env["NVSIM_SOURCE"] = str(PROJECT)
    assert client(h100, waiter) == [10, 79, 2, 0xFFFFFFFF, 10]


def test_cabled_gpus_have_links_to_each_other_and_none_to_switches() -> None:
    with start("v100", 3) as sim:
        sim.ctl("cable", gpu="0", other="2", links=2)
        found = client(
            sim,
            """
            n.nvmlInit()
            h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(3)]
            answer([
                [n.nvmlDeviceGetNvLinkState(one, link) for link in (0, 1, 2)] for one in h
            ] + [
                n.nvmlDeviceGetNvLinkRemoteDeviceType(h[2], 1),
                n.nvmlDeviceGetNvLinkRemotePciInfo(h[2], 1).busId == n.nvmlDeviceGetPciInfo(h[0]).busId,
            ])
            """,
        )
    assert found == [[1, 1, 0], [0, 0, 0], [1, 1, 0], 0, True]
