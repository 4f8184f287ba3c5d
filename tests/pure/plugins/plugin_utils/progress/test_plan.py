# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the display makes of one look at a node."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.plugin_utils.progress.details import Run, details
from ansible_collections.gpu.node.plugins.plugin_utils.progress.nodes import ProgressNode


def part(name: str, **more: Any) -> dict[str, Any]:
    empty = {
        "steps": [],
        "error": {},
        "later": "",
        "reboot_reasons": [],
        "diff": {},
        "blocked_by": [],
    }
    return {"name": name, **empty, "reboot_required": False, "result": {}, **more}


STEP = {"action": "write", "summary": "GPU 1: destroy 1g", "needs": []}
BUSY = {"msg": "mig: GPU 1 is in use", "cause": "", "hint": ""}
PARTS = [
    part("driver", result={"loaded_version": "580.65", "installed_version": "580.65"}),
    part(
        "mig",
        steps=[STEP],
        error=BUSY,
        later="driver has changed",
        diff={"before": "a\n", "after": "b\n", "prepared": "- GPU 1: destroy 1g\n"},
        reboot_required=True,
        reboot_reasons=["GPU 1 waits for its mode"],
    ),
]
DATA: dict[str, Any] = {"parts": PARTS, "calls": ["mig"], "changed": True, "diff": [{"x": 1}]}


def shown(planned: bool, differs: bool = False) -> list[str]:
    return [one.text for one in details(Run(differs=differs), DATA, planned, 0)]


def test_a_check_shows_the_plan_by_its_parts() -> None:
    ahead = ["would be refused as it is now: mig: GPU 1 is in use", "known once driver has changed"]
    ahead.append("reboot required: GPU 1 waits for its mode")
    assert shown(planned=True) == ["mig", "GPU 1: would destroy 1g", *ahead]
    both = shown(planned=True, differs=True)
    assert both[:2] == ["mig", "GPU 1: would destroy 1g"]
    assert [one.strip() for one in both[2:5]] == ["@@ -1 +1 @@", "-a", "+b"]
    assert both[5:] == ahead


def test_a_run_says_which_parts_it_comes_to() -> None:
    assert shown(planned=False) == shown(planned=False, differs=True) == ["to do: mig"]
    assert details(Run(), {**DATA, "calls": []}, planned=False, verbosity=0) == []


def test_the_end_knows_of_a_node_what_the_modules_would_have_said() -> None:
    node = ProgressNode()
    resources = {"nvidia.com/gpu": {"devices": 2, "registered": True}}
    parts = [part("environment", result={"resources": {}}), PARTS[0]]
    parts.append(part("device_plugin", result={"resources": resources}))
    validation = {"summary": "ready, 2 GPUs", "checks": [{}] * 3, "failed_checks": []}
    info = {"pci_gpus": [{}], "driver": None, "gpus": []}
    node.learn("plan", {"gpu_info": info, "parts": parts, "validation": validation})
    assert (node.driver, node.reboot, node.ready) == ("580.65", "no", "ready, 2 GPUs")
    assert node.resources == resources
    node.learn("plan", {"gpu_info": info, "parts": PARTS, "validation": {}})
    assert node.reboot == "no"  # what would refuse has told nothing


def test_a_pending_reboot_is_not_lost_where_no_module_is_called() -> None:
    node = ProgressNode()
    gpus = {"gpus": [{"mig_enabled": True, "instances": []}]}
    node.learn("plan", {"parts": [{**PARTS[1], "error": {}, "result": gpus}]})
    assert (node.reboot, node.mig) == ("pending", "on, no instances")


def test_a_long_difference_is_cut_and_whole_with_v() -> None:
    after = "".join(f"line {one}\n" for one in range(852))
    data = {"changed": True, "diff": {"before": "", "after": after}}
    short = [one.text for one in details(Run(differs=True), data, planned=False, verbosity=0)]
    assert (len(short), short[-1]) == (41, "  … 813 more lines, all with -v")
    whole = [one.text for one in details(Run(differs=True), data, planned=False, verbosity=1)]
    assert whole[-1] == "  +line 851"
