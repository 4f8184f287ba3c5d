# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu-plugin status tells of claims, from the state that the DRA driver writes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, Instance, PreparedClaim
from gpu_plugin.cli import main
from gpu_plugin.dra import report
from gpu_plugin.model.inventory import Kind, Problem
from gpu_plugin.report.claims import describe
from gpu_plugin.tools.files import StateFile

from tests.fakes.daemon.gpu_builders import inventory, view

GIB = 1 << 30
FIRST, SECOND = "GPU-0", "GPU-1"


def share(number: int, memory: int, cores: int) -> Device:
    consumed = {"memory": memory, "cores": cores, "shares": 1}
    return Device("share", "node", "gpu-0-share", FIRST, 0, f"share-{number}", consumed)


HELD = (
    PreparedClaim("1", "team", "train", PREPARED, (share(1, 3 * GIB, 30),), enforcement="mps"),
    PreparedClaim("2", "team", "serve", PREPARED, (share(2, GIB, 0),), enforcement="mps"),
    PreparedClaim(
        "3",
        "team",
        "cut",
        PREPARED,
        (Device("m", "node", "gpu-1-mig-1g5gb-19-0", SECOND, 1, instance=Instance(19, 0, True)),),
    ),
)


def state(**changes: Any) -> dict[str, Any]:
    """Return what the driver writes, by its own functions."""
    return {
        "version": "1.0",
        "pid": os.getpid(),
        "state": "serving",
        "problem": None,
        "config_problem": None,
        "registered": True,
        "registration_problem": None,
        "enforcement": "mps",
        "enforcement_problems": {},
        "published": {"generation": 3, "slices": 2, "devices": 9, "problem": ""},
        "unhealthy": {},
        "quarantine": {"node": None, "gpus": {}},
        "gated": False,
        "chores": {},
        "claims": report.describe_claims(HELD),
        "gpus": report.usage_by_gpu({SECOND: 1, FIRST: 0}, HELD),
        **changes,
    }


def test_each_gpu_and_each_claim_has_its_line() -> None:
    assert describe(state()).splitlines() == [
        f"gpu-plugin dra 1.0 (process {os.getpid()}): serving",
        "registered, 9 devices in 2 slices, enforcement mps",
        "GPU 0 (GPU-0): 2 claims, 2 shares with 4096 MiB and 30 % of the cores given",
        "GPU 1 (GPU-1): 1 claim",
        "claim team/cut (prepared): gpu-1-mig-1g5gb-19-0",
        "claim team/serve (prepared): gpu-0-share (1024 MiB and no limit of cores)",
        "claim team/train (prepared): gpu-0-share (3072 MiB and 30 % of the cores)",
    ]


def test_problems_are_in_the_description() -> None:
    said = describe(
        state(
            registered=False,
            registration_problem="refused",
            problem="no driver",
            published=None,
            enforcement_problems={FIRST: "no MPS"},
        )
    ).splitlines()
    assert said[1:4] == [
        "problem: no driver",
        "not registered with the kubelet: refused, enforcement mps",
        "GPU 0 (GPU-0): 2 claims, 2 shares with 4096 MiB and 30 % of the cores given; no shares, no MPS",
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_status_has_it_while_the_driver_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    path = tmp_path / "dra.json"
    words = ["status", f"--dra-status-file={path}", f"--status-file={tmp_path}/none.json"]
    for name in ("labels-status-file", "mig-status-file", "cdi-config", "pod-resources"):
        words.append(f"--{name}={tmp_path}/none")
    words += ["--json"] * as_json
    main(words)
    before = capsys.readouterr().out
    StateFile(path).write(state())
    main(words)
    told = capsys.readouterr().out
    if as_json:
        assert json.loads(before)["dra"] is None
        assert len(json.loads(told)["dra"]["claims"]) == 3
    else:
        assert "DRA" not in before
        assert "\nDRA\ngpu-plugin dra 1.0" in told


@pytest.mark.parametrize(
    ("publish", "unenforced", "reasons"),
    [
        ("all", {}, {"GPU-1": "hung", "GPU-2": "fault"}),
        ("share", {"GPU-0": "no MPS"}, {"GPU-0": "unenforced", "GPU-1": "hung", "GPU-2": "fault"}),
        ("gpu", {"GPU-0": "no MPS"}, {"GPU-1": "hung", "GPU-2": "fault"}),
    ],
)
def test_metrics_tell_why_a_gpu_is_not_given_to_claims(
    publish: str, unenforced: dict[str, str], reasons: dict[str, str]
) -> None:
    divided = replace(view(2, "1g.10gb"), mig_problems={"MIG-2-0": Problem(Kind.FAULT, "XID 94")})
    hung = replace(view(1), problem=Problem(Kind.HUNG, "no answer"))
    uuids = ["GPU-0", "GPU-1", "GPU-2"]
    judged = inventory(view(0), hung, divided)
    found = report.unhealthy_gpus(judged, [*uuids, "GPU-9"], {**unenforced, "GPU-2": "x"}, publish)
    assert found == reasons
    told = state(
        unhealthy=found, gpus=report.usage_by_gpu(dict(zip(uuids, range(3), strict=True)), ())
    )
    (family,) = (
        one for one in report.Families(lambda: told).collect() if one.name.endswith("gpu_health")
    )
    assert {
        one.labels["uuid"]: one.labels["reason"] for one in family.samples if not one.value
    } == reasons
    assert len(family.samples) == 3


def test_metrics_name_the_claims_of_each_gpu() -> None:
    (family,) = (one for one in report.Families(state).collect() if one.name.endswith("claim_info"))
    assert [tuple(sample.labels.values()) for sample in family.samples] == [
        ("team", "cut", "gpu-1-mig-1g5gb-19-0", "GPU-1", "1"),
        ("team", "serve", "gpu-0-share", "GPU-0", "0"),
        ("team", "train", "gpu-0-share", "GPU-0", "0"),
    ]
    assert {sample.value for sample in family.samples} == {1}
