# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that a node should have, from what NVML and the driver's own files tell.

Container runtimes merge several of one kind device by device, as CDI's cache does it: the folder that is read later
wins for each device, and what two files of one folder have is nobody's. One that followed files which installed
packages have lost would take them from containers.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import CONTROL_NODES, Inventory
from ..._base.services.driver import MAKE_NODES
from ..._base.text import json_data
from ..._base.toolkit import MINIMUM_TEXT, described, is_safe, number
from ..._machine.host import Host
from .. import specification
from ..boot import Options
from ..capabilities import chosen, draws
from ..generated import NVIDIA_CTK, arguments, check_program, parse, unchecked
from ..rules import HOOK_PROGRAMS, check
from ..specification import KIND, describes_gpus
from .driver_files import DriverFiles

RANKS = {"/etc/cdi": 0, "/var/run/cdi": 1, "/run/cdi": 1}
YAML_NAME = re.compile(r"^[\s-]*name\s*:\s*[\"']?([^\"'\s#]+)", re.M)

# What reinstalls packages, by the program that does it. Debian has the others too.
REINSTALL = {
    "apt-get": "apt-get install --reinstall",
    "zypper": "zypper install --force",
    "dnf": "dnf reinstall",
}

# What dpkg-query says of a file that somebody has moved by dpkg-divert; a package's own diversions are no mistake.
DIVERTED = re.compile(r"^local diversion from: (/.*)$", re.M)
PROFILES = (1, 20, 0)  # the toolkit's first version that knows the hook

Calls = t.Tuple[t.Tuple[str, ...], ...]


class DesiredSpecification(t.NamedTuple):
    """The specification that the node should have; an empty text where it has no device."""

    text: str = ""
    devices: t.Tuple[str, ...] = ()
    cdi_version: str = ""
    driver_version: str = ""
    hook: str = ""


def specify(
    node: Inventory, machine: DriverFiles, options: Options
) -> t.Tuple[DesiredSpecification, t.Tuple[str, ...]]:
    """Return the desired specification, and warnings."""
    version = node.driver_version
    warnings = [f"a GPU is left out: {error}" for error in node.broken]
    warnings += [f"GPU {gpu.gpu.index} is left out: {gpu.error}" for gpu in node.gpus if gpu.error]
    whole = [gpu for gpu in node.gpus if not gpu.error]
    nodes, capabilities = machine.device_nodes(), chosen(options.capabilities)
    devices, left_out = specification.list_devices(
        [row.gpu for row in whole],
        [mig for row in whole for mig in row.migs],
        machine.mig_minors(),
        nodes,
        {row.gpu.uuid: machine.drm(row.gpu.pci_bus_id) for row in whole if draws(capabilities)},
    )
    warnings += left_out
    if not devices:
        warnings.append(
            "no GPU of this node can be given to containers: there is no CDI specification"
        )
        return DesiredSpecification(driver_version=version), tuple(warnings)
    if options.generator == NVIDIA_CTK:
        hook = check_program(machine.program(NVIDIA_CTK))
        spec = parse(machine.generate([hook, *arguments(machine.root)]), hook)
        warnings += unchecked(spec, hook)
    else:
        (hook, calls), notes = _hook(machine, options, version)
        files = machine.read(version, capabilities)
        folders = options.library_folders or machine.image_folders()
        spec = specification.build_specification(
            devices, nodes, files, specification.Layout(folders, machine.root, hook, calls)
        )
        warnings += [*notes, *_missing(nodes, files, version, "compute" in capabilities)]
    check(spec, machine.open_folder)
    names = tuple(device["name"] for device in spec["devices"])
    warnings += rivals(options.path, names, machine.other_specifications(options.path))
    text = specification.render(spec)
    desired = DesiredSpecification(text, names, spec["cdiVersion"], version, hook)
    return desired, tuple(warnings)


