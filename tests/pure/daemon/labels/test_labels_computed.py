# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the labels of a node say."""

from __future__ import annotations

from dataclasses import replace

from gpu_plugin._shared._machine.nvml.readings import MigAttributes
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.labels.labels import Facts, Vgpu, labels, models, vgpu
from gpu_plugin.model.inventory import GpuView

from tests.fakes.daemon.gpu_builders import gpu, inventory, view

ONE = MigAttributes(9984, 16, 1, 1, 1, 2, 3, 4, 5)
MIXED = "flags: {migStrategy: mixed}\n"
SINGLE = "flags: {migStrategy: single}\n"
SHARED = "sharing: {timeSlicing: {%s resources: [{name: %s, replicas: 4}]}}"


def facts(*views: GpuView, **more: object) -> Facts:
    found = inventory(*views)
    known = {mig.uuid: ONE for one in views for mig in one.mig}
    classes = {one.gpu.uuid: 0x030200 for one in views}
    plain = Facts(found, "12.4", "HGX H100 (rev. 2)", classes, known)
    return replace(plain, **more)  # type: ignore[arg-type]


def of(some: Facts, config: str = "", started: int | None = None) -> dict[str, str]:
    """The labels without the vendor's name."""
    found = labels(some, parse(config) if config else Config(), started)
    return {key.removeprefix("nvidia.com/"): text for key, text in found.items()}


TWO = facts(view(0), view(1))


def test_all_labels_of_whole_gpus() -> None:
    assert of(TWO, started=1700000000) == {
        "gfd.timestamp": "1700000000",
        "cuda.driver.major": "550",
        "cuda.driver.minor": "163",
        "cuda.driver.rev": "01",
        "cuda.driver-version.major": "550",
        "cuda.driver-version.minor": "163",
        "cuda.driver-version.revision": "01",
        "cuda.driver-version.full": "550.163.01",
        "cuda.runtime.major": "12",
        "cuda.runtime.minor": "4",
        "cuda.runtime-version.major": "12",
        "cuda.runtime-version.minor": "4",
        "cuda.runtime-version.full": "12.4",
        "gpu.machine": "HGX-H100-rev.-2",
        "gpu.mode": "compute",
        "mig.capable": "true",
        "mps.capable": "false",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.count": "2",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.memory": "81920",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
    }


def test_a_driver_of_two_numbers_has_no_revision() -> None:
    found = of(facts(view(0), inventory=replace(inventory(view(0)), driver_version="560.10")))
    assert (found["cuda.driver.rev"], found["cuda.driver-version.revision"]) == ("", "")
    assert found["cuda.driver-version.full"] == "560.10"


def test_without_gpus_there_is_next_to_nothing() -> None:
    assert of(facts()) == {}
    assert of(facts(), started=5) == {"gfd.timestamp": "5"}


def test_the_family_follows_from_the_compute_capability() -> None:
    for capability, family in (
        ((3, 7), "kepler"),
        ((5, 2), "maxwell"),
        ((6, 1), "pascal"),
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 0), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 0), "blackwell"),
        ((12, 0), "blackwell"),
        ((13, 0), "rubin"),
        ((99, 0), "undefined"),
    ):
        some = facts(GpuView(replace(gpu(0), compute_capability=capability)))
        found = of(some)
        assert found["gpu.family"] == family, capability
        assert (found["gpu.compute.major"], found["gpu.compute.minor"]) == tuple(
            map(str, capability)
        ), capability


MPS = "sharing: {mps: {resources: [{name: %s, replicas: 4}]}}"
WITHOUT = {"whole GPUs": "", "by time": SHARED % ("", "gpu"), "of others": MPS % "mig-1g.10gb"}


def test_mps_capable_is_false_where_mps_is_not_served() -> None:
    for config in WITHOUT.values():
        assert of(TWO, config)["mps.capable"] == "false", config


def test_mps_capable_is_true_where_mps_is_served() -> None:
    """NVIDIA's own MPS daemon runs where it is true, as its DaemonSet selects nodes by it."""
    found = of(TWO, MPS % "gpu")
    assert (found["mps.capable"], found["gpu.sharing-strategy"]) == ("true", "mps")
    one = facts(view(0, "1g.10gb"), view(1))
    assert of(one, MIXED + MPS % "mig-1g.10gb")["mps.capable"] == "true"
    assert of(one, SINGLE + MPS % "gpu")["mps.capable"] == "false"  # single that does not fit


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    some = facts(GpuView(replace(gpu(0), compute_capability=(0, 0), memory_total=0)))
    assert not {"gpu.memory", "gpu.family", "gpu.compute.major"} & of(some).keys()
    assert of(replace(some, machine=""))["gpu.machine"] == "unknown"


