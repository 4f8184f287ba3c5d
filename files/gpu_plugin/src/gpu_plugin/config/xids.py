# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which XIDs are to be ignored, and which are not, as NVIDIA's two variables say it. Pure."""

from __future__ import annotations

import re
from typing import Final

from ..model.xids import Overrides
from .strict_yaml import invalid

DISABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENABLE: Final = "DP_ENABLE_HEALTHCHECKS"
HIGHEST: Final = 9999


def overrides(disable: str, enable: str) -> Overrides:
    """Read NVIDIA's two variables: XIDs with commas between, or all (xids, to disable)."""
    return Overrides(
        _numbers(DISABLE, disable, ("all", "xids")), _numbers(ENABLE, enable, ("all",))
    )


def _numbers(name: str, text: str, everything: tuple[str, ...]) -> frozenset[int] | None:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    if any(word in everything for word in words):
        return None
    for word in words:
        if not re.fullmatch("[0-9]{1,8}", word) or int(word) > HIGHEST:
            expected = f"numbers of XIDs or {' or '.join(everything)}"
            raise invalid(f"environment variable {name}", word, expected)
    return frozenset(int(word) for word in words)
