# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node's daemon ran on when it last served, so that a run that fails can put it back."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..text import json_data
from .deployment import UNIT, Observed, serving
from .desired import UNITS


@dataclasses.dataclass(frozen=True)
class Kept:
    """A release and the texts of the configuration and the unit with which it served."""

    release: str
    config: str
    unit: str


def proven(observed: Observed, config_file: str) -> t.Optional[Kept]:
    """Return what the daemon runs on, if it serves with it; None where that is not shown."""
    release = observed.daemon.release
    if serving(observed) or not release or release not in observed.releases:
        return None
    config, unit = observed.files.get(config_file), observed.files.get(f"{UNITS}/{UNIT}")
    return None if config is None or unit is None else Kept(release, config, unit)


def render(kept: Kept) -> str:
    """Return the text of the file that outlives a run."""
    return json.dumps(dataclasses.asdict(kept), indent=2) + "\n"


def parse(text: t.Optional[str]) -> t.Optional[Kept]:
    """Return what the file says; None where it is missing, torn or of another shape."""
    try:
        kept = Kept(**json_data.loads(text or ""))
    except (ValueError, TypeError):
        return None
    whole = all(isinstance(one, str) and one for one in dataclasses.astuple(kept))
    return kept if whole else None
