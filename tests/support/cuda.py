# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in for libcuda, built where a test needs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.paths import FAKES


def build(folder: Path) -> Path:
    """Build a libcuda that computes on the machine's memory, and return its folder."""
    subprocess.run(["make", "--silent", "-C", str(FAKES / "cuda"), f"BUILD={folder}"], check=True)
    return folder
