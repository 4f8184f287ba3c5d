# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.cdi."""

from __future__ import annotations

import posixpath
import typing as t

from .._core import cdi
from .._core.device_nodes import CONTROL_NODES
from .._core.errors import InputError
from .._core.mig_boot import LOCK
from .._core.steps import Plan, Step
from .._host.api import Host
from .._nvml.api import Gpu, MigDevice, Nvml, NvmlError
from .._nvml.real import open_nvml
from .driver_files import DriverFiles

SPEC_FOLDERS = ("/etc/cdi", "/var/run/cdi")
LOCK_SECONDS = 60
REQUIRED_NODES = CONTROL_NODES[:2]
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "path": {"type": "path", "default": "/var/run/cdi/nvidia.yaml"},
        "hooks": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
        "library_folders": {"type": "list", "elements": "path", "default": []},
        "driver_root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}


class Wanted(t.NamedTuple):
    """The specification that the node should have; an empty text where it has no device."""

    text: str = ""
    devices: t.Tuple[str, ...] = ()
    cdi_version: str = ""
    driver_version: str = ""
    hook: str = ""


class Observed(t.NamedTuple):
    """The file, None where there is none, and what it should be, None where NVML is not there yet."""

    text: t.Optional[str]
    wanted: t.Optional[Wanted]
    warnings: t.Tuple[str, ...] = ()


class CdiCapability:
    """Keeps the CDI specification of the node's GPUs."""

    name = "cdi"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._present = params["state"] == "present"
        self._path: str = params["path"]
        self._hooks: str = params["hooks"]
        self._folders: t.List[str] = params["library_folders"]
        self._files = DriverFiles(host, params["driver_root"])
        if posixpath.splitext(self._path)[1] not in (".json", ".yaml"):
            raise InputError.of(
                "path", self._path, "a name that ends in .json or .yaml; runtimes read no others"
            )
        for folder in self._folders:
            if not folder.startswith("/"):
                raise InputError.of("library_folders", folder, "absolute paths")

    def observe(self) -> Observed:
        """Read the file and, where it is wanted, the GPUs and the driver's files."""
        text = self._host.read(self._path)
        if not self._present:
            return Observed(text, Wanted())
        try:
            with open_nvml(self._files.nvml_library()) as nvml:
                if self._check_mode:
                    return self._look(text, nvml)
                # A layout that is being changed would be described half.
                with self._host.lock(LOCK, timeout=LOCK_SECONDS):
                    return self._look(text, nvml)
        except NvmlError as error:
            if self._check_mode:
                return Observed(text, None)
            error.hint = "bring up the driver first (gpu.node.nvidia_driver)"
            raise

    def _look(self, text: t.Optional[str], nvml: Nvml) -> Observed:
        version = nvml.driver_version()
        gpus, migs, warnings = _read_gpus(nvml)
        nodes = self._files.device_nodes()
        found, left_out = cdi.devices(gpus, migs, self._files.mig_minors(), nodes)
        warnings += left_out
        if not found:
            warnings.append(
                "no GPU of this node can be given to containers: there is no CDI specification"
            )
            return Observed(text, Wanted(driver_version=version), tuple(warnings))
        hook, note = self._hook()
        files = self._files.read(version)
        folders = self._folders or [self._files.default_folder()]
        layout = cdi.Layout(tuple(folders), self._files.root, hook)
        spec = cdi.build(found, nodes, files, layout)
        warnings += [*note, *_lacking(nodes, files, version), *self._rivals()]
        names = tuple(one["name"] for one in spec["devices"])
        wanted = Wanted(cdi.render(spec), names, spec["cdiVersion"], version, hook)
        return Observed(text, wanted, tuple(warnings))

    def _hook(self) -> t.Tuple[str, t.List[str]]:
        """Return the hook program, if there is one to use, and what to say of one that is not."""
        for name in cdi.HOOK_PROGRAMS if self._hooks == "auto" else ():
            path = self._host.which(name)
            if path is None:
                continue
            version = cdi.hook_version(self._host.run([path, "--version"], check=False).out)
            if version is not None and version >= cdi.HOOK_MINIMUM:
                return path, []
            told = ".".join(map(str, version)) if version else "unknown"
            least = ".".join(map(str, cdi.HOOK_MINIMUM))
            return "", [
                f"{path} is not used: its version is {told}, and before {least} containers could break out "
                "through it. Libraries are mounted without it. Next step: upgrade the NVIDIA container toolkit"
            ]
        return "", []

    def _rivals(self) -> t.List[str]:
        """Name other files that describe the same devices."""
        own = posixpath.dirname(self._path)
        paths = [
            f"{folder}/{name}"
            for folder in dict.fromkeys((own, *SPEC_FOLDERS))
            for name in self._host.listdir(folder)
            if name.endswith((".json", ".yaml"))
        ]
        return [
            f"{path} describes {cdi.KIND} too, and runtimes read both. Next step: remove it"
            for path in paths
            if path != self._path and cdi.describes_gpus(self._host.read(path) or "")
        ]

    def plan(self, state: Observed) -> Plan:
        """Plan to write the file, or to remove it."""
        text, wanted = state.text, state.wanted
        if wanted is None:
            summary = f"write the node's GPUs to {self._path} once the driver is loaded"
            warning = (
                "NVML is not there yet: the devices are known only after the driver is installed"
            )
            return Plan((Step("write", summary),), text or "", "", warnings=(warning,))
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
        """Write or remove the file."""
        if step.action == "remove":
            self._host.remove(self._path)
        else:
            self._host.write(self._path, step.params["text"], mode=0o644)

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
        }


def _read_gpus(nvml: Nvml) -> t.Tuple[t.List[Gpu], t.List[MigDevice], t.List[str]]:
    """Return the GPUs that answer with their MIG devices, and a warning for each other one."""
    found, broken = nvml.gpus()
    warnings = [f"a GPU is left out: {error}" for error in broken]
    gpus: t.List[Gpu] = []
    migs: t.List[MigDevice] = []
    for gpu in found:
        try:
            migs += nvml.mig_devices(gpu)
        except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
            warnings.append(f"GPU {gpu.index} is left out: {error}")
        else:
            gpus.append(gpu)
    return gpus, migs, warnings


def _lacking(nodes: t.Container[str], files: cdi.Files, version: str) -> t.List[str]:
    notes = [
        f"{path} does not exist, and CUDA needs it. Next step: load the module (nvidia-modprobe -u -c 0)"
        for path in REQUIRED_NODES
        if path not in nodes
    ]
    if not any("libcuda.so" in one.names for one in files.libraries):
        notes.append(
            f"libcuda.so.{version} is not on this node: containers get no CUDA. "
            "Next step: install the driver's libraries (gpu.node.nvidia_driver)"
        )
    return notes
