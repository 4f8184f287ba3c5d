# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The ResourceSlices by which the scheduler knows a node's GPUs: devices, attributes, counters and taints. Pure."""

from .pool import build

__all__ = ["build"]
