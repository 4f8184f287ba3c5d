# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where things are, and what names nodes have."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
NODE = REPOSITORY / "tests/fakes/node"
NVSIM, CUDA = REPOSITORY / "tests/fakes/nvsim", REPOSITORY / "tests/fakes/cuda"
KUBELET = REPOSITORY / "tests/fakes/kubelet"
DAEMON = REPOSITORY / "files/gpu_plugin/src/gpu_plugin"
CACHE = Path(os.environ.get("GPUNODE_CACHE") or REPOSITORY / ".cache/node")
KEY = CACHE / "id_ed25519"
RUNS = CACHE / "runs"
# Checkouts beside each other have nodes, volumes and images of their own.
CHECKOUT = hashlib.sha256(str(CACHE).encode()).hexdigest()[:6]
BY_HAND = "hand"


def run() -> str:
    """Return the name of the run that all belongs to which is made now, so that two beside each other share nothing."""
    name = os.environ.get("GPUNODE_RUN") or BY_HAND
    if not re.fullmatch(r"[a-z0-9]{1,16}", name):
        sys.exit(
            f"gpunode: GPUNODE_RUN={name} is not valid: expected up to 16 lower-case letters and digits"
        )
    return name


def run_of_this_process() -> str:
    """Return a name that tells others of this machine whether what made it still runs."""
    return f"p{os.getpid()}"


def was_killed(name: str) -> bool:
    """Return whether the process is gone that a run is named after."""
    named = re.fullmatch(r"p(\d+)", name)
    return named is not None and not Path("/proc", named[1]).exists()


def place(of: str = "") -> Path:
    """Return the folder of a run, the present one if none is named."""
    return RUNS / (of or run())
