# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the v1 API fixes."""

from __future__ import annotations

from typing import Final

VERSION: Final = "v1.DRAPlugin"  # as a driver tells it at its registration

DRA_PLUGIN: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
PREPARE: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
UNPREPARE: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources"
