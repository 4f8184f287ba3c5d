# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a client in a container sees: the GPUs and MIG devices whose device nodes it was given.

The genuine library opens the nodes; here the daemon looks at the client's own /dev instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from .kernel import ci_minor, gi_minor
from .state import Ci, Gi, Gpu


class Eyes:
    """The /dev of a client; None where it is the node's own, and everything is seen."""

    def __init__(self, root: str | None, pid: int) -> None:
        self._dev: Path | None = None
        theirs = Path(f"/proc/{pid}/root/dev")
        try:
            if root == "/" and not os.path.samefile(theirs, "/dev"):
                self._dev = theirs
        except OSError:  # the client is gone already
            pass

    def gpu(self, gpu: Gpu) -> bool:
        """Return whether a GPU is there for the client."""
        return self._has(f"nvidia{gpu.board.minor}")

    def mig(self, gpu: Gpu, gi: Gi, ci: Ci) -> bool:
        """Return whether a MIG device is there for the client."""
        minors = (gi_minor(gpu.board.minor, gi.id), ci_minor(gpu.board.minor, gi.id, ci.id))
        return self.gpu(gpu) and all(self._has(f"nvidia-caps/nvidia-cap{one}") for one in minors)

    def _has(self, name: str) -> bool:
        return self._dev is None or (self._dev / name).exists()
