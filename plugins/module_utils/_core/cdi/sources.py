# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a CDI specification takes from the host: nothing that a user without rights could have put there."""

from __future__ import annotations

import posixpath
import typing as t

from ..errors import NodeError

# CUDA's default place of an MPS daemon's pipes. Anybody may make it, so it is nobody's word; who has
# a share of a GPU gets its own pipes at this place from the device plugin.
PIPES = "/tmp/nvidia-mps"

Spec = t.Dict[str, t.Any]


def without_pipes(spec: t.Any) -> t.Any:
    """Return a specification, valid or not, without mounts of what is at MPS's default place."""
    if not isinstance(spec, dict):
        return spec
    found = {**spec}
    if "containerEdits" in spec:
        found["containerEdits"] = _kept(spec["containerEdits"])
    if isinstance(spec.get("devices"), list):
        found["devices"] = [without_pipes(one) for one in spec["devices"]]
    return found


def _kept(edits: t.Any) -> t.Any:
    mounts = edits.get("mounts") if isinstance(edits, dict) else None
    if not isinstance(mounts, list):
        return edits
    kept = [one for one in mounts if not _is_pipes(one)]
    rest = {key: value for key, value in edits.items() if key != "mounts"}
    return {**rest, "mounts": kept} if kept else rest


def _is_pipes(mount: t.Any) -> bool:
    paths = [mount.get("hostPath"), mount.get("containerPath")] if isinstance(mount, dict) else []
    return any(isinstance(one, str) and posixpath.normpath(one) == PIPES for one in paths)


def sources(spec: Spec) -> t.List[str]:
    """Return the host's paths in a valid specification: of mounts, device nodes and hook programs."""
    found: t.List[str] = []
    for part in (spec, *spec["devices"]):
        edits = part.get("containerEdits", {})
        found += [one["hostPath"] for one in edits.get("mounts", ())]
        found += [one.get("hostPath", one["path"]) for one in edits.get("deviceNodes", ())]
        found += [one["path"] for one in edits.get("hooks", ())]
    return list(dict.fromkeys(found))


def check(spec: Spec, open_folder: t.Callable[[str], str]) -> None:
    """NodeError where a path is below a folder that everybody may write to, as ``open_folder`` tells."""
    for path in sources(spec):
        folder = open_folder(path)
        if folder:
            raise NodeError(
                f"the CDI specification would give containers {path}",
                cause=f"everybody may write to {folder}, so any user of the node decides what that is",
                hint=f"move it to a folder that only root may write to, or remove the permission: chmod o-w {folder}",
            )
