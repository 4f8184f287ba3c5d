# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Module streams of dnf on a node: seen, enabled, and put back to what they were."""

from __future__ import annotations

import dataclasses

from ..._core.driver.packages.streams import (
    FILE,
    MODULE,
    RELEASES,
    Streams,
    fits,
    parse_enabled,
    parse_list,
)
from ..._core.driver.select import flavour
from ..._core.driver.state import Observed
from ..._host.packages.rpm import Dnf
from .node import Node, Params


class ModuleStreams:
    """The streams of the module that has the driver."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def observe(self, observed: Observed) -> Observed:
        """Add the streams; dnf is asked only where the one that is enabled does not fit."""
        manager, wanted = self._node.manager, self._node.desired
        if not isinstance(manager, Dnf) or observed.codename not in RELEASES:
            return observed
        enabled, offered = self._enabled(), ""
        kind = flavour(wanted.kernel_modules, observed.gpus)
        if wanted.state == "present" and not fits(enabled, wanted.version, kind):
            offered = manager.module(["list", MODULE])
        return dataclasses.replace(observed, streams=Streams(enabled, parse_list(offered)))

    def enable(self, params: Params) -> None:
        """Enable a stream; the one that was enabled before the first is remembered."""
        record = self._node.added.record
        before = record.stream_before if record.stream else params["before"]
        self._node.added.remember(stream=params["stream"], stream_before=before)
        self._switch(params["stream"])

    def forget(self) -> None:
        """Put the stream back to what it was, unless somebody has enabled another since."""
        record = self._node.added.record
        if record.stream and self._enabled() == record.stream:
            self._switch(record.stream_before)

    def _enabled(self) -> str:
        return parse_enabled(self._node.host.read(FILE) or "")

    def _switch(self, stream: str) -> None:
        """Enable a stream in place of any other; none only resets the module."""
        manager = self._node.manager
        if isinstance(manager, Dnf):
            manager.module(["reset", MODULE], check=True)
            if stream:
                manager.module(["enable", f"{MODULE}:{stream}"], check=True)
