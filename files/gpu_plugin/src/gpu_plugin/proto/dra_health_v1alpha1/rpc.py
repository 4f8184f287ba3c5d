# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the v1alpha1 API fixes."""

from __future__ import annotations

from typing import Final

VERSION: Final = "v1alpha1.DRAResourceHealth"  # as a driver tells it at its registration

HEALTH: Final = "v1alpha1.DRAResourceHealth"
WATCH: Final = "/v1alpha1.DRAResourceHealth/NodeWatchResources"
