# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a report says of nodes, from their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Allocation
from ansible_collections.gpu.node.plugins.module_utils._repair.case import RELEASED
from ansible_collections.gpu.node.plugins.plugin_utils.report.nodes import node
from hypothesis import given
from hypothesis import strategies as st

from tests.support.browser import fleets

LAYOUT = (("3g.40gb", 0), ("2g.20gb", 4))
WHOLE, SPLIT = (f"GPU-0000000{at}-0000-0000-0000-000000000000" for at in "12")


def gpus() -> list[dict[str, Any]]:
    return [
        fleets.gpu(0, WHOLE, "NVIDIA H100", 80, None),
        fleets.gpu(1, SPLIT, "NVIDIA H100", 80, LAYOUT),
    ]


def report(nodes: dict[str, Any], **options: str) -> dict[str, Any]:
    known = {name: {"looked": found} for name, found in nodes.items()}
    found: dict[str, Any] = json.loads(
        fleet_report(list(nodes), known, "looked", form="json", **options)
    )
    return found


def test_who_uses_what_is_told_by_instance() -> None:
    there = gpus()
    mig = there[1]["mig_devices"][0]["uuid"]
    there[0]["processes"] = [
        {"pid": 7, "name": "python", "gpu_uuid": WHOLE, "gi_id": None, "ci_id": None}
    ]
    share = Allocation("team", "train", "main", "nvidia.com/mig-3g.40gb", mig + "::1")
    other = Allocation("team", "claimed", "", "gpu.node", WHOLE)
    found = node("n", fleets.answer(there, given=(share, other)), None)
    whole, split = found["gpus"]
    assert [(one["kind"], one["name"]) for one in whole["users"]] == [
        ("claim", "team/claimed"),
        ("process", "python (7)"),
    ]
    used, free = split["instances"]
    assert (used["profile"], used["start"], used["size"]) == ("3g.40gb", 0, 4)
    assert used["users"][0]["device"] == f"nvidia.com/mig-3g.40gb {mig}"
    assert free["users"] == []
    assert (whole["in_use"], split["in_use"], split["slots"]) == (True, True, 8)


def test_shares_of_a_device_are_one_user() -> None:
    given_twice = [Allocation("a", "b", "c", "nvidia.com/gpu", f"{WHOLE}::{at}") for at in (0, 1)]
    found = node("n", fleets.answer(gpus(), given=tuple(given_twice)), None)
    assert len(found["gpus"][0]["users"]) == 1


def test_what_is_wrong_is_counted_by_node() -> None:
    bad = fleets.fault(SPLIT, 1, "XID 79 (GPU has fallen off the bus)", 79)
    nodes = {
        "good": fleets.answer(gpus()),
        "drifted": fleets.answer(gpus(), drift={"mig": ["GPU 1: destroy 2g.20gb"]}),
        "bad": fleets.answer(gpus(), faults=(bad,), reboot=("the distribution asks for it",)),
        "past": fleets.answer(gpus(), driver="535.309.01"),
        "below": fleets.answer(gpus(), driver="580.95.05"),
        "away": {"unreachable": True, "msg": "timed out"},
        "refused": {"failed": False, "msg": "plan: mig_selected: 'hafl' is not valid"},
        "skipped": None,
    }
    found = report(nodes, title="Fleet", made=fleets.MADE)
    assert found["totals"] == {
        "nodes": 8,
        "gpus": 10,
        "gpus_in_use": 0,
        "gpus_accepted": 0,
        "gpus_failed": 0,
        "mig_instances": 10,
        "mig_instances_in_use": 0,
        "drifted": 1,
        "unhealthy": 1,
        "outdated_drivers": 1,
        "vulnerable_drivers": 2,
        "drivers_to_update": 2,
        "in_repair": 0,
        "open_cases": 0,
        "in_a_change": 0,
        "pending_reboots": 1,
        "unreachable": 1,
        "failed": 2,
    }
    by_name = {one["name"]: one for one in found["nodes"]}
    assert list(by_name) == list(nodes)
    assert by_name["away"]["state"] == "unreachable"
    assert by_name["refused"]["problem"] == nodes["refused"]["msg"]
    assert by_name["skipped"]["problem"] == "the node was not read"
    assert by_name["bad"]["unhealthy"] == ["GPU 1: XID 79 (GPU has fallen off the bus)"]
    assert by_name["bad"]["gpus"][1]["fault"].startswith("XID 79")
    assert by_name["past"]["driver"]["end_of_support"] == "2026-06-30"
    assert (found["title"], found["made"], found["version"]) == ("Fleet", fleets.MADE, 1)


