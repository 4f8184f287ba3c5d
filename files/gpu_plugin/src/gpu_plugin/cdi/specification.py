# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI devices of answers under the names of NVIDIA's plugin, made of the node's own specifications. Pure."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from .._shared._base.dra.names import CDI_KIND
from .._shared._base.errors import NodeError
from .._shared._base.text import json_data
from .._shared._base.text.shown import cut, shown
from .._shared._cdi.rules import DEVICE, HOOK_PROGRAMS, minimum_version, without_pipes
from ..config import plain_yaml
from ..model.inventory import KIND, VENDOR

CLAIMS_FILE: Final = CDI_KIND.replace("/", "-")
SOURCE_KIND: Final = "nvidia.com/gpu"
# What the names of our own files begin with, the DRA driver's of claims among them.
OWN: Final = (f"{VENDOR}-", CLAIMS_FILE)
FOLDERS: Final = ("etc/cdi", "var/run/cdi")  # the runtimes' own, the later wins
FILE: Final = f"var/run/cdi/{VENDOR}-gpu.json"
# Where the node has several specifications.
MORE_FILES: Final = f"var/run/cdi/{VENDOR}-gpu-{{}}.json"
LIMITS: Final = plain_yaml.Limits(1 << 20, 20_000)  # those of eight GPUs in MIG devices have 5,000


def merge(
    numbered_specs: Iterable[tuple[int, dict[str, Any]]],
) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Return the specifications of the node's GPUs with the devices that container runtimes take from each.

    ``numbered_specs`` are the node's specifications, each with the number of its folder, the one that wins
    last. As in CDI's cache the later folder wins for each device, and a device that two files of a folder
    have is not available: the names of those are returned too.
    """
    specs = [(folder, spec) for folder, spec in numbered_specs if spec.get("kind") == SOURCE_KIND]
    source: dict[str, int] = {}
    nobodys: set[str] = set()
    for number, (folder, spec) in enumerate(specs):
        for name in names([spec]):
            if name in source and specs[source[name]][0] == folder:
                nobodys.add(name)
            else:
                source[name] = number
    taken = [
        {
            **spec,
            "devices": [
                device
                for device in spec["devices"]
                if source[device["name"]] == number and device["name"] not in nobodys
            ],
        }
        for number, (_folder, spec) in enumerate(specs)
    ]
    return [spec for spec in taken if spec["devices"]], frozenset(nobodys)


def derive(
    spec: dict[str, Any], program: str = "", disabled: Collection[str] = ()
) -> dict[str, Any]:
    """Return a specification of the node under the plugin's own kind.

    Its author knows the driver's files, the MIG layout and the hooks. ``program`` takes the place of the one that
    runs NVIDIA's hooks, ``disabled`` are hooks to leave out. Pipes at MPS's default place are left out: a share of a
    device brings its own there.
    """
    own: dict[str, Any] = {**without_pipes(spec), "kind": KIND}
    if program or disabled:
        own["devices"] = [_rehooked(device, program, disabled) for device in own["devices"]]
        own = _rehooked(own, program, disabled)
    return own


def _rehooked(part: dict[str, Any], program: str, disabled: Collection[str]) -> dict[str, Any]:
    """Return a specification or one of its devices with other hooks."""
    edits = part.get("containerEdits")
    if not isinstance(edits, dict) or not isinstance(edits.get("hooks"), list):
        return part
    program_name = posixpath.basename(program)
    call = [program_name, "hook"] if program_name == "nvidia-ctk" else [program_name]
    hooks = []
    for hook in edits["hooks"]:
        args = _hook_args(hook)
        if args is None:
            hooks.append(hook)
        elif "all" not in disabled and args[0] not in disabled:
            hooks.append({**hook, "path": program, "args": [*call, *args]} if program else hook)
    remaining = {key: value for key, value in edits.items() if key != "hooks"}
    return {**part, "containerEdits": {**remaining, "hooks": hooks} if hooks else remaining}


def _hook_args(hook: object) -> list[str] | None:
    """Return the name and the arguments of one of NVIDIA's hooks, None of another's."""
    if not isinstance(hook, dict):
        return None
    raw_args = hook.get("args")
    args = [str(arg) for arg in raw_args] if isinstance(raw_args, list) else []
    name = posixpath.basename(str(hook.get("path", "")))
    if name not in HOOK_PROGRAMS and (not args or posixpath.basename(args[0]) not in HOOK_PROGRAMS):
        return None
    hook_args = args[2:] if args[1:2] == ["hook"] else args[1:]
    return hook_args or None


def added(
    kind: str, devices: Mapping[str, Mapping[str, Iterable[str]]], root: str = ""
) -> dict[str, Any] | None:
    """Return the specification of a class besides gpu, None if it has no devices.

    ``devices`` have ``nodes`` and ``mounts``, paths that are the same inside and outside; the nodes
    are below ``root`` outside.
    """
    described = []
    for name, parts in devices.items():
        nodes = [
            {"path": path, **({"hostPath": root + path} if root else {})} for path in parts["nodes"]
        ]
        mounts = [
            {"hostPath": path, "containerPath": path, "options": ["ro", "nosuid", "nodev", "rbind"]}
            for path in parts.get("mounts", ())
        ]
        edits = {"deviceNodes": nodes, **({"mounts": mounts} if mounts else {})}
        described.append({"name": name, "containerEdits": edits})
    spec = {"kind": f"{VENDOR}/{kind}", "devices": described}
    return {"cdiVersion": minimum_version(spec), **spec} if described else None


def names(specs: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return the names of all devices of specifications."""
    return frozenset(device["name"] for spec in specs for device in spec["devices"])


