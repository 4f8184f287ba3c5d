# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the node has besides GPUs, and the CDI files that the plugin keeps of it."""

from __future__ import annotations

import os
from pathlib import Path

from .._shared._core.gpu import CONTROL_NODES
from ..cdi.added import CdiAdded
from ..cdi.file import CdiFile
from ..cdi.specification import IMEX_FOLDER, HostState
from ..config.configuration import CDI, Config, hook_program
from ..tools.chores import Chore


class Host:
    """``root`` is where the host's /dev and CDI folders are seen."""

    def __init__(self, root: Path) -> None:
        self._root = str(root).rstrip("/")
        self._gpus, self._added = CdiFile(root), CdiAdded(root)
        trouble = "the CDI specification can't be kept, trying again"
        self._keep_gpus = Chore("cdi_gpus", trouble, self._gpus.refresh)
        self._keep_added = Chore("cdi_added", trouble, self._added.refresh)
        self.chores = (self._keep_gpus, self._keep_added)

    def look(self, config: Config) -> HostState:
        """Bring the CDI files up to date, and return what there is."""
        if set(CDI) & set(config.device_list_strategies):
            self._keep_gpus.run(hook_program(config), config.cdi_disabled_hooks)
        self._keep_added.run(config)
        root = self._root + config.dev_root.rstrip("/")
        channels = config.imex_channels
        return HostState(
            tuple(path for path in CONTROL_NODES if os.path.exists(root + path)),
            tuple(one for one in channels if os.path.exists(f"{root}{IMEX_FOLDER}/channel{one}")),
            self._gpus.names,
            self._added.names,
        )