def test_the_mode_follows_from_the_pci_classes() -> None:
    for classes, mode in (
        ((0x030200, 0x030200), "compute"),
        ((0x030000, 0x030000), "graphics"),
        ((0x030200, 0x030000), "unknown"),
        ((0, 0), "unknown"),
    ):
        some = replace(TWO, classes={"GPU-0": classes[0], "GPU-1": classes[1]})
        assert of(some)["gpu.mode"] == mode, classes


def test_a_clique_is_labelled_where_it_is_the_same_for_all() -> None:
    for cliques, expected in (
        (("uuid.1", "uuid.1"), "uuid.1"),
        (("uuid.1", None), "uuid.1"),
        (("uuid.1", "uuid.2"), None),
        ((None, None), None),
    ):
        some = replace(TWO, cliques={"GPU-0": cliques[0], "GPU-1": cliques[1]})
        assert of(some).get("gpu.clique") == expected, cliques


def test_the_model_with_the_most_gpus_is_labelled() -> None:
    other = GpuView(gpu(0, name="Tesla T4"))
    some = facts(other, view(1), view(2))
    found = of(some)
    assert (found["gpu.product"], found["gpu.count"]) == ("NVIDIA-H100-80GB-HBM3", "2")
    assert models(some.inventory) == ["NVIDIA H100 80GB HBM3", "Tesla T4"]
    assert of(facts(other, view(1)))["gpu.product"] == "Tesla-T4"


def test_a_display_gpu_does_not_count() -> None:
    some = facts(view(0), GpuView(gpu(1, name="NVIDIA DGX Display")))
    assert of(some)["gpu.count"] == "1"


def test_shared_gpus_are_labelled() -> None:
    for sharing, product, replicas, strategy in (
        (SHARED % ("", "gpu"), "NVIDIA-H100-80GB-HBM3-SHARED", "4", "time-slicing"),
        (SHARED % ("renameByDefault: true,", "gpu"), "NVIDIA-H100-80GB-HBM3", "4", "time-slicing"),
        (SHARED % ("", "other"), "NVIDIA-H100-80GB-HBM3", "1", "none"),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3, rename: x, devices: [1]}]}}",
            "NVIDIA-H100-80GB-HBM3",
            "3",
            "time-slicing",
        ),
    ):
        found = of(TWO, sharing)
        assert found["gpu.product"] == product, sharing
        assert (found["gpu.replicas"], found["gpu.sharing-strategy"]) == (replicas, strategy), (
            sharing
        )
        assert found["gpu.count"] == "2", sharing


def test_the_users_names_for_gpus_are_followed() -> None:
    named = "resources: {gpus: [{pattern: '*H100*', name: h100}]}\n" + SHARED % ("", "h100")
    assert of(TWO, named)["gpu.product"] == "NVIDIA-H100-80GB-HBM3-SHARED"


