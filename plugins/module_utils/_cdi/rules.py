# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rules of a CDI specification: what may be in it, which version that needs, and where its files may lie."""

from __future__ import annotations

import posixpath
import re
import typing as t

from .._base.errors import NodeError
from .._base.text.json_data import is_whole, table
from .._base.text.shown import cut, shown

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
LATEST = tuple(map(int, VERSIONS[-1].split(".")))
NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
VENDOR_OR_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
NODE_TYPES = ("b", "c", "u", "p")
HOOK_PROGRAMS = ("nvidia-cdi-hook", "nvidia-ctk")  # those of NVIDIA's container toolkit
HOOKS = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]

# Keys with the shape of their values; a star means a list of it, an exclamation mark a required key.
KEYS = {
    "spec": "cdiVersion:text! kind:text! annotations:map devices:*device! containerEdits:edits",
    "device": "name:text! annotations:map containerEdits:edits!",
    "edits": "env:*text deviceNodes:*node mounts:*mount hooks:*hook intelRdt:rdt "
    "additionalGids:*number netDevices:*net",
    "node": "path:text! hostPath:text type:text major:number minor:number fileMode:number "
    "permissions:text uid:number gid:number",
    "mount": "hostPath:text! containerPath:text! options:*text type:text",
    "hook": "hookName:text! path:text! args:*text env:*text timeout:number",
    "rdt": "closID:text l3CacheSchema:text memBwSchema:text enableCMT:flag enableMBM:flag "
    "schemata:*text enableMonitoring:flag",
    "net": "hostInterfaceName:text! name:text!",
}
SHAPES = {name: dict(key.split(":") for key in keys.split()) for name, keys in KEYS.items()}
# CUDA's default place of an MPS daemon's pipes. Anybody may make it, so it is nobody's word; who has
# a share of a GPU gets its own pipes at this place from the device plugin.
PIPES = "/tmp/nvidia-mps"

Found = t.Iterator[str]
Spec = t.Dict[str, t.Any]


def minimum_version(spec: t.Mapping[str, t.Any]) -> str:
    """Return the lowest version of the format that has everything which a specification uses."""
    devices = spec.get("devices", ())
    edits = [device["containerEdits"] for device in (spec, *devices) if "containerEdits" in device]
    rdt = [edit["intelRdt"] for edit in edits if "intelRdt" in edit]
    newer = any("schemata" in technology or "enableMonitoring" in technology for technology in rdt)
    if newer or any(edit.get("netDevices") for edit in edits):
        return "1.1.0"
    if any(edit.get("intelRdt") or edit.get("additionalGids") for edit in edits):
        return "0.7.0"
    annotated = any(device.get("annotations") for device in (spec, *devices))
    if annotated or "." in spec.get("kind", "").partition("/")[2]:
        return "0.6.0"
    digits = any(not device["name"][:1].isalpha() for device in devices)
    nodes = (node for edit in edits for node in edit.get("deviceNodes", ()))
    if digits or any(node.get("hostPath") for node in nodes):
        return "0.5.0"
    if any(mount.get("type") for edit in edits for mount in edit.get("mounts", ())):
        return "0.4.0"
    return "0.3.0"


class Unknown(str):
    """What is said of a key that is in no version of the format that is known here; ``key`` is its place."""

    key: str

    def __new__(cls, key: str) -> Unknown:
        """Return the problem of a key."""
        self = super().__new__(cls, f"{key}: there is no such key")
        self.key = key
        return self


def is_newer(version: t.Any) -> bool:
    """Return whether a version of the format is newer than the known ones and compatible with them."""
    match = NUMBERS.fullmatch(version) if isinstance(version, str) else None
    numbers = tuple(map(int, match.groups())) if match else ()
    return numbers > LATEST and numbers[0] == LATEST[0]


def unknown_keys(spec: t.Any) -> t.List[str]:
    """Return the places of keys that are not known here."""
    return [problem.key for problem in _shape(spec, "spec", "") if isinstance(problem, Unknown)]


def problems(spec: t.Any) -> t.List[str]:
    """Return the violations of a specification, each with its place.

    Runtimes refuse a key that they do not know, as we do; a newer version of the format may have more of them.
    """
    violations = [*_shape(spec, "spec", "")]
    if isinstance(spec, dict) and is_newer(spec.get("cdiVersion")):
        violations = [problem for problem in violations if not isinstance(problem, Unknown)]
    # What depends on several values is looked at once each of them has its type.
    return violations or list(_rules(spec))


def _shape(value: t.Any, shape: str, at: str) -> Found:
    name = shape.strip("*!")
    if shape.startswith("*"):
        if not isinstance(value, list):
            yield f"{at}: expected a list"
            return
        for number, item in enumerate(value):
            yield from _shape(item, name, f"{at}[{number}]")
    elif name in SHAPES:
        yield from _keys(value, SHAPES[name], at)
    elif not _is(value, name):
        yield f"{at}: {shown(value)} is not a {name}"


