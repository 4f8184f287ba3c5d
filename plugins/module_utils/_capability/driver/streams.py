# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Module streams of dnf on a node: seen, enabled, and put back to what they were."""

from __future__ import annotations

import typing as t

from ..._core.driver.record import Record
from ..._core.driver.select import Desired, Observed, flavour
from ..._core.packages.streams import (
    FILE,
    MODULE,
    RELEASES,
    Streams,
    fits,
    parse_enabled,
    parse_list,
)
from ..._host.api import Host
from ..._host.packages.api import PackageManager
from ..._host.packages.dnf import Dnf


class StreamSteps:
    """The part of the capability that knows streams."""

    _host: Host
    _desired: Desired
    _manager: PackageManager

    def _record(self) -> Record:
        raise NotImplementedError

    def _remember(self, **additions: t.Any) -> None:
        raise NotImplementedError

    def _streams(self, observed: Observed) -> Streams:
        """Return the streams; dnf is asked only where the one that is enabled does not fit."""
        manager = self._manager
        if not isinstance(manager, Dnf) or observed.codename not in RELEASES:
            return Streams()
        enabled = parse_enabled(self._host.read(FILE) or "")
        kind = flavour(self._desired.kernel_modules, observed.gpus)
        if self._desired.state == "absent" or fits(enabled, self._desired.version, kind):
            return Streams(enabled)
        return Streams(enabled, parse_list(manager.module(["list", MODULE])))

    def _stream(self, params: t.Mapping[str, t.Any]) -> None:
        record = self._record()
        before = record.stream_before if record.stream else params["before"]
        self._remember(stream=params["stream"], stream_before=before)
        self._enable_stream(params["stream"])

    def _forget_stream(self) -> None:
        """Put the stream back to what it was, unless somebody has enabled another since."""
        record = self._record()
        enabled = parse_enabled(self._host.read(FILE) or "")
        if enabled == record.stream:
            self._enable_stream(record.stream_before)

    def _enable_stream(self, stream: str) -> None:
        """Enable a stream in place of any other; none only resets the module."""
        manager = self._manager
        if isinstance(manager, Dnf):
            manager.module(["reset", MODULE], check=True)
            if stream:
                manager.module(["enable", f"{MODULE}:{stream}"], check=True)
