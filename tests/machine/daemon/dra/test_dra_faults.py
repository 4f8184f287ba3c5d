# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What can go wrong around a claim: the API, the kubelet, the claim's object, other claims, the checkpoint."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from gpu_plugin._shared._base.dra.checkpoint import dump
from nvsim.testing import client
from standin_kubelet.dra import Claim, DraError, DraKubelet

from tests.fakes.dra.driving import CLAIMS, DRIVER, DraNode, MakeDra
from tests.support.waiting import LIMIT, eventually

MIG = "gpu-0-mig-1g10gb-19-3"


def refusal(node: DraNode, claim: Claim) -> str:
    with pytest.raises(DraError) as caught:
        node.start_pod(claim)
    return str(caught.value)


def test_a_claim_of_the_same_name_and_another_uid_is_not_prepared(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.start()
    old = node.claim("name", "gpu-0")
    new = node.claim("name", "gpu-0")
    assert new[2] in refusal(node, old)
    assert node.kept() == {}
    assert not node.file(old).exists()


def test_a_claim_that_is_gone_is_not_prepared_and_can_be_unprepared(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("gone", "gpu-0")
    del node.api.objects[f"{CLAIMS}/gone"]
    assert "there is no such claim any more" in refusal(node, claim)
    node.end_pod(claim)
    assert node.kept() == {}


def test_an_api_that_hangs_or_is_gone_keeps_no_call_longer_than_the_kubelet_waits(
    make_dra: MakeDra,
) -> None:
    node = make_dra(2)
    node.start()
    known = node.claim("known", "gpu-1")
    names = node.start_pod(known)
    claim = node.claim("new", "gpu-0")
    node.kubelet.plugins[DRIVER].seconds = 7.0  # of which the driver leaves five
    with node.api.hold("GET", CLAIMS) as gate:
        assert "it takes longer than the kubelet waits" in refusal(node, claim)
        assert gate.held
    node.kubelet.plugins[DRIVER].seconds = LIMIT
    assert len(eventually(lambda: node.start_pod(claim))) == 1  # what was begun went on
    node.api.stop()
    node.kubelet.claims["default", "known"].prepared = False
    assert node.start_pod(known) == names  # by what is written down
    node.end_pod(known)
    node.end_pod(claim)
    other = ("default", "other", claim[2])
    assert "the Kubernetes API failed" in refusal(node, other)  # and not that the time was over
    node.api.start()
    assert node.kept() == {}


def test_of_two_claims_that_race_for_the_last_mib_one_gets_it(make_dra: MakeDra) -> None:
    """As after a pod was deleted by force: the scheduler gave away what the kubelet has not given back."""
    node = make_dra(1)
    node.start()
    capacity = {"memory": "50000Mi", "cores": "0", "shares": "1"}
    claims = [node.claim(f"c{i}", "gpu-0-share", capacity=capacity) for i in range(8)]
    said: list[str] = []

    def start(claim: Claim) -> None:
        try:
            node.start_pod(claim)
        except DraError as error:
            said.append(str(error))

    threads = [threading.Thread(target=start, args=(one,)) for one in claims]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(said) == 7
    assert all("there is not enough memory left on GPU" in one for one in said)
    assert len(node.kept()) == 1
    (name,) = node.kept()
    node.end_pod(next(one for one in claims if one[1] == name))
    assert len(node.start_pod(next(one for one in claims if one[1] != name))) == 1


@pytest.mark.parametrize(("first", "second"), [("gpu-0", "gpu-0-share"), ("gpu-0-share", "gpu-0")])
def test_a_whole_gpu_and_its_shares_exclude_each_other_on_the_node_too(
    make_dra: MakeDra, first: str, second: str
) -> None:
    node = make_dra(1)
    node.start()
    one, other = node.claim("one", first), node.claim("other", second)
    node.start_pod(one)
    assert f"claim default/one has {first} until the kubelet gives it back" in refusal(node, other)
    node.end_pod(one)
    assert len(node.start_pod(other)) == 1


def test_a_kubelet_that_restarts_gets_the_same_answers(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("one", "gpu-0-share")
    names, kept = node.start_pod(claim), node.kept()
    node.kubelet = node.kubelet.restart()
    eventually(node.registered)
    assert node.start_pod(claim) == names
    assert node.kept() == kept
    node.end_pod(claim)


def test_a_claim_that_was_allocated_anew_under_its_uid_is_prepared_anew(make_dra: MakeDra) -> None:
    """As a named claim whose pod was deleted by force, before the kubelet began anew."""
    node = make_dra(2)
    node.start()
    claim = node.claim("named", "gpu-0")
    node.start_pod(claim)
    found = node.api.objects[f"{CLAIMS}/named"]
    found["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
    node.api.objects[f"{CLAIMS}/named"] = found
    node.kubelet = node.kubelet.restart()
    eventually(node.registered)
    assert node.start_pod(claim) == [f"gpu.node/claim={claim[2]}-gpu-1"]
    assert [one["device"] for one in node.kept()["named"]["devices"]] == ["gpu-1"]
    node.end_pod(claim)


def test_a_driver_that_was_away_registers_again_before_its_slices_are_wiped(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.kubelet.stop()
    node.kubelet = DraKubelet(node.root / "plugins_registry", call=LIMIT, wipe=20)
    node.start()
    node.kill()
    eventually(lambda: node.kubelet.wiped == [DRIVER])
    node.start()
    eventually(lambda: node.kubelet.wiped == [])


def test_after_a_boot_claims_get_their_instances_and_files_again(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    claim = node.claim("part", MIG)
    names = node.start_pod(claim)
    node.kill()
    node.sim.ctl("reboot")
    node.sim.ctl("load", version="550.163.01", flavour="open")
    for path in node.cdi.glob("gpu.node-*"):
        path.unlink()
    assert node.instances() == []
    node.mig_mode(0)  # as gpu-mig.service does
    node.kubelet = node.kubelet.restart()
    node.start()
    assert node.start_pod(claim) == names
    assert len(node.instances()) == 1
    node.end_pod(claim)
    assert node.instances() == []


def test_what_somebody_else_made_is_neither_used_up_nor_destroyed(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    claim = node.claim("part", MIG)
    node.start_pod(claim)
    ((gi, _profile, _start),) = node.instances()
    client(
        node,
        f"""
        from gpu_plugin._shared._machine.nvml.real import open_nvml
        with open_nvml() as nvml:
            gpu = nvml.gpus()[0][0]
            profiles = {{one.name: one for one in nvml.gi_profiles(gpu)}}
            nvml.create_instance(gpu, profiles["1g.10gb"], 4)
            nvml.destroy_instance(gpu, {gi})
            nvml.create_instance(gpu, profiles["1g.20gb"], 2)
        """,
    )
    before = node.instances()
    assert [start for _gi, _profile, start in before] == [2, 4]
    node.end_pod(claim)
    assert node.instances() == before


def test_an_instance_in_the_way_is_named(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.layout(0, "7g.80gb")
    node.start()
    claim = node.claim("part", MIG)
    assert "it has 7g.80gb at 0:8" in refusal(node, claim)
    node.end_pod(claim)
    assert len(node.instances()) == 1


def test_an_instance_with_a_process_is_not_destroyed(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    claim = node.claim("part", MIG)
    node.start_pod(claim)
    ((gi, _profile, _start),) = node.instances()
    holder = node.sim.hold(0, gi, 0)
    with pytest.raises(DraError, match=f"{MIG} is still in use"):
        node.end_pod(claim)
    assert len(node.instances()) == 1
    node.sim.let_go(holder)
    node.end_pod(claim)
    assert node.instances() == []


def test_a_claim_on_a_gpu_that_left_mig_mode_can_be_unprepared(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.mig_mode(0)
    node.start()
    claim = node.claim("part", MIG)
    node.start_pod(claim)
    node.layout(0)  # no instances, and MIG mode off
    node.end_pod(claim)
    assert node.kept() == {}


def test_two_drivers_of_one_node_do_not_take_turns(make_dra: MakeDra) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("one", "gpu-0")
    node.start_pod(claim)
    first, kept = node.process, node.kept()
    node.start(wait=False)
    second = node.process
    node.process = first
    assert second is not None
    assert second.wait(LIMIT) == 1
    assert f"checkpoint.json.lock is held by process {first.pid} (" in node.logged()
    assert node.kept() == kept
    node.end_pod(claim)


@pytest.mark.parametrize(
    "text", ["{", '{"version": 1, "checksum": "0", "claims": {}}', '{"version": 2}']
)
def test_a_damaged_checkpoint_ends_the_driver_and_loses_nothing(
    make_dra: MakeDra, text: str
) -> None:
    node = make_dra(1)
    node.checkpoint.parent.mkdir()
    node.checkpoint.write_text(text)
    node.start(wait=False)
    assert node.ended() == 1
    assert str(node.checkpoint) in node.logged()
    assert "Next step:" in node.logged()
    assert node.checkpoint.read_text() == text
    assert not Path(node.root / "plugins_registry/gpu.node-reg.sock").exists()


def test_another_driver_on_disk_is_in_the_claims_specifications_soon(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("one", "gpu-0-share")
    node.start_pod(claim)
    node.describe("libcuda.so.570.1")
    eventually(lambda: "570.1" in node.file(claim).read_text())


def test_files_of_claims_that_hold_nothing_are_removed_at_a_start(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    node.checkpoint.write_text(dump({}))
    node.cdi.mkdir(parents=True, exist_ok=True)
    left = node.cdi / "gpu.node-claim_0.json"
    other = node.cdi / "another.json"
    for path in (left, node.cdi / ".gpu.node-claim_1.json.77", other):
        path.write_text("{}")
    state = json.dumps({"ClaimInfoStateList": []})
    (node.root / "dra_manager_state").write_text(json.dumps({"Data": state}))
    node.start()
    assert [one.name for one in node.cdi.iterdir()] == [other.name]


def test_a_configuration_that_takes_a_gpu_from_a_claim_is_refused_by_name(
    make_dra: MakeDra,
) -> None:
    node = make_dra(1)
    node.start()
    claim = node.claim("one", "gpu-0")
    node.start_pod(claim)
    node.config.write_text("version: v1\ngpuNode: {allocation: device_plugin}\n")
    problem = eventually(lambda: node.status().get("config_problem"))
    assert "gpuNode.allocation would give GPU 0" in problem
    assert "claim default/one" in problem
    node.end_pod(claim)
    eventually(lambda: not node.status().get("config_problem"))
    assert "leaves its GPU to the device plugin" in refusal(node, claim)
