# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The API servers and GPUs of this folder's tests."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parents[1] / "slices", HERE.parents[1] / "labels"):
    sys.path.insert(0, str(folder))