def test_mixed_labels_each_profile() -> None:
    some = facts(view(0, "1g.10gb", "1g.10gb", "1g.10gb+me"), view(1))
    found = of(some, MIXED)
    assert found["mig.strategy"] == "mixed"
    assert {key: text for key, text in found.items() if key.startswith("mig-1g.10gb.")} == {
        "mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "mig-1g.10gb.count": "2",
        "mig-1g.10gb.replicas": "1",
        "mig-1g.10gb.sharing-strategy": "none",
        "mig-1g.10gb.memory": "9984",
        "mig-1g.10gb.multiprocessors": "16",
        "mig-1g.10gb.slices.gi": "1",
        "mig-1g.10gb.slices.ci": "1",
        "mig-1g.10gb.engines.copy": "1",
        "mig-1g.10gb.engines.decoder": "2",
        "mig-1g.10gb.engines.encoder": "3",
        "mig-1g.10gb.engines.jpeg": "4",
        "mig-1g.10gb.engines.ofa": "5",
    } | {key: text for key, text in found.items() if key.startswith("mig-1g.10gb.me.")}
    assert found["mig-1g.10gb.me.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"
    assert (found["gpu.count"], found["gpu.replicas"]) == ("2", "1")


def test_a_gpu_in_mig_mode_has_no_replicas_of_its_own() -> None:
    found = of(facts(view(0, "1g.10gb")), MIXED + SHARED % ("", "gpu"))
    assert (found["gpu.replicas"], found["gpu.sharing-strategy"]) == ("0", "none")
    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_shared_mig_devices_are_labelled() -> None:
    found = of(facts(view(0, "1g.10gb"), view(1)), MIXED + SHARED % ("", "mig-1g.10gb"))
    assert found["mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED"
    assert found["mig-1g.10gb.replicas"] == "4"
    assert found["mig-1g.10gb.sharing-strategy"] == "time-slicing"
    assert (found["gpu.product"], found["gpu.replicas"]) == ("NVIDIA-H100-80GB-HBM3", "1")


def test_single_labels_mig_devices_as_gpus() -> None:
    found = of(facts(view(0, "1g.10gb", "1g.10gb"), view(1, "1g.10gb")), SINGLE)
    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert (found["gpu.count"], found["gpu.memory"], found["gpu.slices.gi"]) == ("3", "9984", "1")
    assert (found["mig.strategy"], found["gpu.family"]) == ("single", "hopper")
    assert of(TWO, SINGLE)["gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_single_that_does_not_fit_is_invalid() -> None:
    for some in (
        facts(view(0, "1g.10gb"), view(1)),
        facts(view(0, "1g.10gb"), view(1, on=True)),
        facts(view(0, "1g.10gb", "2g.20gb")),
    ):
        found = of(some, SINGLE)
        assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"
        assert [found[f"gpu.{name}"] for name in ("count", "replicas", "memory")] == ["0"] * 3
        assert found["gpu.sharing-strategy"] == ""


def test_none_takes_a_gpu_in_mig_mode_as_a_whole() -> None:
    found = of(facts(view(0, "1g.10gb")), SHARED % ("", "gpu"))
    assert (found["gpu.count"], found["gpu.replicas"]) == ("1", "4")
    assert "mig.strategy" not in found


def space(capability: bytes, *, listed: bool = True) -> bytes:
    """A PCI configuration space with an unimportant capability and one of the vendor's."""
    data = bytearray(256)
    data[0x06] = 0x10 if listed else 0
    data[0x34] = 0x60
    data[0x60:0x62] = bytes((0x01, 0xA0))
    data[0xA0 : 0xA0 + len(capability)] = capability
    return bytes(data)


def told(version: bytes, branch: bytes, before: bytes = b"") -> bytes:
    record = bytes((0, 22)) + version.ljust(10, b"\0") + branch.ljust(10, b"\0")
    return bytes((0x09, 0, 5 + len(before) + len(record))) + b"VF" + before + record


def test_a_virtual_gpu_tells_of_its_host() -> None:
    for data, expected in (
        (space(told(b"460.16", b"r460_00")), Vgpu("460.16", "r460_00")),
        (space(told(b"535.1", b"r535", bytes((1, 4, 9, 9)))), Vgpu("535.1", "r535")),
        (space(bytes((0x09, 0, 5)) + b"VF"), Vgpu()),
        (space(bytes((0x09, 0, 9)) + b"VF" + bytes((7, 0, 0, 0))), Vgpu()),
        (space(bytes((0x09, 0, 0x14, 1, 0))), None),
        (space(told(b"460.16", b"r460"), listed=False), None),
        (space(told(b"460.16", b"r460"))[:64], None),
    ):
        assert vgpu(data) == expected, expected


def test_virtual_gpus_are_labelled() -> None:
    assert of(replace(TWO, vgpus={"GPU-0": None}))["vgpu.present"] == "false"
    found = of(replace(TWO, vgpus={"GPU-0": Vgpu("460.16", "r460_00")}))
    assert found["vgpu.present"] == "true"
    assert found["vgpu.host-driver-version"] == "460.16"
    assert found["vgpu.host-driver-branch"] == "r460_00"
    assert "vgpu.present" not in of(TWO)


def test_who_gives_out_gpus_is_labelled_where_it_is_not_the_device_plugin_alone() -> None:
    both = "gpuNode: {allocation: both, dra: {devices: [1], enforcement: none}}"
    for config, expected in (
        ("gpuNode: {allocation: dra}", {"allocation": "dra", "enforcement": "mps"}),
        (both, {"allocation": "both", "enforcement": "none"}),
        ("gpuNode: {allocation: device_plugin}", {}),
        ("", {}),
    ):
        found = {key: text for key, text in of(TWO, config).items() if key.startswith("gpu.node/")}
        assert found == {f"gpu.node/{key}": text for key, text in expected.items()}


def test_the_strategy_single_counts_gpus_of_the_device_plugin() -> None:
    """A GPU that DRA gives out is none of the resource that the labels are about."""
    node = facts(view(0), view(1, "1g.10gb", "1g.10gb"))
    for allocation, labelled in (
        ("device_plugin", ("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "0")),
        ("both, dra: {devices: [0]}", ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "2")),
        ("both, dra: {devices: [1]}", ("NVIDIA-H100-80GB-HBM3", "2")),
    ):
        found = of(node, f"{SINGLE}gpuNode: {{allocation: {allocation}}}")
        assert (found["gpu.product"], found["gpu.count"]) == labelled, allocation


def test_labels_describe_the_gpus_of_claims_and_not_their_shares() -> None:
    names = ("gpu.count", "gpu.replicas", "gpu.sharing-strategy", "mps.capable")
    both = "both, dra: {devices: [0], publish: share}"
    for allocation in ("device_plugin", "dra, dra: {publish: share}", "dra", both):
        found = of(TWO, f"gpuNode: {{allocation: {allocation}}}")
        assert tuple(found[name] for name in names) == ("2", "1", "none", "false"), allocation
