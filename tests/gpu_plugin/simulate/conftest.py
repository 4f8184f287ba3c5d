# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the tests of simulations have in common."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for simulating
sys.path.insert(0, str(Path(__file__).parents[1] / "labels"))  # for certificates and genuine_api