def needed(spec: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return by the names of devices the libraries and hooks on the host without which no container with it starts.

    Under an empty name are those of all devices. Sockets come and go with their services, so they are not needed.
    """
    result = {"": _files(spec)}
    for device in spec["devices"]:
        result[str(device["name"])] = _files(device)  # only those of GPUs are known to be text
    return result


def _files(part: Mapping[str, Any]) -> set[str]:
    edits = part.get("containerEdits")
    edits = edits if isinstance(edits, dict) else {}
    mounts = {
        path for path in _paths(edits, "mounts", "hostPath") if ".so." in posixpath.basename(path)
    }
    return mounts | {*_paths(edits, "hooks", "path")}


def _paths(edits: Mapping[str, Any], name: str, key: str) -> Iterator[str]:
    listed = edits.get(name)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            yield entry[key]


def read(text: str) -> dict[str, Any]:
    """Return a specification that anybody may have written, as JSON can hold it.

    Raises:
        NodeError: if no container runtime takes it.
    """
    try:
        spec = json_data.loads(text)
    except ValueError:
        try:
            spec = plain_yaml.load(text, LIMITS)
            json.dumps(spec, allow_nan=False)  # dates and the like are in no specification
        except (yaml.YAMLError, ValueError, TypeError) as error:
            cause = cut(str(getattr(error, "problem", None) or error))
            raise NodeError("not a CDI specification", cause=cause) from error
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        raise NodeError("not a CDI specification", cause="it has no list of devices")
    result: dict[str, Any] = spec
    if result.get("kind") == SOURCE_KIND:
        _check(result)
    return result


def _check(spec: Mapping[str, Any]) -> None:
    """Refuse a specification that container runtimes of any age refuse as a whole."""
    device_names = [device.get("name") for device in spec["devices"]]
    if not isinstance(spec.get("cdiVersion"), str):
        raise NodeError("not a CDI specification", cause="it has no cdiVersion")
    if not device_names:
        raise NodeError("not a CDI specification", cause="it has no devices")
    for name in device_names:
        if not isinstance(name, str) or not DEVICE.fullmatch(name):
            raise NodeError("not a CDI specification", cause=f"{shown(name)} is no device name")
    if len(set(device_names)) < len(device_names):
        raise NodeError("not a CDI specification", cause="it has a device twice")
