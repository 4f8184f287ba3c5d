# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that a node should have, and what there is to say about it."""

from __future__ import annotations

import typing as t

from ..device_nodes import CONTROL_NODES
from ..gpu import Inventory
from ..toolkit.version import MINIMUM_TEXT, is_safe, told
from . import specification as cdi
from .generated import NVIDIA_CTK, NVML, arguments, check_program, parse
from .sources import check

REQUIRED_NODES = CONTROL_NODES[:2]


class Options(t.NamedTuple):
    """What a user chooses: see the options of gpu.node.cdi."""

    path: str
    hooks: str = "auto"
    library_folders: t.Tuple[str, ...] = ()
    driver_root: str = "/"
    generator: str = NVML


class Wanted(t.NamedTuple):
    """The specification that the node should have; an empty text where it has no device."""

    text: str = ""
    devices: t.Tuple[str, ...] = ()
    cdi_version: str = ""
    driver_version: str = ""
    hook: str = ""


class Machine(t.Protocol):
    """What is read of the machine, beside what NVML tells."""

    root: str

    def device_nodes(self) -> t.FrozenSet[str]:
        """Return NVIDIA's device nodes that exist."""

    def mig_minors(self) -> t.Dict[str, int]:
        """Return the capabilities' minors."""

    def default_folder(self) -> str:
        """Return the library folder of the distribution."""

    def read(self, version: str) -> cdi.Files:
        """Return the files of this version of the driver."""

    def hook(self) -> t.Optional[t.Tuple[str, str]]:
        """Return the path of the hook program, if there is one, and what it tells of its version."""

    def toolkit(self) -> t.Optional[t.Tuple[str, str]]:
        """Return the path of nvidia-ctk, if it is there, and what it tells of its version."""

    def generate(self, argv: t.Sequence[str]) -> str:
        """Return what nvidia-ctk writes."""

    def open_folder(self, path: str) -> str:
        """Return a folder on the way to a path of the node that everybody may write to, if there is one."""

    def others(self, path: str) -> t.Dict[str, str]:
        """Return the text of all other specifications by their paths."""


def specify(
    found: Inventory, machine: Machine, options: Options
) -> t.Tuple[Wanted, t.Tuple[str, ...]]:
    """Return the wanted specification, and warnings."""
    version = found.driver_version
    warnings = [f"a GPU is left out: {error}" for error in found.broken]
    warnings += [f"GPU {one.gpu.index} is left out: {one.error}" for one in found.gpus if one.error]
    whole = [one for one in found.gpus if not one.error]
    migs = [mig for one in whole for mig in one.migs]
    nodes = machine.device_nodes()
    gpus = [one.gpu for one in whole]
    devices, left_out = cdi.devices(gpus, migs, machine.mig_minors(), nodes)
    warnings += left_out
    if not devices:
        warnings.append(
            "no GPU of this node can be given to containers: there is no CDI specification"
        )
        return Wanted(driver_version=version), tuple(warnings)
    if options.generator == NVIDIA_CTK:
        warnings += _rivals(machine.others(options.path))
        return _by_toolkit(machine, version), tuple(warnings)
    hook, note = _choose_hook(machine.hook() if options.hooks == "auto" else None)
    files = machine.read(version)
    folders = options.library_folders or (machine.default_folder(),)
    spec = cdi.build(devices, nodes, files, cdi.Layout(folders, machine.root, hook))
    warnings += [
        *note,
        *_missing(nodes, files, version),
        *_rivals(machine.others(options.path)),
    ]
    return _checked(spec, machine, version, hook), tuple(warnings)


def _by_toolkit(machine: Machine, version: str) -> Wanted:
    """Return what nvidia-ctk writes for the driver that answers."""
    path = check_program(machine.toolkit())
    spec = parse(machine.generate([path, *arguments(machine.root)]), path)
    return _checked(spec, machine, version, path)


def _checked(spec: t.Dict[str, t.Any], machine: Machine, version: str, hook: str) -> Wanted:
    check(spec, machine.open_folder)
    names = tuple(one["name"] for one in spec["devices"])
    return Wanted(cdi.render(spec), names, spec["cdiVersion"], version, hook)


def _choose_hook(found: t.Optional[t.Tuple[str, str]]) -> t.Tuple[str, t.List[str]]:
    """Return the hook program, if there is one to use, and what to say of one that is not."""
    if found is None:
        return "", []
    path, text = found
    if is_safe(text):
        return path, []
    return "", [
        f"{path} is not used: its version is {told(text)}, and before {MINIMUM_TEXT} containers could "
        "break out through it. Libraries are mounted without it. Next step: upgrade the NVIDIA container toolkit"
    ]


def _rivals(others: t.Mapping[str, str]) -> t.List[str]:
    """Name other files that describe the same devices."""
    return [
        f"{path} describes {cdi.KIND} too, and runtimes read both. Next step: remove it"
        for path, text in others.items()
        if cdi.describes_gpus(text)
    ]


def _missing(nodes: t.Container[str], files: cdi.Files, version: str) -> t.List[str]:
    """Name what CUDA in containers will miss."""
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
