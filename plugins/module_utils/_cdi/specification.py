# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification of a node's GPUs: its devices, and the edits that containers get with each."""

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
# NVIDIA's legacy OCI hook leaves a container with this variable alone: CDI has injected its devices already.
ENVIRONMENT = "NVIDIA_VISIBLE_DEVICES=void"
FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")

GRAPHICS = "gfx"  # in the name of a MIG profile that can render

Edits = t.Dict[str, t.Any]
Item = t.TypeVar("Item")


class Drm(t.NamedTuple):
    """The DRM nodes of a GPU in /dev/dri, and the (target, link) pairs that name them by PCI address."""

    nodes: t.Tuple[str, ...] = ()
    links: t.Tuple[Pair, ...] = ()


class Device(t.NamedTuple):
    """A device that a container can request: its names, device nodes and DRM nodes."""

    names: t.Tuple[str, ...]
    nodes: t.Tuple[str, ...]
    drm: Drm = Drm()


class Files(t.NamedTuple):
    """The driver's files, as absolute paths below the driver's root.

    ``binaries`` and ``further`` are pairs of a file and its path in the container.
    """

    libraries: t.Tuple[Library, ...] = ()
    binaries: t.Tuple[Pair, ...] = ()
    sockets: t.Tuple[str, ...] = ()
    further: t.Tuple[Pair, ...] = ()
    compat32: t.Tuple[Library, ...] = ()


class Layout(t.NamedTuple):
    """How files get into containers.

    Attributes:
        folders: The folders in which containers look for libraries.
        root: The path of the driver's / on the node, empty if it is the node's own.
        hook: The program that creates links and the loader's cache in a container, empty if there is none.
        calls: Further subcommands of the hook, with their arguments.
    """

    folders: t.Tuple[str, ...]
    root: str = ""
    hook: str = ""
    calls: t.Tuple[t.Tuple[str, ...], ...] = ()


def list_devices(
    gpus: t.Iterable[Gpu],
    migs: t.Iterable[MigDevice],
    minors: t.Mapping[str, int],
    nodes: t.Container[str],
    drm: t.Mapping[str, Drm],
) -> t.Tuple[t.List[Device], t.List[str]]:
    """Return the devices that containers can request, and a message for each that is left out.

    A GPU in MIG mode is represented by its MIG devices alone.

    Args:
        gpus: The GPUs of the node.
        migs: Their MIG devices.
        minors: The minor numbers of MIG capabilities by their names, as the driver lists them.
        nodes: The device nodes that exist.
        drm: The DRM nodes of GPUs by UUID, empty if containers are not to render.
    """
    devices: t.List[Device] = []
    left_out: t.List[str] = []
    migs_by_index = sorted(migs, key=lambda mig: mig.mig_index)
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        gpu_drm = drm.get(gpu.uuid, Drm())
        if not gpu.mig_current:
            devices.append(Device((str(gpu.index), gpu.uuid), gpu_nodes(gpu), gpu_drm))
            continue
        migs_of_gpu = [mig for mig in migs_by_index if mig.gpu_uuid == gpu.uuid]
        if not migs_of_gpu:
            reason = "it is in MIG mode and has no MIG devices"
            left_out.append(f"GPU {gpu.index} is left out: {reason}")
        for mig in migs_of_gpu:
            name = f"{gpu.index}:{mig.mig_index}"
            try:
                paths = mig_nodes(gpu, mig, minors)
            except NodeError as error:
                left_out.append(f"{name} is left out: {error}")
                continue
            mig_drm = gpu_drm if GRAPHICS in mig.profile else Drm()
            devices.append(Device((name, mig.uuid), paths, mig_drm))
    usable = []
    for device in devices:
        missing = [path for path in device.nodes if path not in nodes]
        if missing:
            left_out.append(f"{device.names[0]} is left out: {missing[0]} does not exist")
        else:
            usable.append(device)
    return usable, left_out


def build_specification(
    devices: t.Sequence[Device], nodes: t.Container[str], files: Files, layout: Layout
) -> t.Dict[str, t.Any]:
    """Return the specification of at least one device, and of all of them as the device ``all``.

    Raises:
        NodeError: if the result breaks a rule of the format, which is an error of this collection.
    """
    all_drm = Drm(
        _unique(device.drm.nodes for device in devices),
        _unique(device.drm.links for device in devices),
    )
    all_devices = Device(("all",), _unique(device.nodes for device in devices), all_drm)
    entries = [
        (name, _device_edits(device, layout))
        for device in (*devices, all_devices)
        for name in device.names
    ]
    spec: t.Dict[str, t.Any] = {
        "cdiVersion": "",
        "kind": KIND,
        "devices": [{"name": name, "containerEdits": edits} for name, edits in entries],
        "containerEdits": _common_edits(nodes, files, layout),
    }
    spec["cdiVersion"] = minimum_version(spec)
    violations = problems(spec)
    if violations:
        raise NodeError(
            "the CDI specification is not valid",
            cause="; ".join(violations),
            hint="report it with the output of gpu.node.gpu_info",
        )
    return spec


