# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification of a node's GPUs: what can be asked for, and what containers get with it."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import typing as t

from .._base.errors import NodeError
from .._base.gpu import CONTROL_NODES, Gpu, MigDevice, gpu_nodes, mig_nodes
from .._base.linker import COMPAT32_FOLDERS, Pair
from .._base.text import json_data
from .libraries import Library, in_place, under_all_names
from .rules import minimum_version, problems

KIND = "nvidia.com/gpu"
# Legacy hooks of NVIDIA's leave a container alone that says so; it has got its devices already.
ENVIRONMENT = "NVIDIA_VISIBLE_DEVICES=void"
FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")

GRAPHICS = "gfx"  # in the name of a MIG profile

Edits = t.Dict[str, t.Any]
Item = t.TypeVar("Item")


class Drm(t.NamedTuple):
    """How a GPU is drawn with: its nodes in /dev/dri, and (target, link) of those that name them by their place."""

    nodes: t.Tuple[str, ...] = ()
    links: t.Tuple[Pair, ...] = ()


class Device(t.NamedTuple):
    """Something that a container can ask for: its names, its device nodes, and what it is drawn with."""

    names: t.Tuple[str, ...]
    nodes: t.Tuple[str, ...]
    drm: Drm = Drm()


class Files(t.NamedTuple):
    """The driver's files; ``binaries`` and ``further`` are (file, path in the container). Paths start at the root."""

    libraries: t.Tuple[Library, ...] = ()
    binaries: t.Tuple[Pair, ...] = ()
    sockets: t.Tuple[str, ...] = ()
    further: t.Tuple[Pair, ...] = ()
    compat32: t.Tuple[Library, ...] = ()


class Layout(t.NamedTuple):
    """How files get into containers.

    ``root`` is where the driver's / is on the node, ``folders`` is where containers look for
    libraries, ``hook`` is the program that makes links and the loader's cache, if there is one.
    ``calls`` are more things that it is to do.
    """

    folders: t.Tuple[str, ...]
    root: str = ""
    hook: str = ""
    calls: t.Tuple[t.Tuple[str, ...], ...] = ()


def devices(
    gpus: t.Iterable[Gpu],
    migs: t.Iterable[MigDevice],
    minors: t.Mapping[str, int],
    nodes: t.Container[str],
    drm: t.Mapping[str, Drm],
) -> t.Tuple[t.List[Device], t.List[str]]:
    """Return what containers can ask for, and why something is left out.

    ``nodes`` are the device nodes that exist, ``drm`` those to draw with by the UUIDs of GPUs. A GPU in MIG
    mode is there by its MIG devices only, and of those few can draw.
    """
    devices_: t.List[Device] = []
    left_out: t.List[str] = []
    by_index = sorted(migs, key=lambda mig: mig.mig_index)
    for gpu in sorted(gpus, key=lambda mig: mig.index):
        if not gpu.mig_current:
            names, own = (str(gpu.index), gpu.uuid), drm.get(gpu.uuid, Drm())
            devices_.append(Device(names, gpu_nodes(gpu), own))
            continue
        parts = [mig for mig in by_index if mig.gpu_uuid == gpu.uuid]
        if not parts:
            why = "it is in MIG mode and has no MIG devices"
            left_out.append(f"GPU {gpu.index} is left out: {why}")
        for mig in parts:
            try:
                paths = mig_nodes(gpu, mig, minors)
            except NodeError as error:
                left_out.append(f"{gpu.index}:{mig.mig_index} is left out: {error}")
                continue
            own = drm.get(gpu.uuid, Drm()) if GRAPHICS in mig.profile else Drm()
            devices_.append(Device((f"{gpu.index}:{mig.mig_index}", mig.uuid), paths, own))
    usable = []
    for device in devices_:
        missing = [path for path in device.nodes if path not in nodes]
        if missing:
            left_out.append(f"{device.names[0]} is left out: {missing[0]} does not exist")
        else:
            usable.append(device)
    return usable, left_out


def build(
    described: t.Sequence[Device], nodes: t.Container[str], files: Files, layout: Layout
) -> t.Dict[str, t.Any]:
    """Return the specification; there must be a device at least."""
    drm = Drm(
        _once(device.drm.nodes for device in described),
        _once(device.drm.links for device in described),
    )
    whole = Device(("all",), _once(device.nodes for device in described), drm)
    entries = [
        (name, _device(device, layout)) for device in (*described, whole) for name in device.names
    ]
    spec: t.Dict[str, t.Any] = {
        "cdiVersion": "",
        "kind": KIND,
        "devices": [{"name": name, "containerEdits": edits} for name, edits in entries],
        "containerEdits": _common(nodes, files, layout),
    }
    spec["cdiVersion"] = minimum_version(spec)
    wrong = problems(spec)
    if wrong:
        hint = "report it with the output of gpu.node.gpu_info"
        raise NodeError("the CDI specification is not valid", cause="; ".join(wrong), hint=hint)
    return spec


