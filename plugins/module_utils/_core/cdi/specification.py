# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification of a node's GPUs: the driver's libraries, and where containers look for them."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import typing as t

from ..errors import NodeError
from ..gpu import CONTROL_NODES, Gpu, MigDevice, gpu_nodes, mig_nodes
from ..text import json_data
from .rules import minimum_version, problems

MAX_LINKS = 40  # as the kernel
ABIS = ("x86-64", "AArch64")
COMMON_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
AARCH64_LOADER = "/lib/ld-linux-aarch64.so.1"
# Names that programs open although no package of the driver has to have them.
ALIASES = {
    "libcuda": ["libcuda.so"],
    "libnvidia-opticalflow": ["libnvidia-opticalflow.so"],
    "libGLX_nvidia": ["libGLX_indirect.so.0"],
}
# The one library of the driver that has a version of its own.
OWN_VERSION = "libnvidia-nvvm70.so."

Pair = t.Tuple[str, str]


class Library(t.NamedTuple):
    """A library: its file, links resolved, and all names that lead to it, its own included."""

    path: str
    names: t.Tuple[str, ...]


def parse_ldconfig(text: str) -> t.List[Pair]:
    """Return (name, path) of the 64-bit libraries from ``ldconfig -p``."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+(\S+) \(([^)]*)\) => (/.*)", line)
        if match and any(abi in match[2].split(",") for abi in ABIS):
            found.append((match[1], match[3].strip()))
    return found


def default_folder(cache: t.Iterable[Pair]) -> t.Optional[str]:
    """Return the distribution's own library folder: the one that has the C library."""
    for name, path in cache:
        if name == "libc.so.6":
            folder = posixpath.dirname(path)
            return folder if folder.startswith("/usr/") else f"/usr{folder}"
    return None


def search_folders(cache: t.Iterable[Pair]) -> t.List[str]:
    """Return the folders where packages of the driver keep libraries."""
    own = default_folder(cache)
    folders = [own] if own else list(COMMON_FOLDERS)
    return [f"{folder}{sub}" for folder in folders for sub in ("", "/nvidia/current", "/nvidia")]


def image_folders(own: str, *, aarch64: bool) -> t.Tuple[str, ...]:
    """Return where the loaders of images look: the folder of the node's distribution, and that of the others.

    Those of the Debian family look in the multiarch folder and not in lib64, those of the RPM
    distributions the other way round.
    """
    return tuple(dict.fromkeys((own, COMMON_FOLDERS[aarch64], COMMON_FOLDERS[2])))


def is_driver_library(name: str, version: str) -> bool:
    """Tell whether a file's name is that of a library of this version of the driver."""
    own = name.startswith(OWN_VERSION) or name.endswith(f".so.{version}")
    return name.startswith("lib") and own


def stem(name: str) -> str:
    """Return a library's name without what follows the dot: libcuda of libcuda.so.1."""
    return name.partition(".so")[0]


def resolve(path: str, readlink: t.Callable[[str], t.Optional[str]]) -> t.Optional[str]:
    """Follow all links on a path, those of folders too; None where they go in circles.

    Absolute targets start again at the top that ``readlink`` knows, so a folder can stand for /.
    """
    todo, done, links = path.split("/")[::-1], [""], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1] or [""]
            continue
        target = readlink("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        if target.startswith("/"):
            done = [""]
        todo += target.split("/")[::-1]
    return "/".join(done) or "/"


def collect(found: t.Iterable[Pair]) -> t.List[Library]:
    """Gather (file, name) pairs into libraries, in the order in which the files come up first."""
    names: t.Dict[str, t.Set[str]] = {}
    for path, name in found:
        names.setdefault(path, {posixpath.basename(path)}).add(name)
    for path, known in names.items():
        known.update(ALIASES.get(stem(posixpath.basename(path)), ()))
    return [Library(path, tuple(sorted(known))) for path, known in names.items()]


def under_all_names(libraries: t.Iterable[Library], folders: t.Iterable[str]) -> t.List[Pair]:
    """Return (host, container) paths that show each library under each of its names in each folder.

    A mounted file is one and the same library to the loader under all of its names, so this does
    what links would do, in folders where the loader looks without a cache.
    """
    placed: t.Dict[str, str] = {}
    for folder, library in itertools.product(folders, libraries):
        for name in library.names:
            placed.setdefault(f"{folder.rstrip('/')}/{name}", library.path)
    return sorted((host, container) for container, host in placed.items())


def in_place(libraries: t.Iterable[Library]) -> t.Tuple[t.List[Pair], t.List[Pair]]:
    """Return (host, container) paths where each library keeps its place, and (target, link) pairs."""
    mounts: t.List[Pair] = []
    links: t.Dict[str, str] = {}
    for library in libraries:
        folder, own = posixpath.split(library.path)
        mounts.append((library.path, library.path))
        for name in library.names:
            if name != own:
                links.setdefault(f"{folder}/{name}", own)
    return sorted(mounts), sorted((target, link) for link, target in links.items())


KIND = "nvidia.com/gpu"
# Legacy hooks of NVIDIA's leave a container alone that says so; it has got its devices already.
ENVIRONMENT = "NVIDIA_VISIBLE_DEVICES=void"
FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
BINARIES = tuple(
    f"nvidia-{one}"
    for one in ("smi", "debugdump", "persistenced", "cuda-mps-control", "cuda-mps-server")
)
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")

Edits = t.Dict[str, t.Any]


class Device(t.NamedTuple):
    """Something that a container can ask for: its names, and its device nodes."""

    names: t.Tuple[str, ...]
    nodes: t.Tuple[str, ...]


class Files(t.NamedTuple):
    """The driver's files. ``binaries`` are (file, path in the container); paths start at the root."""

    libraries: t.Tuple[Library, ...] = ()
    binaries: t.Tuple[t.Tuple[str, str], ...] = ()
    sockets: t.Tuple[str, ...] = ()


class Layout(t.NamedTuple):
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
    entries.append(("all", tuple(dict.fromkeys(path for one in found for path in one.nodes))))
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
    edits: Edits = {"env": [ENVIRONMENT]}
    control = [path for path in CONTROL_NODES if path in nodes]
    if control:
        edits["deviceNodes"] = _nodes(control, layout)
    if layout.hook:
        libraries, links = in_place(files.libraries)
        edits["hooks"] = _hooks(layout.hook, libraries, links)
    else:
        libraries = under_all_names(files.libraries, layout.folders)
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