def lost_files(host: Host, before: t.Optional[str], desired: str) -> t.Optional[NodeError]:
    """Return the refusal of a specification that loses files which installed packages have, None if it loses none.

    A package manager is asked only where a file is gone.
    """
    if before == desired or not desired:
        return None
    named = files_named(before) - files_named(desired)
    gone = sorted(path for path in named if not host.exists(path))
    if not gone:
        return None
    manager = next((path for path in REINSTALL if host.which(path)), "")
    owners = (_owners_by_dpkg if manager == "apt-get" else _owners_by_rpm)(host, gone)
    if not (owners and manager):
        return None
    lost = ", ".join(f"{path} ({name})" for path, name in sorted(owners.items()))
    message = f"files of installed packages are gone: {lost}"
    cause = "the CDI specification, and containers with it, would lose them"
    again = f"{REINSTALL[manager]} {' '.join(sorted(set(owners.values())))}"
    asked = [name for path in owners for name in aliases(path)] if manager == "apt-get" else []
    argv = ["dpkg-query", "-S", *asked]
    diverted = DIVERTED.findall(host.run(argv, check=False).out) if asked else []
    if diverted:  # a reinstallation would put them where they are now
        moved = "; ".join(f"dpkg-divert --rename --remove {path}" for path in diverted)
        again = f"dpkg-divert has moved {'it' if len(diverted) == 1 else 'them'}: {moved}"
    return NodeError(message, cause=cause, hint=f"{again}, then run again")


def lost_nodes(
    host: Host, before: t.Optional[str], desired: str, root: str
) -> t.Optional[NodeError]:
    """Return the refusal of a specification that loses device nodes which all GPUs share, None if it loses none."""
    if not desired:
        return None
    nodes = _shared_nodes(before) - _shared_nodes(desired)
    gone = sorted(path for path in nodes if not host.exists(root + path))
    if not gone:
        return None
    return NodeError(
        f"device nodes that all GPUs share are gone: {', '.join(gone)}",
        cause="the CDI specification, and containers with it, would lose them",
        hint=f"{MAKE_NODES}, then run again",
    )


def _shared_nodes(text: t.Optional[str]) -> t.FrozenSet[str]:
    """Return which device nodes that all GPUs share a specification of ours names."""
    edits = json_data.table(json_data.table_in(text).get("containerEdits"))
    paths = (node.get("path") for node in json_data.rows(edits.get("deviceNodes")))
    # nvidia-modeset comes and goes with a module that CUDA does not need.
    return frozenset(CONTROL_NODES[:3]) & frozenset(map(str, paths))


def _owners_by_dpkg(host: Host, paths: t.Sequence[str]) -> t.Dict[str, str]:
    asked = [name for path in paths for name in aliases(path)]
    owners = by_dpkg(host.run(["dpkg-query", "-S", *asked], check=False).out)
    if not owners:
        return {}
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\\n", *set(owners.values())]
    rows = (line.split() for line in host.run(argv, check=False).out.splitlines())
    there = {row[1].partition(":")[0] for row in rows if row[0] in ("ii", "hi")}  # in order
    pairs = ((path, owners.get(name, "")) for path in paths for name in aliases(path))
    return {path: name for path, name in pairs if name in there}


def _owners_by_rpm(host: Host, paths: t.Sequence[str]) -> t.Dict[str, str]:
    owners = {}
    for path in paths:
        argv = ["rpm", "-qf", "--qf", "%{NAME}\\n", *aliases(path)]
        # Of a path that is no package's it says so in words.
        lines = host.run(argv, check=False).out.splitlines()
        owners[path] = next((line for line in lines if line.split() == [line]), "")
    return {path: name for path, name in owners.items() if name}