def test_a_driver_whose_branch_gets_no_fixes_any_more_is_vulnerable() -> None:
    found = report({"n": fleets.answer([], driver="550.163.01"), "good": fleets.answer([])})
    driver = found["nodes"][0]["driver"]
    assert (driver["outdated"], driver["vulnerable"]) == (True, True)
    assert driver["version"] == driver["floor"], "it has the last fix of its branch"
    assert len(driver["unfixed"]) == 5
    totals = found["totals"]
    assert (totals["outdated_drivers"], totals["vulnerable_drivers"]) == (1, 1)
    assert totals["drivers_to_update"] == 1, "a node is one, for whatever reason"


def test_a_node_that_can_not_be_planned_shows_its_gpus() -> None:
    answer = fleets.answer(gpus())
    known = {"n": {"looked": {"msg": "wrong"}, "info": {"gpu_info": answer["gpu_info"]}}}
    found = json.loads(fleet_report(["n"], known, "looked", "info", form="json"))
    assert [one["uuid"] for one in found["nodes"][0]["gpus"]] == [WHOLE, SPLIT]
    assert found["nodes"][0]["state"] == "failed"
    assert not any(one["known"] for one in found["nodes"][0]["gpus"])


def test_a_node_in_the_middle_of_a_change_is_counted_and_says_whose_it_is() -> None:
    answer = fleets.answer(gpus())
    told = {"change": "mig", "host": "ctl-1", "user": "root", "begun": "2026-11-23T15:00:00Z"}
    answer["gpu_info"]["change"] = {**told, "failed": "timed out", "digest": "abc"}
    found = report({"n": answer, "good": fleets.answer(gpus())})
    assert found["totals"]["in_a_change"] == 1
    assert [one["change"] for one in found["nodes"]] == [
        {
            **told,
            "failed": "timed out",
            "problem": "the node is in the middle of mig by root on ctl-1, begun "
            "2026-11-23T15:00:00Z, and has failed: timed out",
            "way": "run gpu.node.mig to its end, which puts the node back",
        },
        {},
    ]


def test_a_repair_says_what_was_found_what_was_tried_and_what_comes_next() -> None:
    there = {WHOLE: fleets.repair(), SPLIT: fleets.repair(stage=RELEASED)}
    found = report({"n": fleets.answer(gpus(), cases=there), "good": fleets.answer(gpus())})
    assert (found["totals"]["in_repair"], found["totals"]["open_cases"]) == (1, 1)
    case, over = found["nodes"][0]["cases"]
    assert case == {
        "gpu": WHOLE,
        "index": 0,
        "model": "NVIDIA H100",
        "serial": "1651023000042",
        "pci": "0000:07:00.0",
        "open": True,
        "verdict": "replace",
        "reasons": [
            "XID 79: the GPU has fallen off the bus",
            "it was reset and rebooted for within a day",
        ],
        "since": 1795320000,
        "stage": "failed",
        "attempts": [
            {"action": "reset", "at": 1795320600, "result": "done"},
            {"action": "reboot", "at": 1795324200, "result": "the GPU does not answer"},
        ],
        "evidence": "/var/lib/gpu-node/evidence/c.before.8c1f0e52.20261122T034000Z.tar.gz",
        "next": "have it replaced: the evidence goes to the vendor, in the file of "
        "gpu.node.gpu_evidence with stage: rma",
    }
    assert (over["open"], over["next"]) == (False, "")
    assert found["nodes"][1]["cases"] == []


