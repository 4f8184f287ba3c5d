# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of a device's manager."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..settings import Settings

STEADY_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Options:
    """What is asked for. While ``kept`` is there, the file of the settings, an end is a pause."""

    device: str
    settings: Settings
    kept: Path | None
    control: str
    own_shm: bool
    interval: float
    steady: float = STEADY_SECONDS
    replace_silent: float = 0.0