def _hook(
    machine: DriverFiles, options: Options, version: str
) -> t.Tuple[t.Tuple[str, Calls], t.List[str]]:
    """Return the hook program, if there is one to use, with its further calls, and warnings."""
    path, text = machine.program(*HOOK_PROGRAMS) or ("", "")
    if not path or options.hooks != "auto":
        return ("", ()), []
    if not is_safe(text):
        note = (
            f"{path} is not used: its version is {described(text)}, and before {MINIMUM_TEXT} containers could "
            "break out through it. Libraries are mounted without it. Next step: upgrade the NVIDIA container toolkit"
        )
        return ("", ()), [note]
    calls: Calls = (("enable-cuda-compat", f"--host-driver-version={version}"),)
    if draws(chosen(options.capabilities)) and (number(text) or ()) >= PROFILES:
        calls += (("update-application-profile",),)
    return (path, calls), []


def _missing(
    nodes: t.Container[str], files: specification.Files, version: str, computes: bool
) -> t.List[str]:
    notes = [
        f"{path} does not exist, and CUDA needs it. Next step: load the module (nvidia-modprobe -u -c 0)"
        for path in CONTROL_NODES[:2]
        if path not in nodes
    ]
    if computes and not any("libcuda.so" in library.names for library in files.libraries):
        notes.append(
            f"libcuda.so.{version} is not on this node: containers get no CUDA. "
            "Next step: install the driver's libraries (gpu.node.nvidia_driver)"
        )
    return notes


def files_named(text: t.Optional[str]) -> t.FrozenSet[str]:
    """Return the files of the node that a specification of ours names, without sockets, which services make."""
    try:
        spec = json_data.loads(text or "{}")
        edits = [spec.get("containerEdits", {})]
        edits += [device["containerEdits"] for device in spec.get("devices", ())]
        paths = [mount["hostPath"] for each in edits for mount in each.get("mounts", ())]
        paths += [hook["path"] for each in edits for hook in each.get("hooks", ())]
    except json_data.MISREAD:
        return frozenset()
    sockets = ("/run/", "/var/run/")
    return frozenset(path for path in map(str, paths) if not path.startswith(sockets))


def aliases(path: str) -> t.Tuple[str, ...]:
    """Return the paths by which a package may know a file: /lib and /usr/lib were two folders when some were made."""
    return (path, path[len("/usr") :]) if path.startswith("/usr/") else (path,)


def by_dpkg(output: str) -> t.Dict[str, str]:
    """Return the package of each path that dpkg-query -S has found."""
    diversions = ("diversion ", "local diversion ")
    lines = (line.split(": ", 1) for line in output.splitlines() if not line.startswith(diversions))
    pairs = (line for line in lines if len(line) == 2)
    return {path: names.split(",")[0].partition(":")[0] for names, path in pairs}


def device_names(text: str) -> t.Set[str]:
    """Return the names of a specification's devices, as far as they can be read without a parser of YAML."""
    try:
        devices = json_data.loads(text).get("devices", ())
    except (ValueError, AttributeError):
        return set(YAML_NAME.findall(text))
    names = [device.get("name") for device in devices if isinstance(device, dict)]
    return {name for name in names if isinstance(name, str)}


def rivals(path: str, names: t.Sequence[str], texts: t.Mapping[str, str]) -> t.List[str]:
    """Return which other files take devices away, by the texts of all others; ``names`` are ours."""
    messages = []
    for other, text in texts.items():
        if not describes_gpus(text):
            continue
        known = device_names(text)
        if not known:
            messages.append(
                f"{other} describes {KIND} too, and its devices can't be read. Next step: remove it"
            )
        shared = [name for name in names if name in known]
        theirs, mine = (RANKS.get(posixpath.dirname(place), 2) for place in (other, path))
        if not shared or theirs < mine:
            continue
        result = "no container gets them, since both files are in one folder"
        if theirs > mine:
            result = f"runtimes take them from there, not from {path}"
        messages.append(
            f"{other} describes {', '.join(shared)} of {KIND} too: {result}. Next step: remove it"
        )
    return messages
