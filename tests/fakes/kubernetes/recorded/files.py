# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Recordings as files: a scene's requests with the answers of a genuine API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.fakes.kubernetes.recorded.steps import Json, Step, read

FOLDER = Path(__file__).parents[1] / "recordings"


def write(name: str, about: Json, scenes: Mapping[str, Iterable[Step]]) -> None:
    """Write scenes, a line for each request."""
    parts = [f'"about": {json.dumps(about)}']
    for scene, steps in scenes.items():
        lines = ",\n".join(json.dumps(one.told(), separators=(",", ":")) for one in steps)
        parts.append(f"{json.dumps(scene)}: [\n{lines}\n]")
    (FOLDER / f"{name}.json").write_text("{" + ",\n".join(parts) + "}\n")


def scenes(name: str) -> dict[str, list[Step]]:
    """Return the scenes of a file as they were recorded."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    return {scene: [read(one) for one in found[scene]] for scene in found if scene != "about"}
