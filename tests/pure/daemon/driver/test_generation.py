# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What tells one load of the driver from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.gpu import DRIVER_NOT_LOADED, NvmlError
from gpu_plugin.driver.nvml import Driver

MODULE, VERSION = "sys/module/nvidia", "proc/driver/nvidia/version"


class Gone(Driver):
    """A driver that NVML does not find."""

    def _current(self, driver_roots: tuple[str, ...]) -> Any:
        raise NvmlError(DRIVER_NOT_LOADED, "starting NVML")


def away(one: Driver) -> None:
    with pytest.raises(NvmlError):
        one.scan("/")


def load(root: Path) -> None:
    """Show a load of the driver as the kernel does."""
    for name in (MODULE, VERSION):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name("new")
        new.touch()
        new.replace(path)


def test_a_library_that_is_away_for_a_moment_is_no_other_load(tmp_path: Path) -> None:
    load(tmp_path)
    one = Gone(tmp_path, lambda: None)
    before = one.generation
    away(one)
    assert one.generation == before
    load(tmp_path)
    assert one.generation != before


def test_where_the_kernel_shows_nothing_each_absence_counts(tmp_path: Path) -> None:
    one = Gone(tmp_path, lambda: None)
    before = one.generation
    away(one)
    assert one.generation != before