def test_repairs_are_counted_by_model_and_driver() -> None:
    lost = fleets.answer(gpus()[:1], "570.195.03", cases={"GPU-lost": fleets.repair()})
    lost["gpu_info"]["pci_gpus"].append({"address": "0000:07:00.0", "device_id": 0x2330})
    gone = fleets.answer([], "570.195.03", cases={"GPU-gone": fleets.repair(stage=RELEASED)})
    nodes = {
        "a": fleets.answer(gpus(), cases={WHOLE: fleets.repair(attempts=())}),
        "b": fleets.answer(gpus()),
        "lost": lost,
        "gone": gone,
    }
    assert [tuple(one.values()) for one in report(nodes)["repairs"]] == [
        ("", "570.195.03", 0, 1, 0, 1, 1),
        ("NVIDIA H100", "570.195.03", 1, 1, 1, 1, 1),
        ("NVIDIA H100", "580.178.04", 4, 1, 1, 0, 0),
    ]


def test_a_file_of_cases_that_can_t_be_read_is_said() -> None:
    answer = fleets.answer(gpus())
    answer["status"]["cases_unknown"] = "repair.json is damaged"
    (found,) = report({"n": answer})["nodes"]
    assert found["cases_unknown"] == "repair.json is damaged"


def test_gpus_that_are_not_accepted_are_named() -> None:
    answer = fleets.answer(gpus())
    answer["status"]["acceptance"] = {
        "faulty": ["GPU a: memory: 1 wrong word"],
        "untested": ["GPU b: it was never tested"],
        "unknown": "NVML is slow",
        "held": ["GPU-b: not accepted: it was never tested"],
        "override": "deadline",
    }
    (node,) = report({"n": answer})["nodes"]
    assert "load test of GPU a: memory: 1 wrong word" in node["unhealthy"]
    assert node["warnings"][-4:] == [
        "not accepted: GPU b: it was never tested",
        "NVML is slow",
        "held by the gate: GPU-b: not accepted: it was never tested",
        "let in by an operator, though not accepted: deadline",
    ]


def test_a_node_can_t_spoil_the_names_of_another_s_gpus() -> None:
    bad = fleets.answer(gpus())
    bad["gpu_info"]["gpus"][0]["name"] = {"no": "name"}
    lost = fleets.answer([], cases={"GPU-lost": fleets.repair()})
    lost["gpu_info"]["pci_gpus"].append({"address": "0000:07:00.0", "device_id": 0x2330})
    found = report({"bad": bad, "lost": lost})
    assert [one["state"] for one in found["nodes"]] == ["failed", "looked"]
    assert found["nodes"][1]["cases"][0]["model"] == "NVIDIA H100"


def test_a_gpu_is_only_free_where_all_were_asked() -> None:
    answer = fleets.answer(gpus())
    assert all(one["known"] for one in report({"n": answer})["nodes"][0]["gpus"])
    answer["status"]["allocations_unknown"] = "the kubelet does not answer"
    (found,) = report({"n": answer})["nodes"]
    assert not any(one["known"] for one in found["gpus"])
    assert found["users_unknown"] == "the kubelet does not answer"


def test_gpus_without_a_driver_are_counted_and_unhealthy() -> None:
    answer = fleets.answer([])
    answer["gpu_info"].update(pci_gpus=[{}, {}], nvml_available=False, nvml_error="not loaded")
    found = report({"n": answer})
    assert found["totals"]["gpus"] == 2
    assert found["nodes"][0]["unhealthy"] == ["not loaded"]


def test_a_gpu_that_is_gone_is_drift() -> None:
    answer = fleets.answer(gpus())
    answer["gpu_info"]["missing_gpus"] = ["0000:29:00.0"]
    found = report({"n": answer})
    assert found["totals"]["drifted"] == 1
    (drift,) = found["nodes"][0]["drift"]
    assert drift["part"] == "GPUs"
    assert "0000:29:00.0, which was there at the last bring-up" in drift["steps"][0]


def test_what_a_look_warns_of_is_told_once_and_is_no_drift() -> None:
    answer = fleets.answer(gpus())
    text = "/dev/nvidia0 has mode 0600 and owner 0:0, not 0666 and 0:0"
    for part in answer["parts"]:
        part["warnings"] = [text]
    found = report({"n": answer, "good": fleets.answer(gpus())})
    assert [one["warnings"] for one in found["nodes"]] == [[text], []]
    assert found["totals"]["drifted"] == 0


