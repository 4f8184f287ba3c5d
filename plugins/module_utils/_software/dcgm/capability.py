# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.dcgm."""

from __future__ import annotations

import hashlib
import time
import typing as t

from ..._base.packages.apt import upstream
from ..._base.services.dcgm import RECORD
from ..._base.steps import Plan
from ..._machine.download import bring
from ..._machine.host import Host
from ..._machine.own_files import OwnFiles
from ..._machine.units import failure, properties, systemctl
from ..._node.machine.facts import environment, library_versions, loaded_driver
from ..._node.machine.recorded import existing
from ..machine import Software
from .exporter import COUNTERS, DCGM_UNIT, PROGRAM, SETTINGS, UNIT, UNIT_FILE, VENDOR_UNIT
from .plan import EVERY, describe
from .plan import plan as plan_dcgm
from .state import DcgmState, Record, parse

Params = t.Mapping[str, t.Any]
START_SECONDS, LOOK_SECONDS = 30.0, 1.5


class DcgmCapability(Software[DcgmState, Record]):
    """Keeps DCGM, and its exporter where one is named, installed and running."""

    name, title, purpose = "dcgm", "DCGM", "DCGM"
    instead = "leave dcgm_state out"
    rivals = (
        "DCGM 4 does not go with DCGM 3, whose package is datacenter-gpu-manager",
        "remove what blocks it yourself: {}",
    )

    def __init__(self, host: Host, params: Params, *, check_mode: bool) -> None:
        values = dict(params)
        super().__init__(host, RECORD, Record, values.pop("lock_timeout"))
        self._desired, self._check_mode = parse(values), check_mode
        self._actions |= {
            "enable": self._enable,
            "start": self._start,
            "manage": self._manage,
            "disable": lambda params: systemctl(self._host, "disable", "--now", params["unit"]),
            "program": self._program,
            "file": self._file,
            "remove_exporter": lambda _params: self._remove_exporter(),
            "remove": self._remove,
        }

    # --- observe ---

    def observe(self) -> DcgmState:
        """Read packages, services and the exporter's files."""
        host, desired, record = self._host, self._desired, self._added.record
        present = desired.state == "present"
        if not (present or record):
            return DcgmState(self._family, {}, {}, record)
        driver, program = loaded_driver(host), host.read_bytes(PROGRAM)
        # Of the driver that is loaded, else of its library.
        version = driver.version if driver else next(iter(library_versions(host)[-1:]), "")
        units = (DCGM_UNIT, UNIT, VENDOR_UNIT)
        keys = ("ActiveState", "UnitFileState", "MainPID")
        return self._observed(
            DcgmState,
            sorted({*EVERY, *desired.exporters_package}),
            present=present,
            driver=version,
            services={unit: properties(host, unit, *keys) for unit in units},
            files=existing(host, (COUNTERS, UNIT_FILE)),
            digest="" if program is None else hashlib.sha256(program).hexdigest(),
            running=self._running(),
        )

    def plan(self, state: DcgmState) -> Plan:
        """Plan with pure functions, and have the package manager simulate what it would do."""
        return self._possible(plan_dcgm(state, self._desired, check_mode=self._check_mode))

    def own(self, _state: DcgmState) -> OwnFiles:
        """Return the files that only root may write."""
        modes = {RECORD: 0o644, COUNTERS: 0o644, UNIT_FILE: 0o644, PROGRAM: 0o755}
        there = modes if self._desired.state == "present" else {}
        return OwnFiles(self._host, there, record=RECORD, proof=(UNIT_FILE,))

    # --- apply ---

    def _manage(self, params: Params) -> None:
        self._added.remember(managed=self._added.record.managed | {params["unit"]})

    def _enable(self, params: Params) -> None:
        self._added.remember(enabled=self._added.record.enabled | {params["unit"]})
        systemctl(self._host, "enable", params["unit"])
        self._start(params)

    def _start(self, params: Params) -> None:
        self._manage(params)
        systemctl(self._host, "restart", params["unit"])
        self._await(params["unit"])

    def _running(self) -> str:
        """Return the settings that the exporter's process was started with, empty if there is none."""
        return environment(self._host, properties(self._host, UNIT, "MainPID")).get(SETTINGS, "")

    def _await(self, unit: str) -> None:
        """Wait until a service stays up: two looks find the same process.

        systemd says that it runs before the program has begun, and the exporter ends and is started again while the
        engine does not answer yet.
        """
        deadline, before = time.monotonic() + START_SECONDS, "0"
        while True:
            pid = properties(self._host, unit, "MainPID").get("MainPID", "0")
            begun = unit != UNIT or bool(self._running())
            if begun and pid == before != "0":
                return
            if time.monotonic() > deadline:
                raise failure(self._host, unit, f"{unit} does not stay up")
            before = pid
            time.sleep(LOOK_SECONDS)

    def _program(self, params: Params) -> None:
        self._added.remember(exporter=True)
        bring(params["location"], PROGRAM, params["sha256"], mode=0o755)

    def _file(self, params: Params) -> None:
        self._added.remember(exporter=True)
        self._host.write(params["path"], params["text"], mode=0o644)
        if params["path"] == UNIT_FILE:
            systemctl(self._host, "daemon-reload")

    def _remove_exporter(self) -> None:
        if self._host.exists(UNIT_FILE):
            systemctl(self._host, "disable", "--now", UNIT)
        for path in (UNIT_FILE, COUNTERS, PROGRAM):
            self._host.remove(path)
        folder = PROGRAM.rsplit("/", 1)[0]
        if self._host.exists(folder) and not self._host.listdir(folder):
            self._host.remove(folder)
        systemctl(self._host, "daemon-reload")
        record = self._added.record
        left = {"managed": record.managed - {UNIT}, "enabled": record.enabled - {UNIT}}
        self._added.remember(exporter=False, **left)

    def _remove(self, params: Params) -> None:
        if self._added.record.exporter:
            self._remove_exporter()
        if DCGM_UNIT in self._added.record.enabled:
            systemctl(self._host, "disable", "--now", DCGM_UNIT)
        self._take_back(params["packages"])
        self._added.forget()

    # --- report ---

    def result(self, state: DcgmState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions, and where the exporter serves."""
        description = describe(state)
        packages = description["packages"]
        core = next((packages[name] for name in packages if name.endswith("-core")), None)
        return {
            "dcgm_version": upstream(core) if core else None,
            "packages": packages,
            "service": description["service"],
            "exporter_address": description["exporter"],
        }
