# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.cdi."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import typing as t

from .._core.cdi import boot as cdi_boot
from .._core.cdi import specification as cdi
from .._core.cdi.generated import GENERATORS, NVIDIA_CTK, NVML, differences
from .._core.cdi.wanted import Options, Wanted
from .._core.errors import InputError
from .._core.gpu import NvmlError
from .._core.mig.boot import LOCK, PROGRAM
from .._core.steps import Plan, Step
from .._host.api import Host
from .._host.driver_files import DriverFiles
from .._nvml.api import Nvml
from .._nvml.cdi_reading import look
from .._nvml.real import open_nvml

LOCK_SECONDS = 60
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "path": {"type": "path", "default": "/var/run/cdi/nvidia.yaml"},
        "hooks": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
        "library_folders": {"type": "list", "elements": "path", "default": []},
        "driver_root": {"type": "path", "default": "/"},
        "generator": {"type": "str", "choices": list(GENERATORS), "default": NVML},
        "compare": {"type": "bool", "default": False},
        "boot": {"type": "bool", "default": True},
    },
    "supports_check_mode": True,
}


class Observed(t.NamedTuple):
    """The file, None where there is none, and what it should be, None where that is not known yet."""

    boot: cdi_boot.Boot
    text: t.Optional[str]
    wanted: t.Optional[Wanted]
    warnings: t.Tuple[str, ...] = ()
    differences: t.Tuple[t.Dict[str, str], ...] = ()
    waits_for: str = ""