def test_a_node_with_xids_that_can_not_be_read_is_named_by_a_warning() -> None:
    answer = fleets.answer(gpus())
    answer["status"]["kernel_log"] = ["3 lines of the kernel's log could not be read"]
    found = report({"n": answer, "good": fleets.answer(gpus())})
    told = {one["name"]: one["warnings"] for one in found["nodes"]}
    assert told == {"n": ["3 lines of the kernel's log could not be read"], "good": []}


def test_each_hosts_variables_are_read_once() -> None:
    reads: list[str] = []

    class Hosts(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            reads.append(key)
            return super().get(key, default)

    nodes = dict(fleets.fleet(50))
    fleet_report(list(nodes), Hosts({key: {"looked": one} for key, one in nodes.items()}), "looked")
    assert reads == list(nodes)


def test_a_line_says_how_many_nodes_have_drifted() -> None:
    nodes = {
        "a": {"looked": fleets.answer([], drift={"mig": ["GPU 1: destroy 2g.20gb"]})},
        "b": {"looked": fleets.answer([])},
    }
    assert fleet_report(["a", "b"], nodes, "looked", form="line") == "2 nodes, 1 drifted"
    nodes["c"] = {"looked": {"unreachable": True, "msg": "timed out"}}
    assert fleet_report(["c"], nodes, "looked", form="line") == "1 node, 0 drifted, 1 without data"


def test_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="form: 'pdf' is not one of html, json, line"):
        fleet_report([], {}, "looked", form="pdf")


@given(st.lists(st.sampled_from(["GPU 0: create 1g.10gb", "write a file"]), max_size=3))
def test_a_node_has_drifted_exactly_where_a_part_has_steps(steps: list[str]) -> None:
    found = report({"n": fleets.answer(gpus(), drift={"cdi": steps})})
    assert found["totals"]["drifted"] == bool(steps)
    assert [one["steps"] for one in found["nodes"][0]["drift"]] == ([steps] if steps else [])


def fault(gpu: str, kind: str, reason: str) -> dict[str, Any]:
    shape = dict.fromkeys(("index", "gi", "ci", "since", "way_back", "clearable", "verdict", "xid"))
    return {**shape, "gpu": gpu, "kind": kind, "reason": reason}


ASIDE = {"by": "operator", "reason": "XID 79", "ticket": "OPS-1", "since": "2027-01-15T08:00:00Z"}
SAID = "in quarantine since 2027-01-15T08:00:00Z by an operator: XID 79 (ticket OPS-1)"


def test_what_is_set_aside_is_told_with_reason_ticket_and_since_when() -> None:
    gpus = [fleets.gpu(at, f"GPU-{at}", "NVIDIA L40S", 45, None) for at in range(2)]
    answer = fleets.answer(gpus, faults=(fault("GPU-1", "quarantined", "by the plugin"),))
    own = {**ASIDE, "serial": "1650", "pci": "0000:0f:00.0"}
    answer["gpu_info"]["quarantine"] = {
        "version": 1,
        "gpus": {"GPU-1": own, "GPU-9": own},
        "node": None,
    }
    found = node("n", answer, None)
    assert found["quarantine"] == [
        {"gpu": "GPU-1", "index": 1, **ASIDE},
        {"gpu": "GPU-9", "index": None, **ASIDE},
    ]
    assert found["unhealthy"] == [f"GPU 1: {SAID}", f"GPU-9: {SAID}"]
    assert [one["fault"] for one in found["gpus"]] == ["", "in quarantine: XID 79"]
    assert found["faults"] == []


def test_a_node_that_is_set_aside_is_so_with_all_of_its_gpus() -> None:
    gpus = [fleets.gpu(at, f"GPU-{at}", "NVIDIA L40S", 45, None) for at in range(2)]
    answer = fleets.answer(gpus, faults=(fault("GPU-1", "fault", "XID 48"),))
    answer["gpu_info"]["quarantine"] = {"version": 1, "gpus": {}, "node": ASIDE}
    found = node("n", answer, None)
    assert found["unhealthy"] == ["GPU GPU-1: XID 48", f"the node: {SAID}"]
    assert [one["fault"] for one in found["gpus"]] == ["in quarantine: XID 79", "XID 48"]
