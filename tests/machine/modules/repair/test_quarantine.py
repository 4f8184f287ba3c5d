# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.quarantine on the simulated driver: a GPU that answers, one that fell off the bus, and all of it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import parse
from nvsim.testing import Sim

from tests.machine.modules.conftest import Start
from tests.machine.modules.mig_scene import Run

WHY = {"reason": "XID 79 twice", "ticket": "OPS-1"}


def test_a_gpu_is_set_aside_once_and_check_mode_says_so_before(
    a100: Sim, run_module: Run, tmp_path: Path
) -> None:
    kept = tmp_path / "quarantine.json"
    second = a100.ctl("status")["gpus"][1]
    planned = run_module(a100, "quarantine", gpus=["1"], check=True, **WHY)
    assert planned["changed"]
    assert not kept.exists()
    done = run_module(a100, "quarantine", gpus=["1"], **WHY)
    assert done["steps"] == planned["steps"]
    assert done["diff"]["after"].count("reason: XID 79 twice") == 1
    assert "reason" not in done["diff"]["before"]
    found = parse(kept.read_text())
    assert list(found.gpus) == [second["uuid"]] == done["gpus"]
    assert found.gpus[second["uuid"]].serial == second["serial"]
    assert kept.stat().st_mode & 0o777 == 0o644
    again = run_module(a100, "quarantine", gpus=[found.gpus[second["uuid"]].pci], **WHY)
    assert (again["changed"], again["quarantine"]) == (False, done["quarantine"])


def test_one_that_fell_off_the_bus_since_keeps_its_name_until_it_is_released(
    a100: Sim, run_module: Run, tmp_path: Path
) -> None:
    uuid = a100.ctl("status")["gpus"][1]["uuid"]
    run_module(a100, "quarantine", gpus=["1"], by="repair", **WHY)
    a100.ctl("lose", gpu="1")
    taken = run_module(a100, "quarantine", gpus=[uuid], reason="fell off the bus")
    assert taken["changed"]
    assert taken["quarantine"]["gpus"][uuid]["by"] == "operator"
    refused = run_module(a100, "quarantine", gpus=["1"], reason="it was the second")
    assert "gpus: '1' is not valid: expected a GPU of the node, which are GPU 0 (" in refused["msg"]
    assert uuid in refused["msg"]
    back = run_module(a100, "quarantine", state="absent", gpus=[uuid])
    assert back["quarantine"] == {"version": 1, "gpus": {}, "node": None}
    assert not (tmp_path / "quarantine.json").exists()


def test_runs_side_by_side_lose_nothing(a100: Sim, start_module: Start, tmp_path: Path) -> None:
    runs = [
        start_module(a100, "quarantine", **WHY, **told)
        for told in ({"gpus": ["0"]}, {"gpus": ["1"]}, {"node": True}, {"gpus": ["all"]})
    ]
    answers = [json.loads(one.communicate()[0]) for one in runs]
    assert not [one["msg"] for one in answers if one.get("failed")]
    found = parse((tmp_path / "quarantine.json").read_text())
    assert (len(found.gpus), found.node is not None) == (2, True)


def test_a_file_that_others_may_write_is_given_back_to_root(
    a100: Sim, run_module: Run, tmp_path: Path
) -> None:
    run_module(a100, "quarantine", gpus=["0"], **WHY)
    kept = tmp_path / "quarantine.json"
    kept.chmod(0o666)
    assert run_module(a100, "quarantine", gpus=["0"], **WHY)["changed"]
    assert kept.stat().st_mode & 0o777 == 0o644


def test_a_driver_that_is_not_there_leaves_a_gpu_to_its_record(a100: Sim, run_module: Run) -> None:
    uuid = a100.ctl("status")["gpus"][0]["uuid"]
    run_module(a100, "quarantine", gpus=["0"], **WHY)
    a100.ctl("unload")
    answer = run_module(a100, "quarantine", gpus=[uuid], reason="again")
    assert answer["quarantine"]["gpus"][uuid]["reason"] == "again"


def test_what_is_set_aside_is_told_by_all_who_look_at_the_node(
    a100: Sim, run_module: Run, tmp_path: Path
) -> None:
    done = run_module(a100, "quarantine", gpus=["1"], **WHY)
    info = run_module(a100, "gpu_info")["gpu_info"]
    assert (info["quarantine"], info["quarantine_error"]) == (done["quarantine"], "")
    checks = run_module(a100, "validate", fail=False)["checks"]
    (aside,) = (one for one in checks if one["name"] == "quarantine")
    assert (aside["state"], aside["holds"]) == ("warning", True)
    assert "XID 79 twice (ticket OPS-1)" in aside["cause"]
    told = {"looked": run_module(a100, "plan", status=True, components=["mig"])}
    text = fleet_report(["n"], {"n": told}, "looked", form="json")
    (row,) = json.loads(text)["nodes"][0]["quarantine"]
    assert (row["index"], row["reason"], row["ticket"]) == (1, "XID 79 twice", "OPS-1")
    (tmp_path / "quarantine.json").write_text("{")
    info = run_module(a100, "gpu_info")
    assert "quarantine.json is damaged" in info["gpu_info"]["quarantine_error"]
    checks = run_module(a100, "validate", fail=False)["checks"]
    assert [one["holds"] for one in checks if one["name"] == "quarantine"] == [False]


def test_a_gpu_in_the_slot_of_one_that_is_set_aside_is_told_of(
    a100: Sim, run_module: Run, tmp_path: Path
) -> None:
    run_module(a100, "quarantine", gpus=["1"], **WHY)
    kept = tmp_path / "quarantine.json"
    uuid = a100.ctl("status")["gpus"][1]["uuid"]
    kept.write_text(kept.read_text().replace(uuid, "GPU-that-was-there"))
    for module in ("gpu_info", "quarantine"):
        args = {} if module == "gpu_info" else {"gpus": ["0"], **WHY}
        said = " ".join(warnings_of(run_module(a100, module, **args)))
        assert f"{uuid} (serial number" in said
        assert "run gpu.node.release for it" in said


def warnings_of(answer: dict[str, Any]) -> list[str]:
    return [str(one) for one in answer.get("warnings", ())]
