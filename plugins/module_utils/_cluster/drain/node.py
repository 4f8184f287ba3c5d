# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Node object: who has cordoned it, and the patches that cordon, uncordon, taint and untaint it."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from ..pods import Json

CORDONED, FAILED = "gpu.node/cordoned", "gpu.node/failed"
QUARANTINED = "gpu.node/quarantined"
NOT_ACCEPTED, NO_SCHEDULE = "gpu.node/not-accepted", "NoSchedule"
MANAGER = "gpu-node-drain"  # the field manager of our changes


@dataclasses.dataclass(frozen=True)
class DrainNode:
    """A node; ``cordoned``, ``failed`` and ``quarantined`` are our annotations, empty if it has none.

    ``managers`` are the field managers that made it unschedulable, as far as the API server knows. ``joined`` is
    whether the cluster has the node.
    """

    name: str
    version: str
    unschedulable: bool = False
    cordoned: str = ""
    failed: str = ""
    quarantined: str = ""
    managers: t.FrozenSet[str] = frozenset()
    taints: t.Tuple[Json, ...] = ()
    joined: bool = True

    @property
    def held(self) -> bool:
        """Return whether it has our taint."""
        return any(map(_is_ours, self.taints))

    @property
    def ours(self) -> bool:
        """Return whether we have cordoned it.

        Our annotation alone does not prove it: another user may have uncordoned the node and cordoned it again.
        """
        by_us = not self.managers or MANAGER in self.managers
        return self.unschedulable and bool(self.cordoned) and by_us

    def stays(self, *, quarantine: bool) -> str:
        """Return why it is not given back, empty if it is; ``quarantine`` is whether its quarantine ends."""
        if self.quarantined and not quarantine:
            reason = self.quarantined.partition(": ")[2]
            return f"it is in quarantine ({reason}), and gpu.node.release gives it back"
        if self.failed and quarantine:
            return f"a change of it has failed: {self.failed.partition(' ')[2]}"
        if self.unschedulable and not self.ours:
            return f"this module did not cordon it: kubectl uncordon {self.name} gives it back"
        return ""


def read(answer: Json) -> DrainNode:
    """Return the node in an answer.

    Raises:
        KeyError: if the answer is no node; or TypeError.
    """
    meta, spec = answer["metadata"], answer.get("spec") or {}
    annotations = meta.get("annotations") or {}
    managers = {
        str(entry.get("manager"))
        for entry in meta.get("managedFields") or ()
        if "f:unschedulable" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    }
    return DrainNode(
        name=str(meta["name"]),
        version=str(meta["resourceVersion"]),
        unschedulable=bool(spec.get("unschedulable")),
        cordoned=str(annotations.get(CORDONED) or ""),
        failed=str(annotations.get(FAILED) or ""),
        quarantined=str(annotations.get(QUARANTINED) or ""),
        managers=frozenset(managers),
        taints=tuple(dict(taint) for taint in spec.get("taints") or ()),
    )


def near(name: str, names: t.Sequence[str]) -> t.List[str]:
    """Return similar names, such as one with a domain or without."""
    host = name.partition(".")[0].lower()
    namesakes = [name for name in names if name.partition(".")[0].lower() == host]
    alike = difflib.get_close_matches(name.lower(), names, n=3)
    return list(dict.fromkeys(namesakes + alike))[:3]


def cordon(
    node: DrainNode, note: str, failure: str = "", when: str = "", *, quarantine: bool = False
) -> t.Dict[str, t.Any]:
    """Return the patch that cordons a node and keeps a failure or its quarantine, empty if it has all that.

    A node that another user has cordoned does not become ours.
    """
    annotations: t.Dict[str, t.Optional[str]] = {}
    if not node.unschedulable:
        annotations[CORDONED] = note
    if failure and node.failed.partition(" ")[2] != failure:
        annotations[FAILED] = f"{when} {failure}"
    if quarantine and node.quarantined.partition(": ")[2] != note.partition(": ")[2]:
        annotations[QUARANTINED] = note
    return _patch(node, annotations, None if node.unschedulable else True)


def uncordon(node: DrainNode, *, quarantine: bool = False) -> t.Dict[str, t.Any]:
    """Return the patch that uncordons a node that we have cordoned, empty if there is nothing of ours.

    A node in quarantine stays cordoned until the quarantine ends, which leaves a failure as it is.
    """
    there = {CORDONED: node.cordoned, FAILED: node.failed}
    if quarantine:
        there = {QUARANTINED: node.quarantined, **({} if node.failed else there)}
    elif node.quarantined:
        there = {FAILED: node.failed}
    back = node.ours and not node.stays(quarantine=quarantine)
    obsolete = {key: None for key, value in there.items() if value}
    return _patch(node, obsolete, False if back else None)


def hold(node: DrainNode) -> t.Dict[str, t.Any]:
    """Return the patch that adds our taint, empty if the node has it or is not in the cluster yet."""
    if node.held or not node.joined:
        return {}
    return _patch_taints(node, [*node.taints, {"key": NOT_ACCEPTED, "effect": NO_SCHEDULE}])


def admit(node: DrainNode) -> t.Dict[str, t.Any]:
    """Return the patch that removes our taint and no other, empty if the node does not have it."""
    if not node.held:
        return {}
    return _patch_taints(node, [taint for taint in node.taints if not _is_ours(taint)])


def describe_taint(taint: Json) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _is_ours(taint: Json) -> bool:
    return (taint.get("key"), taint.get("effect")) == (NOT_ACCEPTED, NO_SCHEDULE)


def _patch_taints(node: DrainNode, taints: t.Sequence[Json]) -> t.Dict[str, t.Any]:
    """Return a patch of all taints, since the server takes their list as a whole, for this version of the node."""
    return {"metadata": {"resourceVersion": node.version}, "spec": {"taints": list(taints)}}


def _patch(
    node: DrainNode, annotations: t.Mapping[str, t.Optional[str]], unschedulable: t.Optional[bool]
) -> t.Dict[str, t.Any]:
    """Return a merge patch that the server accepts for this version of the node alone."""
    if not annotations and unschedulable is None:
        return {}
    patch: t.Dict[str, t.Any] = {
        "metadata": {"resourceVersion": node.version, "annotations": dict(annotations)}
    }
    if unschedulable is not None:
        patch["spec"] = {"unschedulable": unschedulable or None}
    return patch
