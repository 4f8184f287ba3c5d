# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether images have a say in which GPUs a container gets."""

from __future__ import annotations

from pathlib import Path

from .._shared._core.agent.visible_devices import TOOLKIT_CONFIG, warning
from .configuration import Config


def told(config: Config, root: Path) -> str:
    """Return a warning, or nothing. ``root`` is where the node's / is seen, if it is seen at all."""
    try:
        text = (root / TOOLKIT_CONFIG.lstrip("/")).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    return warning(config.device_list_strategies, text)