def _keys(value: t.Any, keys: t.Mapping[str, str], at: str) -> Found:
    if not isinstance(value, dict):
        yield f"{at or 'the specification'}: expected an object"
        return
    prefix = f"{at}." if at else ""
    for key in value:
        if key not in keys:
            yield Unknown(prefix + cut(key))
    for key, shape in keys.items():
        if key in value:
            yield from _shape(value[key], shape, prefix + key)
        elif shape.endswith("!"):
            yield f"{prefix}{key}: is missing"


def _is(value: t.Any, name: str) -> bool:
    if name == "flag":
        return isinstance(value, bool)
    if name == "number":
        return is_whole(value) and value >= 0
    if name == "map":
        return isinstance(value, dict) and all(
            isinstance(text, str) for pair in value.items() for text in pair
        )
    return isinstance(value, str) and value != ""


def _rules(spec: t.Mapping[str, t.Any]) -> Found:
    version = spec["cdiVersion"]
    if version not in VERSIONS and not is_newer(version):
        yield f"cdiVersion: {shown(version)} is not one of {', '.join(VERSIONS)}"
    elif version in VERSIONS and VERSIONS.index(version) < VERSIONS.index(minimum_version(spec)):
        yield f"cdiVersion: the content needs {minimum_version(spec)}, not {version}"
    vendor, slash, kind = spec["kind"].partition("/")
    if not (slash and VENDOR_OR_CLASS.fullmatch(vendor) and VENDOR_OR_CLASS.fullmatch(kind)):
        yield f"kind: {shown(spec['kind'])} is not vendor/class"
    yield from _edits(spec.get("containerEdits", {}), "containerEdits")
    if not spec["devices"]:
        yield "devices: there must be one at least"
    seen: t.Set[str] = set()
    for number, device in enumerate(spec["devices"]):
        at, name = f"devices[{number}]", device["name"]
        if not DEVICE.fullmatch(name):
            yield f"{at}.name: {shown(name)} is not a device name"
        if name in seen:
            yield f"{at}.name: {shown(name)} is there twice"
        seen.add(name)
        if not any(device["containerEdits"].values()):
            yield f"{at}.containerEdits: must not be empty"
        yield from _edits(device["containerEdits"], f"{at}.containerEdits")


def _edits(edits: t.Mapping[str, t.Any], at: str) -> Found:
    yield from _environment(edits.get("env", ()), f"{at}.env")
    for number, node in enumerate(edits.get("deviceNodes", ())):
        if node.get("type", "c") not in NODE_TYPES:
            yield f"{at}.deviceNodes[{number}].type: {shown(node['type'])} is not one of {', '.join(NODE_TYPES)}"
        permissions = node.get("permissions", "rw")
        if permissions != "none" and set(permissions) - set("rwm"):
            yield f"{at}.deviceNodes[{number}].permissions: {shown(permissions)} is not made of r, w and m"
    for number, hook in enumerate(edits.get("hooks", ())):
        if hook["hookName"] not in HOOKS:
            yield f"{at}.hooks[{number}].hookName: {shown(hook['hookName'])} is not one of {', '.join(HOOKS)}"
        yield from _environment(hook.get("env", ()), f"{at}.hooks[{number}].env")


def _environment(texts: t.Sequence[str], at: str) -> Found:
    for number, text in enumerate(texts):
        if text.find("=") < 1:
            yield f"{at}[{number}]: {shown(text)} is not name=value"


def without_pipes(spec: t.Any) -> t.Any:
    """Return a specification, valid or not, without mounts of what is at MPS's default place."""
    if not isinstance(spec, dict):
        return spec
    result = {**spec}
    if "containerEdits" in spec:
        result["containerEdits"] = _without_pipes(spec["containerEdits"])
    if isinstance(spec.get("devices"), list):
        result["devices"] = [without_pipes(device) for device in spec["devices"]]
    return result


def _without_pipes(edits: t.Any) -> t.Any:
    if not isinstance(edits, dict) or not isinstance(edits.get("mounts"), list):
        return edits
    mounts = []
    for mount in edits["mounts"]:
        both = map(table(mount).get, ("hostPath", "containerPath"))
        if not any(isinstance(end, str) and posixpath.normpath(end) == PIPES for end in both):
            mounts.append(mount)
    filtered = {**edits, "mounts": mounts}
    return {key: value for key, value in filtered.items() if key != "mounts" or value}


def check(spec: Spec, open_folder: t.Callable[[str], str]) -> None:
    """Refuse paths below a folder that everybody may write to, which ``open_folder`` returns for a path.

    Raises:
        NodeError: if there is such a path.
    """
    sources: t.List[str] = []
    for part in (spec, *spec["devices"]):
        edits = part.get("containerEdits", {})
        sources += [mount["hostPath"] for mount in edits.get("mounts", ())]
        sources += [node.get("hostPath", node["path"]) for node in edits.get("deviceNodes", ())]
        sources += [hook["path"] for hook in edits.get("hooks", ())]
    for path in dict.fromkeys(sources):
        folder = open_folder(path)
        if folder:
            raise NodeError(
                f"the CDI specification would give containers {path}",
                cause=f"everybody may write to {folder}, so any user of the node decides what that is",
                hint=f"move it to a folder that only root may write to, or remove the permission: chmod o-w {folder}",
            )
