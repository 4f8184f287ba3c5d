# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification of a node's GPUs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import posixpath
import re
import typing as t

from ..errors import NodeError
from ..gpu import CONTROL_NODES, Gpu, MigDevice, gpu_nodes, mig_nodes
from ..text import json_data
from . import files as cdi_files
from .rules import minimum_version, problems

KIND = "nvidia.com/gpu"
ALL = "all"
# Legacy hooks of NVIDIA's leave a container alone that says so; it has got its devices already.
ENVIRONMENT = ("NVIDIA_VISIBLE_DEVICES=void",)
FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")

Edits = t.Dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Device:
    """Something that a container can ask for: its names, and its device nodes."""

    names: t.Tuple[str, ...]
    nodes: t.Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Files:
    """The driver's files. ``binaries`` are (file, path in the container); paths start at the root."""

    libraries: t.Tuple[cdi_files.Library, ...] = ()
    binaries: t.Tuple[t.Tuple[str, str], ...] = ()
    sockets: t.Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """How files get into containers.

    ``root`` is where the driver's / is on the node, ``folders`` is where containers look for
    libraries, ``hook`` is the program that makes links and the loader's cache, if there is one.
    """

    folders: t.Tuple[str, ...]
    root: str = ""
    hook: str = ""


def devices(
    gpus: t.Iterable[Gpu],
    migs: t.Iterable[MigDevice],
    minors: t.Mapping[str, int],
    nodes: t.Container[str],
) -> t.Tuple[t.List[Device], t.List[str]]:
    """Return what containers can ask for, and why something is left out.

    ``nodes`` are the device nodes that exist. A GPU in MIG mode is there by its MIG devices only.
    """
    found: t.List[Device] = []
    left_out: t.List[str] = []
    by_index = sorted(migs, key=lambda one: one.mig_index)
    for gpu in sorted(gpus, key=lambda one: one.index):
        if not gpu.mig_current:
            found.append(Device((str(gpu.index), gpu.uuid), gpu_nodes(gpu)))
            continue
        parts = [one for one in by_index if one.gpu_uuid == gpu.uuid]
        if not parts:
            left_out.append(
                f"GPU {gpu.index} is left out: it is in MIG mode and has no MIG devices"
            )
        for mig in parts:
            try:
                paths = mig_nodes(gpu, mig, minors)
            except NodeError as error:
                left_out.append(f"{gpu.index}:{mig.mig_index} is left out: {error}")
                continue
            found.append(Device((f"{gpu.index}:{mig.mig_index}", mig.uuid), paths))
    usable = []
    for device in found:
        missing = [path for path in device.nodes if path not in nodes]
        if missing:
            left_out.append(f"{device.names[0]} is left out: {missing[0]} does not exist")
        else:
            usable.append(device)
    return usable, left_out


def build(
    found: t.Sequence[Device], nodes: t.Container[str], files: Files, layout: Layout
) -> t.Dict[str, t.Any]:
    """Return the specification; there must be a device at least."""
    entries = [(name, one.nodes) for one in found for name in one.names]
    entries.append((ALL, tuple(dict.fromkeys(path for one in found for path in one.nodes))))
    spec: t.Dict[str, t.Any] = {
        "cdiVersion": "",
        "kind": KIND,
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": _nodes(paths, layout)}}
            for name, paths in entries
        ],
        "containerEdits": _common(nodes, files, layout),
    }
    spec["cdiVersion"] = minimum_version(spec)
    wrong = problems(spec)
    if wrong:
        raise NodeError(
            "the CDI specification is not valid",
            cause="; ".join(wrong),
            hint="report it with the output of gpu.node.gpu_info",
        )
    return spec


def _nodes(paths: t.Iterable[str], layout: Layout) -> t.List[Edits]:
    # Without m, a container cannot make the node again somewhere else.
    if layout.root:
        return [{"path": one, "hostPath": layout.root + one, "permissions": "rw"} for one in paths]
    return [{"path": one, "permissions": "rw"} for one in paths]


def _common(nodes: t.Container[str], files: Files, layout: Layout) -> Edits:
    edits: Edits = {"env": list(ENVIRONMENT)}
    control = [path for path in CONTROL_NODES if path in nodes]
    if control:
        edits["deviceNodes"] = _nodes(control, layout)
    if layout.hook:
        libraries, links = cdi_files.in_place(files.libraries)
        edits["hooks"] = _hooks(layout.hook, libraries, links)
    else:
        libraries = cdi_files.under_all_names(files.libraries, layout.folders)
    mounts = [
        {"hostPath": layout.root + host, "containerPath": inside, "options": list(options)}
        for options, pairs in (
            (FILE_OPTIONS, (*libraries, *files.binaries)),
            (SOCKET_OPTIONS, [(path, path) for path in files.sockets]),
        )
        for host, inside in pairs
    ]
    if mounts:
        edits["mounts"] = sorted(mounts, key=lambda one: str(one["containerPath"]))
    return edits


def _hooks(
    program: str, mounts: t.Sequence[t.Tuple[str, str]], links: t.Sequence[t.Tuple[str, str]]
) -> t.List[Edits]:
    name = posixpath.basename(program)
    first = [name, "hook"] if name == "nvidia-ctk" else [name]
    calls = []
    if links:
        words = [("--link", f"{target}::{link}") for target, link in links]
        calls.append(["create-symlinks", *itertools.chain(*words)])
    folders = sorted({posixpath.dirname(container) for _host, container in mounts})
    if folders:
        words = [("--folder", folder) for folder in folders]
        calls.append(["update-ldcache", *itertools.chain(*words)])
    calls.append(["disable-device-node-modification"])
    return [
        {"hookName": "createContainer", "path": program, "args": [*first, *call]} for call in calls
    ]


def render(spec: t.Mapping[str, t.Any]) -> str:
    """Return the text of a specification. It is JSON, and with that YAML too."""
    return json.dumps(spec, indent=2) + "\n"


def names_in(text: t.Optional[str]) -> t.Optional[t.List[str]]:
    """Return the device names of a specification that we wrote; None where it is somebody else's."""
    try:
        return [one["name"] for one in json_data.loads(text or '{"devices": []}')["devices"]]
    except (ValueError, KeyError, TypeError):
        return None


def describes_gpus(text: str) -> bool:
    """Tell whether a specification, in JSON or YAML, is about the same kind of devices."""
    form = rf"""\bkind["']?\s*:\s*["']?{re.escape(KIND)}["']?\s*(,|\}}|#|$)"""
    return re.search(form, text, re.M) is not None
