# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.cdi."""

from __future__ import annotations

import json
import posixpath
import typing as t

from .._base.boot import BootState as Boot
from .._base.errors import InputError
from .._base.gpu import NvmlError
from .._base.services.mig import LOCK
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.nvml.real import Nvml, inventory, open_nvml
from .._machine.own_files import OwnFiles
from .._node.machine import boot, nvml_start
from . import boot as cdi_boot
from . import specification
from .capabilities import CAPABILITIES, DEFAULT, chosen
from .generated import GENERATORS, NVIDIA_CTK, differences
from .machine import replaced
from .machine.driver_files import SPEC_FOLDERS, DriverFiles
from .machine.specify import DesiredSpecification, lost_files, lost_nodes, specify

LOCK_SECONDS = 60


class CdiState(t.NamedTuple):
    """The file, None if there is none, and what it should be, None if that is not known yet.

    ``foreign`` says that something else wrote the file, ``replaced`` has the paths of files that ours have replaced.
    """

    boot: Boot
    text: t.Optional[str]
    desired: t.Optional[DesiredSpecification]
    warnings: t.Tuple[str, ...] = ()
    differences: t.Tuple[t.Dict[str, str], ...] = ()
    waits_for: str = ""
    earlier: str = ""  # where it was before
    foreign: bool = False
    replaced: t.FrozenSet[str] = frozenset()


