# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``python -m gpunode_tool``."""

from __future__ import annotations

from .cli import main

main()
