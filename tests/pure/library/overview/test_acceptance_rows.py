# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a report is told of the load tests of a node's GPUs."""

from __future__ import annotations

import json

from ansible_collections.gpu.node.plugins.module_utils._accept.record import (
    Acceptance,
    Identity,
    judge_gpus,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.report.acceptance import ROW, rows
from ansible_collections.gpu.node.plugins.module_utils._repair.case import RepairCases

IDENTITY = Identity("580.159.04", board="692-2G520-0200-000", pci="0000:19:00.0")
PASSED = Acceptance("passed", IDENTITY, 1795320000.0, figures={"memory_gb_per_s": 2900.0})
FAILED = Acceptance("failed", IDENTITY, 1.0, faults=("memory: 32 wrong words, bits 0x80",))


def test_gpu_is_accepted_failed_or_untested_with_the_figures_of_its_last_test() -> None:
    record = {"a": PASSED, "b": FAILED, "moved": PASSED}
    gpus = dict.fromkeys((*record, "new"), IDENTITY)
    gpus["moved"] = IDENTITY._replace(driver="580.178.04")
    told = rows(judge_gpus(record, gpus, RepairCases(), 1795330000.0))
    json.dumps(told)
    assert told[0] == {
        "gpu": "a",
        "state": "accepted",
        "reason": "",
        "verdict": "passed",
        "level": "quick",
        "board": "692-2G520-0200-000",
        "driver": "580.159.04",
        "at": 1795320000,
        "faults": [],
        "figures": {"memory_gb_per_s": 2900.0},
    }
    assert (told[1]["state"], told[1]["faults"]) == ("failed", list(FAILED.faults))
    assert (told[2]["state"], told[2]["verdict"]) == ("untested", "passed")
    assert told[2]["reason"] == "the driver was 580.159.04 and is 580.178.04"
    assert (told[3]["state"], told[3]["reason"]) == ("untested", "it was never tested")
    assert (told[3]["at"], told[3]["figures"]) == (0, {})
    assert all(row.keys() == ROW.keys() for row in told)
