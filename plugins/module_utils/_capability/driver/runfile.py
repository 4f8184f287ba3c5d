# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's own installer on a node: what it has left, and how it is run."""

from __future__ import annotations

import typing as t

from ..._core.driver.kernel import tail
from ..._core.driver.runfile import COPY, LOG, TRACES, UNINSTALLER, Installed, Runfile, parse_traces
from ..._core.errors import NodeError
from ..._host.api import Completed, Host
from ..download import bring
from .kernel import building

RUNFILE_SPEC: t.Dict[str, t.Any] = {
    "type": "dict",
    "options": {
        "location": {"type": "str", "required": True},
        "sha256": {"type": "str", "required": True, "no_log": False},
    },
}


def installed(host: Host, runfile: t.Optional[Runfile]) -> Installed:
    """Return what the installer has left, and what the next one would lack."""
    version = parse_traces(host.read(TRACES) or "") if host.exists(UNINSTALLER) else ""
    if runfile is None:
        return Installed(version)
    compiler = any(host.which(name) is not None for name in ("cc", "gcc"))
    lacking = [] if compiler else ["C compiler"]
    lacking += ["make"] if host.which("make") is None else []
    there = not runfile.location.startswith("/") or host.exists(runfile.location)
    return Installed(version, host.which("dkms") is not None, tuple(lacking), there)


class RunfileSteps:
    """The part of the capability that runs the installer."""

    _host: Host

    def _remember(self, **additions: t.Any) -> None:
        raise NotImplementedError

    def _runfile(self, params: t.Mapping[str, t.Any]) -> None:
        """Run the installer from a copy that nobody else can change, and see that it did its work."""
        bring(params["location"], COPY, params["sha256"])
        self._remember(runfile="?")
        try:
            with building(self._host):
                self._called(["sh", COPY, *params["words"]], "NVIDIA's installer")
        finally:
            self._host.remove(COPY)
        found = installed(self._host, None).version
        if found != params["version"]:
            raise NodeError(
                f"the installer has brought version {found or '(none)'}, not {params['version']}",
                cause=f"{TRACES} says so",
                hint="set version to the one that the file has",
            )
        self._remember(runfile=f"{params['version']} {params['kind']}")

    def _uninstall(self, _params: t.Mapping[str, t.Any]) -> None:
        """Have the installer take back what it brought; the loaded modules stay."""
        if self._host.exists(UNINSTALLER):
            self._called([UNINSTALLER, "--silent", "--skip-module-unload"], UNINSTALLER)
        self._remember(runfile="")

    def _called(self, words: t.Sequence[str], name: str) -> Completed:
        done = self._host.run(words, check=False)
        if done.rc != 0:
            log = tail(self._host.read(LOG) or "") or done.err.strip() or done.out.strip()
            raise NodeError(
                f"{name} failed with status {done.rc}",
                cause=f"the end of {LOG}:\n{log}",
                hint="fix the cause named above and run again",
                rc=done.rc,
            )
        return done
