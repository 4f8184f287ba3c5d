# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver's process end to end: a stand-in kubelet and API, a simulated driver."""

from __future__ import annotations

import pytest
from gpu_plugin.cli import main
from nvsim.testing import client
from standin_kubelet.dra import DraError

from tests.fakes.dra.driving import DRIVER, MIB, POOL, MakeDra
from tests.fakes.kubernetes.standin_api import NODE
from tests.support.waiting import eventually, unchanged


def test_a_whole_gpu_is_prepared_and_given_back(make_dra: MakeDra) -> None:
    node = make_dra()
    node.start()
    claim = node.claim("whole", "gpu-1")
    (device,) = node.start_pod(claim)
    assert device == f"gpu.node/claim={claim[2]}-gpu-1"
    (found,) = node.spec(claim)["devices"]
    assert found["name"] == f"{claim[2]}-gpu-1"
    assert [one["path"] for one in found["containerEdits"]["deviceNodes"]] == ["/dev/nvidia1"]
    assert node.spec(claim)["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert node.kept()["whole"]["state"] == "prepared"
    assert node.start_pod(claim) == [device]
    node.end_pod(claim)
    assert not node.file(claim).exists()
    assert node.kept() == {}
    assert DRIVER in node.kubelet.plugins


def test_shares_of_one_gpu_are_prepared_side_by_side(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    first, second = (node.claim(name, "gpu-0-share") for name in ("a", "b"))
    devices = [*node.start_pod(first), *node.start_pod(second)]
    share = node.kept()["a"]["devices"][0]
    assert devices[0] == f"gpu.node/claim={first[2]}-gpu-0-share-{share['share_id']}"
    assert share["consumed"] == {"memory": 10000 * MIB, "cores": 30, "shares": 1}
    (given,) = node.kubelet.claims["default", "a"].devices
    assert (given.share_id, given.pool_name, list(given.request_names)) == (
        share["share_id"],
        POOL,
        ["r0"],
    )
    gpu = node.uuids()[0]
    eventually(lambda: node.status()["gpus"][gpu]["shares"] == 2)
    assert node.status()["gpus"][gpu] == {
        "index": 0,
        "claims": 2,
        "shares": 2,
        "memory": 20000 * MIB,
        "cores": 60,
    }
    node.end_pod(first)
    assert node.file(second).exists()
    assert set(node.kept()) == {"b"}


def test_a_mig_instance_is_made_where_its_device_says_and_goes_with_its_claim(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    claim = node.claim("part", "gpu-0-mig-1g10gb-19-3")
    (device,) = node.start_pod(claim)
    ((gi, profile, start),) = node.instances()
    assert (profile, start) == (19, 3)
    (found,) = node.spec(claim)["devices"]
    assert device.endswith(found["name"])
    paths = [one["path"] for one in found["containerEdits"]["deviceNodes"]]
    assert paths[0] == "/dev/nvidia0"
    assert all(one.startswith("/dev/nvidia-caps/nvidia-cap") for one in paths[1:])
    assert len(paths) == 3
    assert node.kept()["part"]["devices"][0]["instance"]["gi"] == gi
    node.end_pod(claim)
    assert node.instances() == []


def test_an_instance_that_stood_before_is_used_and_left(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.layout(0, "1g.10gb")
    (before,) = node.instances()
    node.start()
    claim = node.claim("part", f"gpu-0-mig-1g10gb-19-{before[2]}")
    node.start_pod(claim)
    assert node.kept()["part"]["devices"][0]["instance"]["made"] is False
    node.end_pod(claim)
    assert node.instances() == [before]


@pytest.mark.parametrize(("publish", "name"), [("gpu", "gpu-0"), ("share", "gpu-0-share")])
def test_an_administrators_claim_has_a_gpu_beside_those_who_use_it(
    make_dra: MakeDra, publish: str, name: str
) -> None:
    """The scheduler allocates so: tests/cluster/api/test_allocation_capabilities.py. With counters it does not."""
    node = make_dra(1)
    node.start(f"{{enforcement: none, publish: {publish}}}")
    tenant, monitor = node.claim("tenant", name), node.claim("m", name, adminAccess=True)
    node.start_pod(tenant)
    (device,) = node.start_pod(monitor)
    assert device.startswith(f"gpu.node/claim={monitor[2]}-{name}")
    (uuid,) = node.uuids()
    amounts = {"claims": 2, "shares": int(publish == "share")}
    eventually(lambda: node.status()["gpus"][uuid].items() >= amounts.items())
    node.end_pod(monitor)
    assert node.file(tenant).exists()
    node.end_pod(tenant)


def test_an_administrators_claim_has_the_instance_that_stands_and_makes_none(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    name = "gpu-0-mig-1g10gb-19-3"
    monitor, claim = node.claim("m", name, adminAccess=True), node.claim("part", name)
    with pytest.raises(DraError, match="a claim with adminAccess gets only MIG devices that exist"):
        node.start_pod(monitor)
    assert node.instances() == []
    node.start_pod(claim)
    assert len(node.start_pod(monitor)) == 1
    node.end_pod(monitor)
    assert len(node.instances()) == 1
    node.end_pod(claim)
    assert node.instances() == []


def test_what_is_published_is_what_can_be_prepared(make_dra: MakeDra) -> None:
    node = make_dra()
    node.start()
    eventually(lambda: set(node.devices()) == {"gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share"})
    for name in node.devices():
        claim = node.claim(name, name)
        assert len(node.start_pod(claim)) == 1
        node.end_pod(claim)
    eventually(lambda: node.status()["published"]["generation"])
    assert node.status()["published"]["generation"] == 1  # claims change nothing of it


def test_an_instance_made_for_a_claim_is_published_as_before(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    before = eventually(node.devices)
    claim = node.claim("part", "gpu-0-mig-1g10gb-19-3")
    node.start_pod(claim)
    unchanged(node.devices, before, node.looks)
    node.end_pod(claim)


def test_an_instance_that_somebody_divided_is_not_given(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    client(
        node,
        """
        from gpu_plugin._shared._machine.nvml.real import open_nvml
        with open_nvml() as nvml:
            gpu = nvml.gpus()[0][0]
            profile = next(one for one in nvml.gi_profiles(gpu) if one.name == "3g.40gb")
            gi = nvml.create_instance(gpu, profile, 0)
            for start in (0, 1):
                nvml.create_compute_instance(gpu, gi, 1, start)
    """,
    )
    node.start()
    before = node.instances()
    claim = node.claim("part", "gpu-0-mig-3g40gb-9-0")
    with pytest.raises(DraError, match="it has 2 compute instances that somebody else made"):
        node.start_pod(claim)
    node.end_pod(claim)
    assert node.instances() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kubelet-root", "x"), "--kubelet-root: 'x' is not valid: expected an absolute path"),
        (("--dra-metrics-address", "here:1"), "--dra-metrics-address: 'here:1' is not valid"),
    ],
)
def test_a_bad_option_is_named(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dra", "--node-name", NODE, *words]) == 1
    assert said in capsys.readouterr().err
