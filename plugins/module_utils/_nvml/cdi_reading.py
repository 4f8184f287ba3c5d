# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Read what a CDI specification needs to know, and compute the one that the node should have."""

from __future__ import annotations

import typing as t

from .._core.cdi import specification as cdi
from .._core.cdi.generated import NVIDIA_CTK, arguments, check_program, parse
from .._core.cdi.sources import check
from .._core.cdi.wanted import Machine, Options, Wanted, choose_hook, lacking, rivals
from .._core.gpu import Gpu, MigDevice, NvmlError
from .api import Nvml


def look(nvml: Nvml, machine: Machine, options: Options) -> t.Tuple[Wanted, t.Tuple[str, ...]]:
    """Return the wanted specification, and warnings."""
    version = nvml.driver_version()
    gpus, migs, warnings = _read_gpus(nvml)
    nodes = machine.device_nodes()
    found, left_out = cdi.devices(gpus, migs, machine.mig_minors(), nodes)
    warnings += left_out
    if not found:
        warnings.append(
            "no GPU of this node can be given to containers: there is no CDI specification"
        )
        return Wanted(driver_version=version), tuple(warnings)
    if options.generator == NVIDIA_CTK:
        warnings += rivals(machine.others(options.path))
        return _by_toolkit(machine, version), tuple(warnings)
    hook, note = choose_hook(machine.hook() if options.hooks == "auto" else None)
    files = machine.read(version)
    folders = options.library_folders or (machine.default_folder(),)
    spec = cdi.build(found, nodes, files, cdi.Layout(folders, machine.root, hook))
    check(spec, machine.open_folder)
    warnings += [
        *note,
        *lacking(nodes, files, version),
        *rivals(machine.others(options.path)),
    ]
    names = tuple(one["name"] for one in spec["devices"])
    wanted = Wanted(cdi.render(spec), names, spec["cdiVersion"], version, hook)
    return wanted, tuple(warnings)


def _by_toolkit(machine: Machine, version: str) -> Wanted:
    """Return what nvidia-ctk writes for the driver that answers."""
    path = check_program(machine.toolkit())
    spec = parse(machine.generate([path, *arguments(machine.root)]), path)
    check(spec, machine.open_folder)
    names = tuple(one["name"] for one in spec["devices"])
    return Wanted(cdi.render(spec), names, spec["cdiVersion"], version, path)


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