class CdiCapability:
    """Keeps the CDI specification of the node's GPUs."""

    name = "cdi"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._present = params["state"] == "present"
        self._path: str = params["path"]
        self._options = cdi_boot.parse(params)
        self._compare: bool = params["compare"] and self._present
        self._keeps: bool = params["boot"] and self._present
        self._files = DriverFiles(host, params["driver_root"])
        if not self._path.startswith("/"):
            raise InputError.of("path", self._path, "an absolute path")
        if posixpath.splitext(self._path)[1] not in (".json", ".yaml"):
            expected = "a name that ends in .json or .yaml; runtimes read no others"
            raise InputError.of("path", self._path, expected)
        by_toolkit = self._options.generator == NVIDIA_CTK
        if by_toolkit and (params["hooks"] != "auto" or params["library_folders"]):
            expected = "hooks auto and no library_folders with it: it always uses its own hooks"
            raise InputError.of("generator", NVIDIA_CTK, expected)
        if not self._options.capabilities:
            raise InputError.of("capabilities", [], f"one at least of {', '.join(CAPABILITIES)}")
        if by_toolkit and chosen(params["capabilities"]) != set(DEFAULT):
            expected = "none with generator nvidia-ctk, whose specification has all of them"
            raise InputError.of("capabilities", params["capabilities"], expected)
        for folder in self._options.library_folders:
            if not folder.startswith("/"):
                raise InputError.of("library_folders", folder, "absolute paths")

    def observe(self) -> CdiState:
        """Read the files and, where it is wanted, the GPUs and the driver's files.

        Raises:
            InputError: if others may write where the file is to be, which is what containers are given by.
        """
        problem = self._host.who_writes(posixpath.dirname(self._path)) if self._present else ""
        if problem:
            raise InputError.exposed("path", self._path, "a file in a folder", problem)
        units = boot.observe(self._host, cdi_boot.BOOT)
        observed, path = self._observe_file(units), cdi_boot.path(units.config)
        place, desired_place = map(specification.normalize_path, (path, self._path))
        elsewhere = bool(path) and place != desired_place
        ours = elsewhere and specification.is_ours(self._host.read(path))
        known = frozenset(replaced.load(self._host))
        named = self._path in known or (bool(path) and not elsewhere)
        foreign = bool(observed.text) and not named and not specification.is_ours(observed.text)
        return observed._replace(earlier=path if ours else "", foreign=foreign, replaced=known)

    def _observe_file(self, units: Boot) -> CdiState:
        text = self._host.read(self._path)
        if not self._present:
            return CdiState(units, text, DesiredSpecification())
        try:
            with open_nvml(self._files.required_nvml_library()) as nvml:
                if self._check_mode:
                    return self._describe(nvml, units, text)
                # A layout that is being changed would be described half.
                with self._host.lock(LOCK, timeout=LOCK_SECONDS):
                    return self._describe(nvml, units, text)
        except NvmlError as error:
            late = nvml_start.explain(self._host, error)
            if self._check_mode and late:
                warning = "NVML is not there yet: the devices are known only after the driver is installed"
                return CdiState(units, text, None, (warning,), (), "the driver is loaded")
            raise

    def _describe(self, nvml: Nvml, units: Boot, text: t.Optional[str]) -> CdiState:
        uses_toolkit = self._compare or self._options.generator == NVIDIA_CTK
        if self._check_mode and uses_toolkit and self._files.program(NVIDIA_CTK) is None:
            message = (
                "nvidia-ctk is not there yet: the devices are known only after it is installed"
            )
            return CdiState(units, text, None, (message,), (), "nvidia-ctk is installed")
        node = inventory(nvml)
        desired, warnings = specify(node, self._files, self._options)
        refused = lost_nodes(self._host, text, desired.text, self._files.root)
        refused = refused or lost_files(self._host, text, desired.text)
        if refused:
            raise refused
        if not self._compare:
            return CdiState(units, text, desired, warnings)
        specs = []
        for generator in GENERATORS:
            options, described = self._options._replace(generator=generator), desired
            if options != self._options:
                described, _warnings = specify(node, self._files, options)
            specs.append(json.loads(described.text or '{"devices": []}'))
        return CdiState(units, text, desired, warnings, tuple(differences(*specs)))

    def plan(self, state: CdiState) -> Plan:
        """Plan to write the file, or to remove it, and what keeps it up to date."""
        boot_text = cdi_boot.dump(self._options) if self._keeps else None
        texts = cdi_boot.texts(self._options)
        at_boot = cdi_boot.BOOT.plan(state.boot, boot_text, texts, check_mode=self._check_mode)
        step, before, after = self._plan_file(state)
        if at_boot:
            before, after = before + (state.boot.config or ""), after + (boot_text or "")
        if state.earlier:
            summary = f"remove {state.earlier}, where the specification was before"
            step = (*step, Step("forget", summary, {"path": state.earlier}))
        steps = (*step, *at_boot)
        return Plan(steps, before, after, warnings=state.warnings, later=state.waits_for)

    def _plan_file(self, state: CdiState) -> t.Tuple[t.Tuple[Step, ...], str, str]:
        text, desired = state.text, state.desired
        if desired is None:
            summary = f"write the node's GPUs to {self._path} once {state.waits_for}"
            return (Step("write", summary),), text or "", ""
        if not self._present and self._path in state.replaced:
            step = Step("restore", f"restore {self._path} as it was before", {"path": self._path})
            return (step,), text or "", ""
        if (text or "") == desired.text and (text is None) == (not desired.text):
            return (), "", ""
        if not desired.text:
            remove = () if state.foreign else (Step("remove", f"remove {self._path}"),)
            return remove, text or "", ""
        params = {"text": desired.text, "keep": state.foreign}
        step = Step("write", self._summary(state, desired), params)
        return (step,), text or "", desired.text

    def _summary(self, state: CdiState, desired: DesiredSpecification) -> str:
        if state.foreign:
            return f"replace {self._path}, which something else wrote and which comes back with state absent"
        before = specification.device_names(state.text)
        if before is None:
            return f"replace {self._path}, which something else wrote"
        added = [name for name in desired.devices if name not in before]
        removed = [name for name in before if name not in desired.devices]
        parts = [f"add {', '.join(added)}"] if added else []
        parts += [f"remove {', '.join(removed)}"] if removed else []
        return f"{self._path}: {'; '.join(parts) or 'follow the files of the driver'}"

    def own(self, state: CdiState) -> OwnFiles:
        """Return the files that only root may write."""
        boot_files = boot.files(cdi_boot.BOOT) if self._keeps else ()
        paths = (self._path, *boot_files) if self._present else ()
        modes = {**dict.fromkeys(paths, 0o644), replaced.RECORD: 0o600}
        if state.foreign and self._host.readlink(self._path) is None:
            modes.pop(self._path, None)  # its mode is its owner's, and comes back with it
        shared = SPEC_FOLDERS if self._present else ()
        return OwnFiles(self._host, modes, record=replaced.RECORD, shared=shared)

    def apply(self, step: Step) -> None:
        """Carry out a step."""
        if step.action in ("restore", "forget"):
            replaced.restore(self._host, step.params["path"])
        elif step.action == "remove":
            self._host.remove(self._path)
        elif step.action == "write":
            if step.params["keep"]:
                replaced.keep(self._host, self._path)
            self._host.write(self._path, step.params["text"], mode=0o644)
        else:
            boot.apply(self._host, step)

    def result(self, state: CdiState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report what containers can ask for."""
        desired = state.desired or DesiredSpecification()
        return {
            "path": self._path,
            "kind": specification.KIND,
            "devices": list(desired.devices),
            "cdi_version": desired.cdi_version,
            "driver_version": desired.driver_version,
            "hook": desired.hook,
            **({"differences": list(state.differences)} if self._compare else {}),
        }
