# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``python -m standin_kubelet``."""

from __future__ import annotations

from .cli import main

main()