def _unique(iterables: t.Iterable[t.Iterable[Item]]) -> t.Tuple[Item, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(iterables)))


def _device_edits(device: Device, layout: Layout) -> Edits:
    pairs = [(node, node) for node in (*device.nodes, *device.drm.nodes)]
    links = device.drm.links
    if not links:
        return {"deviceNodes": _device_nodes(pairs, layout)}
    if layout.hook:
        return {
            "deviceNodes": _device_nodes(pairs, layout),
            "hooks": [_hook(layout.hook, "create-symlinks", *_link_args(links))],
        }
    # Only a hook can create links. Without one the container gets the node a second time, under the link's name.
    for target, link in links:
        pairs.append((posixpath.normpath(posixpath.join(posixpath.dirname(link), target)), link))
    return {"deviceNodes": _device_nodes(pairs, layout)}


def _device_nodes(pairs: t.Iterable[Pair], layout: Layout) -> t.List[Edits]:
    """Return the deviceNodes for pairs of a path on the node and a path in the container."""
    return [
        {
            "path": inside,
            **({"hostPath": layout.root + path} if layout.root or path != inside else {}),
            "permissions": "rw",  # without m (mknod), so that a container can't create the node elsewhere
        }
        for path, inside in pairs
    ]


def _common_edits(nodes: t.Container[str], files: Files, layout: Layout) -> Edits:
    """Return the edits that a container gets once, whichever devices it requests."""
    edits: Edits = {"env": [ENVIRONMENT]}
    control = [(path, path) for path in CONTROL_NODES if path in nodes]
    if control:
        edits["deviceNodes"] = _device_nodes(control, layout)
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
    """Return the calls of the hook in order: the links first, since the loader's cache lists them."""
    calls: t.List[t.Sequence[str]] = []
    if links:
        calls.append(["create-symlinks", *_link_args(links)])
    calls += layout.calls
    folders = sorted({posixpath.dirname(container) for _host, container in mounts})
    if folders:
        folder_args = [("--folder", folder) for folder in folders]
        calls.append(["update-ldcache", *itertools.chain(*folder_args)])
    calls.append(["disable-device-node-modification"])
    return [_hook(layout.hook, *call) for call in calls]


def _link_args(pairs: t.Iterable[Pair]) -> t.Iterator[str]:
    return itertools.chain.from_iterable(("--link", f"{target}::{link}") for target, link in pairs)


def _hook(program: str, *args: str) -> Edits:
    name = posixpath.basename(program)
    argv = [name, "hook", *args] if name == "nvidia-ctk" else [name, *args]
    return {"hookName": "createContainer", "path": program, "args": argv}


def render(spec: t.Any) -> str:
    """Return the text of a specification: JSON, which is YAML as well."""
    return json.dumps(spec, indent=2) + "\n"


def device_names(text: t.Optional[str]) -> t.Optional[t.List[str]]:
    """Return the device names of a specification in JSON, none without a file, and None if it is not in our form."""
    try:
        return [device["name"] for device in json_data.loads(text or '{"devices": []}')["devices"]]
    except (ValueError, KeyError, TypeError):
        return None


def is_ours(text: t.Optional[str]) -> bool:
    """Return whether a text is a specification of GPUs, byte for byte as render() would write it."""
    if not text or device_names(text) is None or not describes_gpus(text):
        return False
    return text == render(json_data.loads(text))


def normalize_path(path: str) -> str:
    """Return a path without dots, and below /run if it is below /var/run, which is a link to that."""
    path = posixpath.normpath(path)
    return path[len("/var") :] if path.startswith("/var/run/") else path


def describes_gpus(text: str) -> bool:
    """Return whether a specification, in JSON or YAML, is of this KIND. It need not be valid."""
    pattern = rf"""\bkind["']?\s*:\s*["']?{re.escape(KIND)}["']?\s*(,|\}}|#|$)"""
    return re.search(pattern, text, re.M) is not None
