# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Restores the last release that served if a new one does not become ready."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..._base.dra.names import UNIT as DRA_UNIT
from ..._base.errors import NodeError
from ..._base.services import mps
from ..._base.steps import Step
from ..._base.text import json_data
from ..._machine.host import Host
from ..plan import UNIT, serving
from ..state import UNITS, DesiredPlugin, PluginState

MANAGER, DRA = f"{UNITS}/{mps.UNIT}", f"{UNITS}/{DRA_UNIT}"


@dataclasses.dataclass(frozen=True)
class Proven:
    """A release and the texts of the configuration and the unit with which it served.

    ``manager`` is the unit of the MPS manager, which names its release too, and ``dra`` that of the DRA driver;
    each is empty if there was none.
    """

    release: str
    config: str
    unit: str
    manager: str = ""
    dra: str = ""


def proven(state: PluginState, config_file: str) -> t.Optional[Proven]:
    """Return the release and the texts that the daemon serves with, None unless it is known to serve."""
    release, texts = state.services.daemon.release, state.files.texts
    if serving(state) or not release or release not in state.release.releases:
        return None
    config, unit = texts.get(config_file), texts.get(f"{UNITS}/{UNIT}")
    unit_texts = (texts.get(MANAGER) or "", texts.get(DRA) or "")
    return None if config is None or unit is None else Proven(release, config, unit, *unit_texts)


def render(record: Proven) -> str:
    """Return the text of the record, which outlives a run."""
    return json.dumps(dataclasses.asdict(record), indent=2) + "\n"


def parse(text: t.Optional[str]) -> t.Optional[Proven]:
    """Return the record from its text; None if it is missing, torn or of another shape."""
    try:
        record = Proven(**json_data.loads(text or ""))
    except (ValueError, TypeError):
        return None
    texts = all(isinstance(value, str) for value in dataclasses.astuple(record))
    return record if texts and record.release and record.config and record.unit else None


def tries(steps: t.Iterable[Step]) -> bool:
    """Return whether steps end with a daemon that has to serve, after which the record is removed."""
    restarts = {"restart", "wait"}
    return any(step.action in restarts and step.params.get("unit", UNIT) == UNIT for step in steps)


class Rollback:
    """Restores a release with its configuration and its unit.

    They are in a record, for the run after one that was killed: the files that it finds on the node were never proven
    to work.
    """

    def __init__(self, host: Host, prefix: str, desired: DesiredPlugin) -> None:
        self._host, self._prefix = host, prefix
        self._config, self._unit = desired.config_file, f"{UNITS}/{UNIT}"
        config, units = desired.configs[desired.config_file], desired.units
        further_units = (mps.UNIT, DRA_UNIT) if desired.owners.dra else (mps.UNIT,)
        texts = (units.get(unit, "") for unit in (UNIT, *further_units))
        self._desired = Proven(desired.digest, config, *texts)
        self._path = f"{prefix}/rollback.json"
        self._served = False

    def remember(self, state: PluginState) -> None:
        """Record the present release if it serves; otherwise the record of an earlier run stays."""
        record = None if self._served else proven(state, self._config)
        if record and self.read() != record:
            self._host.write(self._path, render(record), mode=0o600)

    def forget(self) -> None:
        """Remove the record, since the present release serves."""
        self._served = True
        self._host.remove(self._path)

    def read(self) -> t.Optional[Proven]:
        """Return the record, None if its release is not there any more."""
        record = parse(self._host.read(self._path))
        made = f"{self._prefix}/releases/{record.release}/.complete" if record else ""
        return record if made and self._host.exists(made) else None

    def put_back(self, error: NodeError, wait: t.Callable[[], None]) -> t.NoReturn:
        """Restore the recorded release and restart the daemon; ``wait`` returns when it serves.

        Raises:
            NodeError: ``error`` if there is nothing to restore, otherwise one with the result of the restart.
        """
        record = self.read()
        if record is None or record == self._desired:
            raise error
        host = self._host
        host.symlink(f"releases/{record.release}", f"{self._prefix}/current")
        host.write(self._config, record.config, mode=0o644)
        host.write(self._unit, record.unit, mode=0o644)
        for path, text in ((MANAGER, record.manager), (DRA, record.dra)):
            if text:
                host.write(path, text, mode=0o644)
        host.run(["systemctl", "daemon-reload"])
        host.run(["systemctl", "try-restart", mps.UNIT], check=False)
        host.run(["systemctl", "restart", UNIT], check=False)
        try:
            wait()
        except NodeError as second:
            problem = f"{error.message}; what ran before was restored, but {second.message}"
            texts = {"cause": error.cause, "hint": error.hint}
            raise NodeError(problem, **texts, rolled_back=False) from error
        self.forget()
        if record.dra:
            host.run(["systemctl", "enable", DRA_UNIT], check=False)
            host.run(["systemctl", "restart", DRA_UNIT], check=False)
        raise NodeError(
            f"{error.message}; release {record.release} with its configuration was restored and serves",
            cause=error.cause,
            hint="fix what the device plugin reported, then run again",
            rolled_back=True,
            release=record.release,
        ) from error
