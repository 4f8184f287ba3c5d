# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines whose runtimes are genuine, for the tests of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.runtime.genuine_runtimes import GenuineRuntimes


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., GenuineRuntimes]:
    """Return a maker of machines: a release of Debian, and files by path; they share nothing."""
    made: list[GenuineRuntimes] = []

    def make(suite: str, files: dict[str, str] | None = None) -> GenuineRuntimes:
        one = GenuineRuntimes(tmp_path / f"{len(made)}", suite, files)
        tried = subprocess.run([*one.inside(), "true"], capture_output=True, check=False)
        if tried.returncode:
            pytest.skip("this machine lets nobody mount, not even in a namespace")
        made.append(one)
        return one

    return make
