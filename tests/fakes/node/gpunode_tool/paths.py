# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where things are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
NODE = REPOSITORY / "tests/fakes/node"
NVSIM = REPOSITORY / "tests/fakes/nvsim"
KUBELET = REPOSITORY / "tests/fakes/kubelet"
DAEMON = REPOSITORY / "files/gpu_plugin/src/gpu_plugin"
CACHE = Path(os.environ.get("GPUNODE_CACHE") or REPOSITORY / ".cache/node")
KEY = CACHE / "id_ed25519"
# Checkouts beside each other have nodes, volumes and images of their own.
CHECKOUT = hashlib.sha256(str(CACHE).encode()).hexdigest()[:6]
