# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container by the genuine runc, with the mounts of a CDI specification and the machine's own programs."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

PROGRAMS = [folder for folder in ("/usr", "/bin", "/lib", "/lib64") if Path(folder).exists()]


def run(folder: Path, edits: dict[str, Any], script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root in a container that is made for it below ``folder``."""
    bundle = folder / uuid.uuid4().hex
    (bundle / "rootfs").mkdir(parents=True)
    mounts: list[dict[str, Any]] = [{"source": "proc", "destination": "/proc", "type": "proc"}]
    mounts += [_bind(one, one, ["ro", "rbind"]) for one in PROGRAMS]
    mounts += [
        _bind(one["hostPath"], one["containerPath"], one["options"])
        for one in edits.get("mounts", ())
        if not one["containerPath"].startswith(tuple(PROGRAMS))
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/bin/sh", "-c", script],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
        },
        "root": {"path": "rootfs"},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": "mount"}]},
    }
    (bundle / "config.json").write_text(json.dumps(config))
    words = ["runc", "--root", str(bundle / "state"), "run", f"gpu-node-{bundle.name}"]
    return subprocess.run(
        words, cwd=bundle, check=False, capture_output=True, text=True, timeout=60
    )


def _bind(source: str, target: str, options: list[str]) -> dict[str, Any]:
    return {"source": source, "destination": target, "type": "bind", "options": options}
