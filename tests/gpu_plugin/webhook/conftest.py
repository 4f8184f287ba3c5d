# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The helpers of these tests."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "hami", HERE.parent / "labels"):  # labels has genuine_api
    sys.path.insert(0, str(folder))
