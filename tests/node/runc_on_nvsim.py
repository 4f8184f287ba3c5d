# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a simulated node, before the genuine runc in PATH: the simulated kernel is reached through a folder.

A container that has a GPU reaches it there, as one that has a real GPU reaches the real kernel.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER = "/run/nvsim"
words = sys.argv[1:]
if "--bundle" in words and {"create", "run"} & {*words}:
    path = Path(words[words.index("--bundle") + 1], "config.json")
    config = json.loads(path.read_text())
    devices = config.get("linux", {}).get("devices") or []
    if any(one["path"].startswith("/dev/nvidia") for one in devices):
        there = {"source": FOLDER, "destination": FOLDER, "type": "bind", "options": ["rbind"]}
        config["mounts"].append(there)
        path.write_text(json.dumps(config))
os.execv("/usr/sbin/runc", ["runc", *words])
