# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's driver branches and security bulletins, as far as public sources had them on the day that each row names.

A month stands where NVIDIA names no day. ``ended`` is a branch that NVIDIA calls ended without a date. Floors are the
"Updated Driver Version" of Linux for Tesla, which is what NVIDIA calls data center GPUs there.
"""

from __future__ import annotations

import typing as t

READ = "2026-11-22"
# Both pages are "Supported Drivers and CUDA Toolkit Versions" of NVIDIA's data center drivers.
PAGES = "https://docs.nvidia.com/datacenter/tesla/drivers"
PAGE_615 = f"{PAGES}/615/supported-drivers-and-cuda-toolkit-versions.html"  # updated 2026-09-09
PAGE_580 = f"{PAGES}/supported-drivers-and-cuda-toolkit-versions.html"  # updated 2025-08-04
GITHUB = "https://github.com"
# It has the days of first releases from NVIDIA's releases.json.
ENDOFLIFE = f"{GITHUB}/endoflife-date/endoflife.date/blob/a70eca337/products/nvidia-driver.md"
ENDOFLIFE_615 = f"{GITHUB}/endoflife-date/endoflife.date/pull/10992"
# Both name NVIDIA's page as it was then.
OPERATOR_470 = f"{GITHUB}/NVIDIA/gpu-operator/pull/927"
CONTAINER_550 = f"{GITHUB}/NVIDIA/gpu-driver-container/pull/381"
LTS, PRODUCTION, FEATURE = "lts", "production", "new feature"


def _branch(
    kind: str, first_release: str, end: str, *sources: str, ended: bool = False
) -> t.Dict[str, t.Any]:
    values = {"kind": kind, "first_release": first_release, "end_of_support": end}
    row: t.Dict[str, t.Any] = {key: value for key, value in values.items() if value}
    row.update({"ended": True} if ended else {})
    return {**row, "source": " ".join([*sources, ENDOFLIFE]), "read": READ}


# Each bulletin's year, number and day, and its floors, one a branch. That of July 2024, 5557, is about Windows only.
# Those of 5551 for 555 and of 5586 for 565 are for GeForce and RTX, as there was none for Tesla.
BULLETINS = """
2024 5520 2024-02-28 470.239.06 535.161.07 550.54.14
2024 5551 2024-06-06 470.256.02 535.183.01 550.90.07 555.52.04
2024 5586 2024-10-22 535.216.01 550.127.05 565.57.01
2025 5614 2025-01-16 535.230.02 550.144.03 570.86.15
2025 5630 2025-04-24 535.247.01 550.163.01 570.133.07 575.51.02
2025 5670 2025-07-24 535.261.03 570.172.08
2025 5703 2025-10-09 535.274.02 570.195.03 580.95.05
2026 5747 2026-01-28 535.288.01 570.211.01 580.126.09 590.48.01
2026 5821 2026-05-19 535.309.01 580.159.03 595.71.05
2026 5861 2026-09-30 580.178.04 595.91.07 610.57.04 615.71.09
"""


def _bulletin(year: str, number: str, date: str, *floors: str) -> t.Dict[str, t.Any]:
    return {
        "id": number,
        "date": date,
        "url": f"https://nvidia.custhelp.com/app/answers/detail/a_id/{number}",
        "floors": {version.partition(".")[0]: version for version in floors},
        "source": f"{GITHUB}/NVIDIA/product-security/tree/main/{year}/{number}",
        "read": READ,
    }


TABLE: t.Dict[str, t.Any] = {
    "as_of": READ,
    "branches": {
        "470": _branch(LTS, "2021-07-19", "2024-07", OPERATOR_470),
        "525": _branch(PRODUCTION, "2022-11-10", "", PAGE_580, ended=True),
        "535": _branch(LTS, "2023-06-14", "2026-06", PAGE_615),
        "545": _branch(FEATURE, "2023-10-31", "", PAGE_580, ended=True),
        "550": _branch(PRODUCTION, "2024-02-23", "2025-06", CONTAINER_550),
        "555": _branch(FEATURE, "2024-06-04", "", PAGE_580, ended=True),
        # Sources disagree on what the next two were.
        "560": _branch("", "2024-08-22", "", PAGE_580, ended=True),
        "565": _branch("", "2024-10-29", "", PAGE_580, ended=True),
        "570": _branch(PRODUCTION, "2025-01-27", "2026-02", PAGE_580),
        "575": _branch(FEATURE, "2025-06-03", "", PAGE_580, ended=True),
        "580": _branch(LTS, "2025-08-04", "2028-06", PAGE_615),
        # No source had its end.
        "590": _branch(FEATURE, "2025-12-22", ""),
        "595": _branch(PRODUCTION, "2026-03-24", "2027-03", PAGE_615),
        "610": _branch(FEATURE, "2026-08-03", "2026-08", PAGE_615),
        "615": _branch(FEATURE, "2026-09-09", "", ENDOFLIFE_615),
    },
    "bulletins": [_bulletin(*line.split()) for line in BULLETINS.split("\n") if line],
}
