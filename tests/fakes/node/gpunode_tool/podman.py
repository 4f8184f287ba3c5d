# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Calls of podman, with the settings that work where limits may not be raised."""

from __future__ import annotations

import os
import subprocess
import sys

from .paths import CACHE, CHECKOUT, run

FILES, PROCESSES = 4096, 2048  # that a process of a container may raise its limits to
SETTINGS = f"""\
[containers]
default_ulimits = ["nofile=1024:{FILES}", "nproc=1024:{PROCESSES}"]
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


def label(of: str = "") -> str:
    """Return the label that each container of a run has, the present one if none is named."""
    return f"gpunode-run={CHECKOUT}.{of or run()}"


def tag(of: str = "") -> str:
    """Return how the tags of a run's images begin."""
    return f"{CHECKOUT}-{of or run()}-"


def ours(of: str = "") -> list[str]:
    """Return the ids of a run's containers."""
    return podman("ps", "--all", "--quiet", "--filter", f"label={label(of)}").split()


def images(prefix: str) -> list[str]:
    """Return the images of ours whose tag begins so."""
    told = podman("images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
    names = [one for one in told if one.startswith("localhost/gpunode")]
    return [one for one in names if one.rpartition(":")[2].startswith(prefix)]