def _once(parts: t.Iterable[t.Iterable[Item]]) -> t.Tuple[Item, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))


def _device(device: Device, layout: Layout) -> Edits:
    pairs = [(node, node) for node in (*device.nodes, *device.drm.nodes)]
    if layout.hook or not device.drm.links:
        edits: Edits = {"deviceNodes": _nodes(pairs, layout)}
        if device.drm.links:
            edits["hooks"] = [_hook(layout.hook, "create-symlinks", *_links(device.drm.links))]
        return edits
    # A node may have two names, and nothing but a hook makes links.
    for target, link in device.drm.links:
        pairs.append((posixpath.normpath(posixpath.join(posixpath.dirname(link), target)), link))
    return {"deviceNodes": _nodes(pairs, layout)}


def _nodes(pairs: t.Iterable[Pair], layout: Layout) -> t.List[Edits]:
    """Return the nodes that are (on the node, in the container)."""
    # Without m, a container cannot make the node again somewhere else.
    return [
        {
            "path": inside,
            **({"hostPath": layout.root + path} if layout.root or path != inside else {}),
            "permissions": "rw",
        }
        for path, inside in pairs
    ]


def _common(nodes: t.Container[str], files: Files, layout: Layout) -> Edits:
    edits: Edits = {"env": [ENVIRONMENT]}
    control = [(path, path) for path in CONTROL_NODES if path in nodes]
    if control:
        edits["deviceNodes"] = _nodes(control, layout)
    if layout.hook:
        libraries, links = in_place((*files.libraries, *files.compat32))
        edits["hooks"] = _hooks(layout, libraries, links)
    else:
        libraries = under_all_names(files.libraries, layout.folders)
        libraries += under_all_names(files.compat32, COMPAT32_FOLDERS)
    mounts = [
        {"hostPath": layout.root + host, "containerPath": inside, "options": list(options)}
        for options, pairs in (
            (FILE_OPTIONS, (*libraries, *files.binaries, *files.further)),
            (SOCKET_OPTIONS, [(path, path) for path in files.sockets]),
        )
        for host, inside in pairs
    ]
    if mounts:
        edits["mounts"] = sorted(mounts, key=lambda mount: str(mount["containerPath"]))
    return edits


def _hooks(layout: Layout, mounts: t.Sequence[Pair], links: t.Sequence[Pair]) -> t.List[Edits]:
    calls: t.List[t.Sequence[str]] = []
    if links:
        calls.append(["create-symlinks", *_links(links)])
    calls += layout.calls
    folders = sorted({posixpath.dirname(container) for _host, container in mounts})
    if folders:
        folder_args = [("--folder", folder) for folder in folders]
        calls.append(["update-ldcache", *itertools.chain(*folder_args)])
    calls.append(["disable-device-node-modification"])
    return [_hook(layout.hook, *call) for call in calls]


def _links(pairs: t.Iterable[Pair]) -> t.Iterator[str]:
    return itertools.chain.from_iterable(("--link", f"{target}::{link}") for target, link in pairs)


def _hook(program: str, *args: str) -> Edits:
    name = posixpath.basename(program)
    first = [name, "hook"] if name == "nvidia-ctk" else [name]
    return {"hookName": "createContainer", "path": program, "args": [*first, *args]}


def render(spec: t.Mapping[str, t.Any]) -> str:
    """Return the text of a specification. It is JSON, and with that YAML too."""
    return _dump(spec)


def names_in(text: t.Optional[str]) -> t.Optional[t.List[str]]:
    """Return the device names of a specification that we wrote; None where it is somebody else's."""
    try:
        return [device["name"] for device in json_data.loads(text or '{"devices": []}')["devices"]]
    except (ValueError, KeyError, TypeError):
        return None


def is_ours(text: t.Optional[str]) -> bool:
    """Return whether a text is a specification in the very form that this collection writes."""
    if not text or names_in(text) is None or not describes_gpus(text):
        return False
    return text == _dump(json_data.loads(text))


def _dump(spec: t.Any) -> str:
    return json.dumps(spec, indent=2) + "\n"


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths lead to one file."""
    return resolved(path) == resolved(other)


def resolved(path: str) -> str:
    """Return the one spelling of a path; /var/run is a link to /run."""
    path = posixpath.normpath(path)
    return path[len("/var") :] if path.startswith("/var/run/") else path


def describes_gpus(text: str) -> bool:
    """Return whether a specification, in JSON or YAML, is about the same kind of devices."""
    form = rf"""\bkind["']?\s*:\s*["']?{re.escape(KIND)}["']?\s*(,|\}}|#|$)"""
    return re.search(form, text, re.M) is not None
