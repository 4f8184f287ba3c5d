# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The API servers and GPUs of this folder's tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Behind what is there: other folders have a conftest.py as well.
for name in ("labels", "slices"):  # for genuine_api, and mig_grids with its oracle
    sys.path.append(str(Path(__file__).resolve().parents[2] / name))
