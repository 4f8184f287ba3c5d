# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Golden plans of repair: from the signs of a fault to the verdict, the plan, and the case with its records.

`python -m tests.pure.library.golden.test_repair_golden` writes the plans anew.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Fabric, FaultSigns, Rows
from ansible_collections.gpu.node.plugins.module_utils._repair import case as repair_case
from ansible_collections.gpu.node.plugins.module_utils._repair import plan
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    Boot,
    RepairCase,
    RepairCases,
    StageRequest,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.plan import (
    RepairGpu,
    RepairObservation,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.reset import plan as reset_plan
from ansible_collections.gpu.node.plugins.module_utils._repair.reset import state as reset_state
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    ACTIONS,
    Action,
    Answer,
    Attempt,
    GpuSigns,
    NodeSigns,
    SXid,
    Virtual,
    Xid,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import (
    Reason,
    judge_node,
    reset_rule,
)

from tests.fakes.library.golden.plans import plain, read_plans, write_plans
from tests.support.paths import FAKES

FOLDER = FAKES / "repair/golden"
NOW = 1_800_000_000.0
BOOT = Boot("b-1", "7")
SIGNS = {
    "recovery": 0,
    **dict.fromkeys(("rows", "sram_exceeded", "repair_pending", "unrepairable", "fabric")),
}
HGX = {"branch": 580, "virtual": "NONE", "nvswitch": True, "nvlink": 4, "fabric_manager": True}
PLANS = FOLDER / "plans.json"
Json = dict[str, Any]


def read(name: str) -> Any:
    """Return the data of a file of the folder."""
    return yaml.safe_load((FOLDER / name).read_text())


def observed_gpu(row: Json, case: RepairCase | None) -> GpuSigns:
    """Return a GPU as a scene describes it."""
    signs = {name: row.get(name, default) for name, default in SIGNS.items()}
    signs["rows"] = signs["rows"] and Rows(*signs["rows"])
    signs["fabric"] = signs["fabric"] and Fabric(*signs["fabric"])
    xids = (Xid(number, NOW, times, tuple(*more)) for number, times, *more in row.get("xids", ()))
    return GpuSigns(
        row["uuid"],
        row.get("architecture", "hopper"),
        row.get("present", True),
        Answer[row.get("answer", "YES")],
        FaultSigns(**signs),
        tuple(xids),
        case.counted_attempts(BOOT) if case else (),
        tuple(row["peers"]) if "peers" in row else None,
    )


def observed_node(row: Json) -> NodeSigns:
    """Return a node as a scene describes it."""
    fields = {**HGX, **row}
    fields["virtual"] = fields["virtual"] and Virtual[fields["virtual"]]
    fields["sxids"] = tuple(SXid(*sxid) for sxid in fields.get("sxids", ()))
    return NodeSigns(**fields)


def open_case(row: Json) -> RepairCase:
    """Return the case of a GPU as a scene describes it; `since` and attempts are in seconds before now."""
    attempts = (
        Attempt(ACTIONS[action], NOW - ago, result)
        for action, ago, result in row.get("attempts", ())
    )
    return RepairCase(
        "1650",
        "0000:18:00.0",
        Action.RESET,
        ("XID 48",),
        NOW - row.get("since", 900),
        BOOT,
        row["stage"],
        attempts=tuple(attempts),
    )


def reasons(rows: tuple[Reason, ...]) -> list[str]:
    """Return reasons for people."""
    return [f"{reason.action.word}: {reason.text}" for reason in rows]


def resets(node: NodeSigns, gpus: tuple[RepairGpu, ...]) -> Json:
    """Return for each GPU how the machine resets it, and its reset alone and with others, or why it is refused."""
    found = [reset_state.ResetGpu(gpu.signs, gpu.pci, gpu.number, gpu.serial) for gpu in gpus]
    state, rows = reset_state.ResetState(node, tuple(found)), {}
    for gpu in found:
        row = [reset_plan.needs_reset(state, gpu), reset_rule(node, gpu.signs).text]
        row += reset_plan.warnings(state, gpu)
        for together in (False, True):
            try:
                groups = reset_plan.group_gpus(state, [gpu], together=together)
                row += [step.summary for step in reset_plan.steps(groups)]
            except NodeError as error:
                row.append(f"refused: {error}")
        rows[gpu.uuid] = row
    return rows


def plan_of_scene(scene: Json) -> Json:
    """Return the verdict, what comes next, the work, the lines and the cases of a scene."""
    rows = [{"uuid": f"GPU-{number}", **row} for number, row in enumerate(scene["gpus"])]
    cases = RepairCases(
        None, {row["uuid"]: open_case(row["case"]) for row in rows if "case" in row}
    )
    gpus = tuple(
        RepairGpu(
            observed_gpu(row, cases.gpus.get(row["uuid"])),
            **{
                key: row[key] for key in ("pci", "number", "fenced_by", "replaced_by") if key in row
            },
            serial="1650",
            pods=tuple(row.get("pods", ())),
        )
        for row in rows
    )
    node = observed_node(scene.get("node", {}))
    observation = RepairObservation(node, gpus, cases, BOOT, NOW)
    verdict = judge_node(node, [gpu.signs for gpu in gpus], NOW)
    todo = plan.plan_gpus(observation, verdict, scene.get("reboot", plan.NEVER))
    work = plan.plan_node(todo, fences=scene.get("fences", True))
    run = StageRequest("planned", holder="ops on ctl-1")
    new = plan.new_cases(todo, work, NOW, BOOT)
    after = repair_case.record_plan(cases, run, new, work.close, NOW, BOOT)
    return {
        "clock": plan.clock_problem(observation),
        "node": [verdict.action.word, *reasons(verdict.reasons)],
        "verdicts": {
            gpu.uuid: [gpu.action.word, *reasons(gpu.reasons), *gpu.together]
            for gpu in verdict.gpus
        },
        "next": {item.gpu.uuid: [item.next.name, item.step] for item in todo},
        "work": {key: value for key, value in work._asdict().items() if value},
        "lines": plan.describe(todo, work, verdict),
        "cases": repair_case.cases_as_data(after)["gpus"],
        "resets": resets(node, gpus),
    }


def cases_of_life(steps: list[Json]) -> list[Any]:
    """Return the cases after each step of a life, or why a step is refused."""
    cases, rows = repair_case.NO_CASES, []
    for step in steps:
        now, boot = NOW + step.get("after", 0), BOOT._replace(boot_id=step.get("boot", "b-1"))
        words = {key: step[key] for key in StageRequest._fields if key in step and key != "stopped"}
        run = StageRequest(
            **{"holder": "ops on ctl-1", **words},
            gpus=("GPU-0",),
            stopped=tuple(step.get("stopped", ())),
        )
        try:
            if step["state"] == "planned":
                case = cases.gpus.get("GPU-0")
                row = {"uuid": "GPU-0", "recovery": step["recovery"]}
                seen = RepairGpu(observed_gpu(row, case), "0000:18:00.0", "1650")
                observation = RepairObservation(observed_node({}), (seen,), cases, boot, now)
                verdict = judge_node(observation.node, [seen.signs], now)
                todo = plan.plan_gpus(observation, verdict, plan.WHEN_NEEDED)
                work = plan.plan_node(todo)
                new = plan.new_cases(todo, work, now, boot)
                cases = repair_case.record_plan(cases, run, new, work.close, now, boot)
            else:
                cases = repair_case.record_stage(cases, run, now, boot)
        except (NodeError, ValueError) as error:
            rows.append(f"{type(error).__name__}: {error}")
        else:
            data = repair_case.cases_as_data(cases)
            holder = (data["lease"] or {}).get("holder", "")
            case_row = data["gpus"].get("GPU-0", {})
            names = ("stage", "verdict", "boot_id", "evidence", "stopped", "attempts")
            rows.append([holder, *(case_row.get(name) for name in names)])
    return rows


@pytest.mark.parametrize("name", read("scenes.yml"))
def test_scene_ends_in_its_golden_plan(name: str) -> None:
    assert plain(plan_of_scene(read("scenes.yml")[name])) == read_plans(PLANS)["scenes"][name]


@pytest.mark.parametrize("name", read("lives.yml"))
def test_life_of_a_case_is_the_golden_life(name: str) -> None:
    assert plain(cases_of_life(read("lives.yml")[name])) == read_plans(PLANS)["lives"][name]


def test_scenes_show_each_action_and_each_next_step() -> None:
    plans = read_plans(PLANS)["scenes"].values()
    actions = {verdict[0] for scene in plans for verdict in scene["verdicts"].values()}
    assert actions == set(ACTIONS)
    following = {row[0] for scene in plans for row in scene["next"].values()}
    assert following == {step.name for step in plan.Next}


# 0.1.0's own dump() wrote the first, today's the second.
@pytest.mark.parametrize("name", ["cases-0.1.0.json", "cases.json"])
def test_record_of_each_version_is_read_and_written_byte_for_byte(name: str) -> None:
    text = (FOLDER / name).read_text()
    cases = repair_case.parse_cases(text)
    assert {case.stage for case in cases.gpus.values()} >= {"reset", "failed", "released"}
    assert repair_case.dump_cases(cases) == text


if __name__ == "__main__":
    plans = {
        "scenes": {name: plan_of_scene(scene) for name, scene in read("scenes.yml").items()},
        "lives": {name: cases_of_life(steps) for name, steps in read("lives.yml").items()},
    }
    write_plans(PLANS, plans, 3)
