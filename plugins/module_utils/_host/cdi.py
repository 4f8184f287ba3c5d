# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that a node should have, from what NVML and the driver's files tell."""

from __future__ import annotations

import typing as t

from .._core.cdi import specification as cdi
from .._core.cdi.generated import NVIDIA_CTK, arguments, check_program, parse
from .._core.cdi.rules import HOOK_PROGRAMS
from .._core.cdi.sources import check
from .._core.cdi.wanted import Options, Wanted, choose_hook, missing, rivals
from .._core.gpu import Inventory
from .driver_files import DriverFiles


def specify(
    found: Inventory, machine: DriverFiles, options: Options
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
        warnings += rivals(machine.others(options.path))
        return _by_toolkit(machine, version), tuple(warnings)
    hook, note = choose_hook(machine.program(*HOOK_PROGRAMS) if options.hooks == "auto" else None)
    files = machine.read(version)
    folders = options.library_folders or (machine.default_folder(),)
    spec = cdi.build(devices, nodes, files, cdi.Layout(folders, machine.root, hook))
    warnings += [
        *note,
        *missing(nodes, files, version),
        *rivals(machine.others(options.path)),
    ]
    return _checked(spec, machine, version, hook), tuple(warnings)


def _by_toolkit(machine: DriverFiles, version: str) -> Wanted:
    """Return what nvidia-ctk writes for the driver that answers."""
    path = check_program(machine.program(NVIDIA_CTK))
    spec = parse(machine.generate([path, *arguments(machine.root)]), path)
    return _checked(spec, machine, version, path)


def _checked(spec: t.Dict[str, t.Any], machine: DriverFiles, version: str, hook: str) -> Wanted:
    check(spec, machine.open_folder)
    names = tuple(one["name"] for one in spec["devices"])
    return Wanted(cdi.render(spec), names, spec["cdiVersion"], version, hook)
