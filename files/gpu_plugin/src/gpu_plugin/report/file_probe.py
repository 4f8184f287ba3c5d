# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The probes by the status file, for a pod: they depend on no port that others reach."""

from __future__ import annotations

from pathlib import Path

from .. import status
from .probes import health, readiness


def problem(path: Path, *, ready: bool) -> str:
    """Return what is wrong with the daemon that keeps this file, or nothing."""
    try:
        age = status.age(path)
    except OSError as error:
        return f"{path}: {error.strerror}: the daemon has not started, or has ended"
    state = status.load(path)
    if state is None:
        return f"{path}: the daemon that wrote it does not run"
    return (readiness if ready else health)(state, age)