class CdiCapability:
    """Keeps the CDI specification of the node's GPUs."""

    name = "cdi"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._present = params["state"] == "present"
        self._path: str = params["path"]
        self._options = Options(
            self._path,
            params["hooks"],
            tuple(params["library_folders"]),
            params["driver_root"],
            params["generator"],
        )
        self._compare: bool = params["compare"] and self._present
        self._keeps: bool = params["boot"] and self._present
        self._files = DriverFiles(host, params["driver_root"])
        if posixpath.splitext(self._path)[1] not in (".json", ".yaml"):
            raise InputError.of(
                "path", self._path, "a name that ends in .json or .yaml; runtimes read no others"
            )
        if self._options.generator == NVIDIA_CTK and (
            params["hooks"] != "auto" or params["library_folders"]
        ):
            raise InputError.of(
                "generator",
                NVIDIA_CTK,
                "hooks auto and no library_folders with it: it always uses its own hooks",
            )
        for folder in self._options.library_folders:
            if not folder.startswith("/"):
                raise InputError.of("library_folders", folder, "absolute paths")

    def observe(self) -> Observed:
        """Read the files and, where it is wanted, the GPUs and the driver's files."""
        text, boot = self._host.read(self._path), self._boot()
        if not self._present:
            return Observed(boot, text, Wanted())
        try:
            with open_nvml(self._files.nvml_library()) as nvml:
                if self._check_mode:
                    return self._look(nvml, boot, text)
                # A layout that is being changed would be described half.
                with self._host.lock(LOCK, timeout=LOCK_SECONDS):
                    return self._look(nvml, boot, text)
        except NvmlError as error:
            if self._check_mode:
                warning = "NVML is not there yet: the devices are known only after the driver is installed"
                return Observed(boot, text, None, (warning,), (), "the driver is loaded")
            error.hint = "bring up the driver first (gpu.node.nvidia_driver)"
            raise

    def _look(self, nvml: Nvml, boot: cdi_boot.Boot, text: t.Optional[str]) -> Observed:
        if self._check_mode and self._uses_toolkit and self._files.toolkit() is None:
            warning = (
                "nvidia-ctk is not there yet: the devices are known only after it is installed"
            )
            return Observed(boot, text, None, (warning,), (), "nvidia-ctk is installed")
        wanted, warnings = look(nvml, self._files, self._options)
        if not self._compare:
            return Observed(boot, text, wanted, warnings)
        specs = {self._options.generator: wanted.text}
        for one in GENERATORS:
            if one not in specs:
                other = self._options._replace(generator=one)
                specs[one] = look(nvml, self._files, other)[0].text
        empty: t.Dict[str, t.Any] = {"devices": []}
        found = [json.loads(specs[one]) if specs[one] else empty for one in GENERATORS]
        return Observed(boot, text, wanted, warnings, tuple(differences(found[0], found[1])))

    @property
    def _uses_toolkit(self) -> bool:
        return self._compare or self._options.generator == NVIDIA_CTK

    def _boot(self) -> cdi_boot.Boot:
        host = self._host
        units = list(cdi_boot.TEXTS)
        words = ["systemctl", "show", *units, "--property=Id,ActiveState,UnitFileState"]
        return cdi_boot.Boot(
            host.read(cdi_boot.CONFIG),
            {unit: host.read(cdi_boot.unit_file(unit)) for unit in units},
            cdi_boot.parse_show(host.run(words, check=False).out),
            host.exists(PROGRAM),
        )

    def plan(self, state: Observed) -> Plan:
        """Plan to write the file, or to remove it, and what keeps it up to date."""
        wanted = cdi_boot.dump(self._options) if self._keeps else None
        boot = cdi_boot.plan(state.boot, wanted, check_mode=self._check_mode)
        plan = self._plan_file(state)
        if not boot:
            return plan
        return dataclasses.replace(
            plan,
            steps=(*plan.steps, *boot),
            before=(plan.before or "") + (state.boot.config or ""),
            after=(plan.after or "") + (wanted or ""),
        )

    def _plan_file(self, state: Observed) -> Plan:
        text, wanted = state.text, state.wanted
        if wanted is None:
            summary = f"write the node's GPUs to {self._path} once {state.waits_for}"
            return Plan((Step("write", summary),), text or "", "", warnings=state.warnings)
        if (text or "") == wanted.text and (text is None) == (not wanted.text):
            return Plan(warnings=state.warnings)
        if not wanted.text:
            step = Step("remove", f"remove {self._path}")
            return Plan((step,), text, "", warnings=state.warnings)
        step = Step("write", self._summary(text, wanted), {"text": wanted.text})
        return Plan((step,), text or "", wanted.text, warnings=state.warnings)

    def _summary(self, text: t.Optional[str], wanted: Wanted) -> str:
        before = cdi.names_in(text)
        if before is None:
            return f"replace {self._path}, which something else wrote"
        added = [name for name in wanted.devices if name not in before]
        removed = [name for name in before if name not in wanted.devices]
        parts = [f"add {', '.join(added)}"] if added else []
        parts += [f"remove {', '.join(removed)}"] if removed else []
        return f"{self._path}: {'; '.join(parts) or 'follow the files of the driver'}"

    def apply(self, step: Step) -> None:
        """Carry out a step."""
        getattr(self, f"_{step.action}")(step)

    def _remove(self, _step: Step) -> None:
        self._host.remove(self._path)

    def _write(self, step: Step) -> None:
        self._host.write(self._path, step.params["text"], mode=0o644)

    def _boot_config(self, step: Step) -> None:
        self._host.write(cdi_boot.CONFIG, step.params["text"], mode=0o644)

    def _boot_unit(self, step: Step) -> None:
        unit, text = step.params["unit"], step.params["text"]
        self._host.write(cdi_boot.unit_file(unit), text, mode=0o644)
        self._host.run(["systemctl", "daemon-reload"])

    def _boot_enable(self, _step: Step) -> None:
        self._host.run(["systemctl", "enable", cdi_boot.UNIT])
        self._host.run(["systemctl", "enable", cdi_boot.PATH_UNIT])
        self._host.run(["systemctl", "restart", cdi_boot.PATH_UNIT])

    def _boot_forget(self, _step: Step) -> None:
        self._host.run(["systemctl", "reset-failed", cdi_boot.UNIT])

    def _boot_remove(self, _step: Step) -> None:
        units = [cdi_boot.PATH_UNIT, cdi_boot.UNIT]
        self._host.run(["systemctl", "disable", "--now", *units], check=False)
        for unit in units:
            self._host.remove(cdi_boot.unit_file(unit))
        self._host.remove(cdi_boot.CONFIG)
        self._host.run(["systemctl", "daemon-reload"])

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report what containers can ask for."""
        wanted = state.wanted or Wanted()
        return {
            "path": self._path,
            "kind": cdi.KIND,
            "devices": list(wanted.devices),
            "cdi_version": wanted.cdi_version,
            "driver_version": wanted.driver_version,
            "hook": wanted.hook,
            **({"differences": list(state.differences)} if self._compare else {}),
        }
