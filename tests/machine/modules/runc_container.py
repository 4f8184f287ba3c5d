# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A container by the genuine runc, with the mounts of a CDI specification and the machine's own programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

from tests.support.folder import named
from tests.support.waiting import LIMIT

PROGRAMS = [folder for folder in ("/usr", "/bin", "/lib", "/lib64") if Path(folder).exists()]


def run(folder: Path, edits: dict[str, Any], script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root in a container that is made for it below ``folder``."""
    mounts = [_bind(one, one, ["ro", "rbind"]) for one in PROGRAMS]
    mounts += [one for one in _mounts(edits) if not one["destination"].startswith(tuple(PROGRAMS))]
    return _run(folder, mounts, ["/bin/sh", "-c", script], {"path": "rootfs"})


def run_image(
    folder: Path, image: Path, edits: dict[str, Any], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of an image as root, with a root filesystem that is the image's and no other's."""
    root = {"path": str(folder / uuid.uuid4().hex)}
    shutil.copytree(image, root["path"], symlinks=True)
    return _run(folder, _mounts(edits), list(words), root)


def _mounts(edits: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _bind(one["hostPath"], one["containerPath"], one["options"])
        for one in edits.get("mounts", ())
    ]


def _run(
    folder: Path, mounts: list[dict[str, Any]], args: list[str], root: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    bundle = folder / uuid.uuid4().hex
    (bundle / "rootfs").mkdir(parents=True)
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": args,
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
        },
        "root": root,
        "mounts": [{"source": "proc", "destination": "/proc", "type": "proc"}, *mounts],
        "linux": {"namespaces": [{"type": "mount"}]},
    }
    (bundle / "config.json").write_text(json.dumps(config))
    words = ["runc", "--root", str(bundle / "state"), "run", named(bundle.name)]
    return subprocess.run(
        words, cwd=bundle, check=False, capture_output=True, text=True, timeout=LIMIT
    )


def _bind(source: str, target: str, options: list[str]) -> dict[str, Any]:
    return {"source": source, "destination": target, "type": "bind", "options": options}
