# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A certificate that somebody else keeps in files, such as cert-manager in a Secret that is mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.tools import bounded

from .values import Pair

LONGEST: Final = 256 << 10
HINT: Final = "let cert-manager issue it, and mount its Secret; it is looked for again"


class Files:
    """The pair of two files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key

    def look(self, _now: float) -> Pair:
        """Return what is to be served. NodeError: it can't be read."""
        try:
            return Pair(
                *(bounded.read_text(one, LONGEST) for one in (self._certificate, self._key))
            )
        except (OSError, UnicodeDecodeError) as error:
            raise NodeError(
                "the serving certificate can't be read", cause=str(error), hint=HINT
            ) from error
