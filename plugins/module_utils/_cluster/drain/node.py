# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Node object: who has cordoned it, and the patches that cordon and uncordon it."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from ..pods import Json

CORDONED, FAILED = "gpu.node/cordoned", "gpu.node/failed"
QUARANTINED = "gpu.node/quarantined"
MANAGER = "gpu-node-drain"  # the field manager of our changes


@dataclasses.dataclass(frozen=True)
class DrainNode:
    """A node; ``cordoned``, ``failed`` and ``quarantined`` are our annotations, empty if it has none.

    ``managers`` are the field managers that made it unschedulable, as far as the API server knows.
    """

    name: str
    version: str
    unschedulable: bool = False
    cordoned: str = ""
    failed: str = ""
    quarantined: str = ""
    managers: t.FrozenSet[str] = frozenset()

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
