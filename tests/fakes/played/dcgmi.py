# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What dcgmi says of a configuration and of GPUs, in the form that DCGM 4.6 gives it.

No dcgmi of NVIDIA's can be had here: labels, words and layout are those of its source, in dcgmi/Config.cpp,
dcgmi/DcgmiOutput.cpp and dcgmi/Query.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

ROWS = (
    *("Compute Mode", "ECC Mode", "Sync Boost", "Memory Application Clock"),
    *("SM Application Clock", "Power Limit", "Power Profile"),
)
BLANK = "Not Specified"
LINE = "+--------+----------------------------------------------------------------------+\n"


def configuration(gpus: Mapping[int, Mapping[str, str]]) -> str:
    """Return ``config --get --verbose --json``: a document a GPU, by its number, with the targets of some rows."""
    return "".join(_document(number, targets) for number, targets in gpus.items())


def _document(number: int, targets: Mapping[str, str]) -> str:
    body = {
        row: {
            "children": {
                "Current": {"value": "Not Supported"},
                "Field": {"value": row},
                "Target": {"value": targets.get(row, BLANK)},
            }
        }
        for row in ROWS
    }
    data = {"body": body, "header": [f"GPU ID: {number}", "NVIDIA H100 80GB HBM3"]}
    return json.dumps(data, indent=3, separators=(",", " : "), sort_keys=True) + "\n"


def discovery(uuids: Sequence[str]) -> str:
    """Return ``discovery --list`` of GPUs, in the order of their numbers."""
    title = _row("GPU ID", "Device Information")
    text = f"{len(uuids)} GPUs found.\n{LINE}{title}{LINE}"
    for number, uuid in enumerate(uuids):
        text += _row(str(number), "Name: NVIDIA H100 80GB HBM3")
        text += _row("", f"PCI Bus ID: 00000000:{number:02X}:00.0")
        text += _row("", f"Device UUID: {uuid}") + LINE
    return (
        f"{text}0 NvSwitches found.\n+-----------+\n| Switch ID |\n+-----------+\n+-----------+\n"
    )


def _row(number: str, words: str) -> str:
    return f"| {number:<6} | {words:<68} |\n"
