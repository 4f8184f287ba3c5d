# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's own installer on a node: what it has left, and how it is run."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver.kernel import tail
from ..._core.driver.runfile import COPY, LOG, TRACES, UNINSTALLER, Installed, parse_traces
from ..._core.driver.state import Observed
from ..._core.errors import NodeError
from ..download import bring
from .kernel import building
from .node import Node, Params


class Runfile:
    """The driver from a .run file."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def observe(self, observed: Observed) -> Observed:
        """Add what the installer has left, and what the next one would lack."""
        host, runfile = self._node.host, self._node.desired.runfile
        found = Installed(self._version())
        if runfile is not None:
            compiler = any(host.which(name) is not None for name in ("cc", "gcc"))
            missing = [] if compiler else ["C compiler"]
            missing += ["make"] if host.which("make") is None else []
            there = not runfile.location.startswith("/") or host.exists(runfile.location)
            dkms = host.which("dkms") is not None
            found = Installed(found.version, dkms, tuple(missing), there)
        return dataclasses.replace(observed, runfile=found)

    def _version(self) -> str:
        host = self._node.host
        return parse_traces(host.read(TRACES) or "") if host.exists(UNINSTALLER) else ""

    def install(self, params: Params) -> None:
        """Run the installer from a copy that nobody else can change, and see that it did its work."""
        host, added = self._node.host, self._node.added
        bring(params["location"], COPY, params["sha256"])
        added.remember(runfile="?")
        try:
            with building(host):
                self._call(["sh", COPY, *params["words"]], "NVIDIA's installer")
        finally:
            host.remove(COPY)
        found = self._version()
        if found != params["version"]:
            raise NodeError(
                f"the installer has brought version {found or '(none)'}, not {params['version']}",
                cause=f"{TRACES} says so",
                hint="set version to the one that the file has",
            )
        added.remember(runfile=f"{params['version']} {params['kind']}")

    def uninstall(self, _params: Params) -> None:
        """Have the installer take back what it brought; the loaded modules stay."""
        if self._node.host.exists(UNINSTALLER):
            self._call([UNINSTALLER, "--silent", "--skip-module-unload"], UNINSTALLER)
        self._node.added.remember(runfile="")

    def _call(self, words: t.Sequence[str], name: str) -> None:
        done = self._node.host.run(words, check=False)
        if done.rc != 0:
            log = tail(self._node.host.read(LOG) or "") or done.err.strip() or done.out.strip()
            raise NodeError(
                f"{name} failed with status {done.rc}",
                cause=f"the end of {LOG}:\n{log}",
                hint="fix the cause named above and run again",
                rc=done.rc,
            )
