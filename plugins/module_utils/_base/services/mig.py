# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit that applies a MIG layout at boot, for the units that start after it."""

from __future__ import annotations

UNIT = "gpu-mig.service"
STATUS = "/run/gpu-node/mig.json"
LOCK = "/run/gpu-node/locks/mig.lock"
# Of services, which would be killed without a word after 900 s; a change of the layout takes minutes.
LOCK_SECONDS = 600.0
