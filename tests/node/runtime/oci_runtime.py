# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a simulated node, as crun, runc or nvidia-container-runtime: call the genuine one.

A node that is itself a container may not set the score of the OOM killer and limits, so they are taken out. A
container that has a GPU reaches the simulated kernel in a folder. NVIDIA's runtime calls the first of its ``runtimes``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

NVIDIA = "nvidia-container-runtime"
CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
KERNEL = "/run/nvsim"
PROGRAMS = {"crun": "/usr/bin/crun", "runc": "/usr/sbin/runc"}


def without_limits(path: Path, *keys: str) -> None:
    """Rewrite a file with a process, which is at a key of it or the whole."""
    config = json.loads(path.read_text())
    process = config[keys[0]] if keys else config
    for key in ("oomScoreAdj", "rlimits"):
        process.pop(key, None)
    devices = (config.get("linux") or {}).get("devices") or []
    if any(one["path"].startswith("/dev/nvidia") for one in devices):
        there = {"source": KERNEL, "destination": KERNEL, "type": "bind", "options": ["rbind"]}
        config["mounts"].append(there)
    path.write_text(json.dumps(config))


def option(args: list[str], *names: str) -> str:
    """Return the value of an option, empty if it is not there."""
    for at, arg in enumerate(args):
        name, equal, value = arg.partition("=")
        if name in names:
            return value if equal else args[at + 1]
    return ""


def main(name: str, args: list[str]) -> None:
    if name == NVIDIA:
        first = CONFIG.exists() and '"crun"' in CONFIG.read_text()
        name = "crun" if first else "runc"
        if "--version" in args:
            print("NVIDIA Container Runtime version 1.20.0", flush=True)
    if "create" in args:
        without_limits(Path(option(args, "--bundle", "-b"), "config.json"), "process")
    if "exec" in args and (process := option(args, "--process", "-p")):
        without_limits(Path(process))
    os.execv(PROGRAMS[name], [name, *args])


main(os.path.basename(sys.argv[0]), sys.argv[1:])
