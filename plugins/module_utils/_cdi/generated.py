# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that nvidia-ctk writes, and how it differs from our own."""

from __future__ import annotations

import posixpath
import typing as t

from .._base.errors import NodeError
from .._base.text import json_data
from .._base.text.shown import cut, shown
from .._base.toolkit import MINIMUM_TEXT, described, is_safe
from .rules import VERSIONS, is_newer, problems, unknown_keys, without_pipes
from .specification import KIND

NVML = "nvml"
NVIDIA_CTK = "nvidia-ctk"
GENERATORS = (NVML, NVIDIA_CTK)
INSTALL = "install the NVIDIA container toolkit (gpu.node.container_toolkit)"

Spec = t.Dict[str, t.Any]
Difference = t.Dict[str, str]


def arguments(root: str) -> t.List[str]:
    """Return what nvidia-ctk is called with, for devices by the same names as ours."""
    argv = ["cdi", "generate", "--format=json"]
    argv += ["--device-name-strategy=index", "--device-name-strategy=uuid"]
    return [*argv, f"--driver-root={root}"] if root else argv


def check_program(program: t.Optional[t.Tuple[str, str]]) -> str:
    """Return the program's path.

    Raises:
        NodeError: if the program is not there or not safe to use.
    """
    if program is None:
        hint = f"{INSTALL}, or set generator to nvml, which needs no program"
        cause = "generator or compare asks for it"
        raise NodeError("nvidia-ctk is not on the node", cause=cause, hint=hint)
    path, text = program
    if not is_safe(text):
        cause = f"before {MINIMUM_TEXT} containers could break out through the hooks that it names"
        raise NodeError(f"{path} has version {described(text)}", cause=cause, hint=INSTALL)
    return path


def parse(text: str, path: str) -> Spec:
    """Return the specification that the program has written, in an order that does not change.

    Raises:
        NodeError: if it is not valid. Runtimes leave out a file as a whole if a part of it is wrong.
    """
    try:
        spec = without_pipes(json_data.loads(text))
    except ValueError as error:
        raise _bad(path, str(error)) from error
    wrong = problems(spec)
    if not wrong and spec["kind"] != KIND:
        wrong = [f"kind: {shown(spec['kind'])} is not {KIND}"]
    if wrong:
        raise _bad(path, "; ".join(map(cut, wrong[:5])))
    spec["devices"].sort(key=lambda device: str(device["name"]))
    for edits in _edits(spec).values():
        for key, field in (("deviceNodes", "path"), ("mounts", "containerPath")):
            if key in edits:
                # Folders come before what is in them; of hooks the order is the program's own.
                edits[key].sort(key=lambda device, field=field: str(device[field]))
    return t.cast(Spec, spec)


def unchecked(spec: Spec, path: str) -> t.List[str]:
    """Return the warning about a version of the format that is newer than those whose keys are known here."""
    if not is_newer(spec["cdiVersion"]):
        return []
    keys = [cut(key) for key in unknown_keys(spec)]
    suffix = f": {', '.join(keys[:5])} are not checked" if keys else ""
    return [
        f"{path} wrote version {cut(spec['cdiVersion'])} of the CDI format, and this collection knows it up to "
        f"{VERSIONS[-1]}{suffix}. Next step: see that the container runtimes know it; they leave out a file that "
        "they do not"
    ]


def _bad(path: str, cause: str) -> NodeError:
    hint = "set generator to nvml, or upgrade the NVIDIA container toolkit"
    return NodeError(f"{path} wrote no valid CDI specification", cause=cause, hint=hint)


def differences(ours: Spec, theirs: Spec) -> t.List[Difference]:
    """Return what a container gets from one specification and not from the other.

    Each difference has ``kind`` (device, node, mount, env or hook), ``name``, the ``device`` that it
    is about (empty if it is about all), and ``only`` in whose specification it is. A mount
    under another name is another mount.
    """
    mine, yours = _edits(ours), _edits(theirs)
    result = _compare("device", "", set(mine), set(yours))
    for device in sorted(set(mine) & set(yours), key=lambda your: (not your, your)):
        for kind, (key, name) in READERS.items():
            our_names, their_names = (
                set(map(name, side[device].get(key, ()))) for side in (mine, yours)
            )
            result += _compare(kind, device, our_names, their_names)
    return result


def _edits(spec: Spec) -> t.Dict[str, Spec]:
    """Return the edits of each device, and under an empty name those of all."""
    edits = {device["name"]: device["containerEdits"] for device in spec["devices"]}
    return {**edits, "": spec.get("containerEdits", {})}


def _mount(mount: Spec) -> str:
    host, container = str(mount["hostPath"]), str(mount["containerPath"])
    return container if host == container else f"{host} at {container}"


def _hook(hook: Spec) -> str:
    """Return what a hook does: the first argument that is not a program's name."""
    argv = [str(arg) for arg in hook.get("args", ())[1:] if arg != "hook"]
    return argv[0] if argv else posixpath.basename(str(hook["path"]))


READERS: t.Dict[str, t.Tuple[str, t.Callable[[t.Any], str]]] = {
    "node": ("deviceNodes", lambda node: str(node["path"])),
    "mount": ("mounts", _mount),
    "env": ("env", str),
    "hook": ("hooks", _hook),
}


def _compare(kind: str, device: str, mine: t.Set[str], yours: t.Set[str]) -> t.List[Difference]:
    only = {name: NVML if name in mine else NVIDIA_CTK for name in sorted(mine ^ yours)}
    return [
        {"what": kind, "name": name, "device": device, "only": generator}
        for name, generator in only.items()
    ]
