# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in for libcuda, built where a test needs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.paths import FAKES


def build(folder: Path) -> Path:
    """Build a libcuda that computes on the machine's memory, and return its folder."""
    sources = sorted(map(str, (FAKES / "cuda").glob("*.c")))
    library = str(folder / "libcuda.so.1")
    flags = ["-O2", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["gcc", *flags, "-o", library, *sources, "-lm"], check=True)
    return folder
