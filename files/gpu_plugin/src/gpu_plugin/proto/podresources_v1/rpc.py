# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the v1 API fixes."""

from __future__ import annotations

from typing import Final

LISTER: Final = "v1.PodResourcesLister"
LIST: Final = "/v1.PodResourcesLister/List"
GET_ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
