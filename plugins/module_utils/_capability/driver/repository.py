# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from a repository that the user names: the node is made to know it, or to forget it."""

from __future__ import annotations

import dataclasses

from ..._core.driver.repository import PLACE
from ..._core.driver.state import Observed
from ..._core.packages.repository import Known
from ..recorded import existing
from .node import Node, Params


class Repository:
    """The files of the repository; its packages come as all others do."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def observe(self, observed: Observed) -> Observed:
        """Add our files; where it is wanted, also the key's text and the keys that rpm believes."""
        host, wanted = self._node.host, self._node.desired
        known = Known(existing(host, PLACE.paths))
        if wanted.repository is not None and wanted.state == "present":
            path = wanted.repository.key_path
            key = host.read(path) if path else None
            known = known._replace(key=key, trusted=self._node.manager.trusted())
        return dataclasses.replace(observed, repository=known)

    def write(self, params: Params) -> None:
        """Write the files, or remove them."""
        self._node.added.write_repository(self._node.manager, params)

    def forget(self) -> None:
        """Remove what was added."""
        if self._node.added.record.repository:
            self._node.added.forget_repository(self._node.manager, PLACE.paths)
