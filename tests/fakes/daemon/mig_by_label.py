# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files of a node where labels may choose the MIG layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_plugin._shared._mig.config import Declared
from gpu_plugin.labels.mig import Paths

MIG = {"mig-enabled": True, "devices": "all"}
LAYOUTS = {
    "halves": [{**MIG, "mig-devices": {"3g.40gb": 2}}],
    "whole": [{**MIG, "mig-devices": {"7g.80gb": 1}}],
}


def declare(paths: Paths, *, by_label: bool = True, **layouts: Any) -> None:
    config = {"version": "v1", "mig-configs": {**LAYOUTS, **layouts}}
    new = paths.config.with_suffix(".new")
    new.write_text(Declared(config, "", by_label).dump())
    new.replace(paths.config)


def files(folder: Path) -> Paths:
    """Return the files of a node where labels may choose."""
    names = ("mig.json", "asked/asked.json", "answer.json", "state/chosen")
    found = Paths(*(folder / name for name in names))
    declare(found)
    return found
