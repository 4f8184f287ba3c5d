# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Outputs of dcgmi diag, nvbandwidth, and nccl-tests, a line of JSON each.

They were printed by these tools' own writers, built without a GPU: the functions of dcgmi/Diag.cpp that write JSON and
decide the exit status, json_output.cpp of nvbandwidth, and src/util.cu of nccl-tests. The numbers and errors in them
are made up. ``writer`` names the tool and its version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import ToolRun

FOLDER = Path(__file__).parent
SERIALS = ("1652922000001", "1652922000002")
SECRET = "not-a-real-secret-5e1f"  # in the environment of nccl-tests
LARGEST = 33554432  # bytes


class Recorded(NamedTuple):
    """A recorded output with the tool's exit status and the number of GPUs."""

    writer: str
    run: ToolRun
    gpus: int
    level: int = 0


def load(tool: str) -> dict[str, Recorded]:
    """Return the outputs of a tool, ``dcgm``, ``nvbandwidth``, or ``nccl``, by their names."""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (FOLDER / f"{tool}.jsonl").read_text("utf-8").splitlines()
    ]
    return {
        row["name"]: Recorded(
            row["writer"],
            ToolRun(row["status"], row["output"], row.get("document", "")),
            row["gpus"],
            row.get("level", 0),
        )
        for row in rows
    }


def changed(run: ToolRun, old: str, new: str, status: int | None = None) -> ToolRun:
    """Return a run with one change of its output or file, and another exit status if there is one.

    Raises:
        ValueError: if the text to change is in neither.
    """
    if old not in run.output + run.document:
        raise ValueError(f"{old!r} is in no output")
    return run._replace(
        output=run.output.replace(old, new),
        document=run.document.replace(old, new),
        status=run.status if status is None else status,
    )
