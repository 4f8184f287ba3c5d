# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Calls of podman, with the settings that work where limits may not be raised."""

from __future__ import annotations

import os
import subprocess
import sys

from .paths import CACHE

SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=1024:2048"]
[engine]
runtime = "runc"
"""


def podman(*words: str, check: bool = True, show: bool = False) -> str:
    """Run podman and return what it prints; a failure ends the tool with podman's words."""
    settings = CACHE / "containers.conf"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(SETTINGS)
    done = subprocess.run(
        ["podman", *words],
        env={**os.environ, "CONTAINERS_CONF": str(settings)},
        stdout=None if show else subprocess.PIPE,
        stderr=None if show else subprocess.PIPE,
        text=True,
        check=False,
    )
    if check and done.returncode:
        sys.exit(f"gpunode: podman {words[0]} failed: {(done.stderr or '').strip()}")
    return (done.stdout or "").strip()
