# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification of a claim, made of the node's own and of the enforcement's edits.

It is complete in itself, so that a claim needs nothing that another file says of a device. Its names have the
claim's UID, which no other claim ever has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..._shared._base.dra.checkpoint import Device
from ..._shared._base.dra.names import CDI_KIND
from ..._shared._base.errors import NodeError
from ..._shared._cdi import boot as cdi_boot
from ..._shared._cdi.machine.driver_files import DriverFiles
from ..._shared._cdi.machine.specify import specify
from ..._shared._cdi.rules import minimum_version, problems
from ..._shared._machine.host import Host
from ..._shared._machine.nvml.real import inventory, open_nvml
from ...cdi import files as node_files
from ...cdi import specification as cdi
from ...config.configuration import Config
from ...tools import bounded, files, logs
from ..values import Edits
from .plan import is_share

FOLDER: Final = "var/run/cdi"
Spec = dict[str, Any]
# The device nodes of a MIG device: path, major and minor, which are 0 where the node is there to be asked.
Nodes = Sequence[tuple[str, int, int]]
HINT: Final = "see systemctl status gpu-cdi.service, or run gpu.node.cdi; the kubelet tries again"


def cdi_name(uid: str, device: Device) -> str:
    """Return the name of a claim's device in CDI; a claim may have several shares of one GPU."""
    return "-".join(filter(None, (uid, device.device, device.share_id)))


def specification(
    uid: str,
    devices: Iterable[Device],
    node: Sequence[Spec],
    nodes: Mapping[str, Nodes],
    edits: Edits,
) -> Spec:
    """Return a claim's specification.

    Args:
        uid: The claim's UID.
        devices: The claim's devices.
        node: The node's own specifications.
        nodes: The device nodes of MIG devices by UUID, which the node's specifications need not have yet.
        edits: What containers get in addition with a share.

    Raises:
        NodeError: if the node's specifications don't describe one of the GPUs.
    """
    share_edits: Spec = {
        "env": [f"{name}={value}" for name, value in edits.env.items()],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": list(mount.options),
                **({"type": mount.type} if mount.type else {}),
            }
            for mount in edits.mounts
        ],
    }
    specs: dict[str, Spec] = {}
    sources: list[Spec] = []
    for device in devices:
        uuid = device.instance.uuid if device.instance else device.gpu
        source, own = _described(uuid, node, nodes.get(uuid, ()))
        specs[cdi_name(uid, device)] = _joined([own, share_edits]) if is_share(device) else own
        sources += [source] if source not in sources else []
    spec: Spec = {
        "cdiVersion": "",
        "kind": CDI_KIND,
        "devices": [{"name": name, "containerEdits": own} for name, own in specs.items()],
    }
    if common := _joined([source.get("containerEdits", {}) for source in sources]):
        spec["containerEdits"] = common
    versions = [minimum_version(spec), *(str(source["cdiVersion"]) for source in sources)]
    spec["cdiVersion"] = max(versions, key=lambda text: tuple(map(int, text.split("."))))
    if wrong := problems(spec):
        raise NodeError("the claim's CDI specification is not valid", cause="; ".join(wrong[:3]))
    return spec


def _described(uuid: str, node: Sequence[Spec], nodes: Nodes) -> tuple[Spec, Spec]:
    """Return the specification that has a device, and the device's edits."""
    for spec in node:
        for device in spec["devices"]:
            if device["name"] == uuid:
                return spec, device["containerEdits"]
    if nodes and node:
        device_nodes = []
        for path, major, minor in nodes:
            numbers = {"type": "c", "major": major, "minor": minor} if major else {}
            device_nodes.append({"path": path, **numbers, "permissions": "rw"})
        return node[0], {"deviceNodes": device_nodes}
    cause = "no CDI specification of the node describes it"
    raise NodeError(f"{uuid} can't be given to containers", cause=cause, hint=HINT)


def _joined(parts: Sequence[Spec]) -> Spec:
    """Return edits together, each entry of a list once."""
    spec: Spec = {}
    for part in parts:
        for key, value in part.items():
            if not isinstance(value, list):
                spec[key] = value
            elif value:
                there = spec.setdefault(key, [])
                there.extend(item for item in value if item not in there)
    return spec


def made() -> Spec | None:
    """Return the specification that gpu.node.cdi would write now, None if it would describe no GPU.

    Raises:
        NodeError: if the driver or its files can't be read.
    """
    text = bounded.peek(Path(cdi_boot.CONFIG))
    options = cdi_boot.load(text, cdi_boot.CONFIG) if text else cdi_boot.Options("")
    machine = DriverFiles(Host(), options.driver_root)
    with open_nvml(machine.nvml_library()) as nvml:
        desired, _warnings = specify(inventory(nvml), machine, options)
    return cdi.read(desired.text) if desired.text else None


class ClaimFiles:
    """The CDI file of each claim.

    Args:
        root: Where the host's CDI folders are seen.
        made: Makes a specification of the node where it has none, as on a node whose GPUs are all in MIG
            mode before the first instance is made.
    """

    def __init__(self, root: Path, made: Callable[[], Spec | None] = made) -> None:
        self._root, self._made = root, made
        self.seen: object = None  # differs after the node's specifications have changed
        self._specs: list[Spec] = []

    def node(self, config: Config) -> list[Spec]:
        """Return the node's specifications as they are now, with the configured hooks.

        Raises:
            OSError: if one can't be read.
        """
        sources = node_files.node_sources(self._root)
        program, disabled = config.containers.hook_program, config.containers.cdi_disabled_hooks
        seen = (program, disabled, [(path, *stamp) for _folder, path, stamp in sources])
        if seen != self.seen:
            specs, _ambiguous = cdi.merge(node_files.read_sources(sources))
            self._specs = [cdi.derive(spec, program, disabled) for spec in specs]
            self.seen = seen
        return self._specs or [
            cdi.derive(spec, program, disabled) for spec in [self._made()] if spec
        ]

    def path(self, uid: str) -> Path:
        """Return where the file of a claim is."""
        return self._root / FOLDER / f"{cdi.CLAIMS_FILE}_{uid}.json"

    def write(self, uid: str, spec: Spec) -> None:
        """Write a claim's file.

        Raises:
            NodeError: if it can't be written.
        """
        with files.failing(f"can't write {self.path(uid)}"):
            files.replace(self.path(uid), json.dumps(spec, separators=(",", ":")) + "\n")

    def remove(self, uid: str) -> None:
        """Remove a claim's file, if there is one.

        Raises:
            NodeError: if it can't be removed.
        """
        with files.failing(f"can't remove {self.path(uid)}"):
            self.path(uid).unlink(missing_ok=True)

    def there(self, uid: str) -> bool:
        """Return whether there is a claim's file."""
        return self.path(uid).is_file()

    def left(self) -> list[Path]:
        """Return the files of claims that were prepared since the boot."""
        return sorted((self._root / FOLDER).glob(f"{cdi.CLAIMS_FILE}_*"))

    def uid(self, path: Path) -> str:
        """Return the UID of the claim that a file is of."""
        return path.stem.partition("_")[2]

    def sweep(self, ended: Iterable[Path]) -> None:
        """Remove the files of claims that have ended, and what a killed process left half-written."""
        for path in (*ended, *(self._root / FOLDER).glob(f".{cdi.CLAIMS_FILE}_*")):
            logs.info("a claim's CDI specification is left over, and removed", file=path)
            os.unlink(path)
