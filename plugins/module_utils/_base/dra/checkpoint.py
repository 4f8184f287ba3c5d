# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The claims that the DRA driver has prepared on this node, in its checkpoint.

Programs that change GPUs read it too: the kubelet may be down, and the claim's object gone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ..errors import NodeError, readable
from .names import CHECKPOINT

VERSION = 1
# The last action: a claim that is neither prepared nor gone was interrupted.
PREPARING, PREPARED, UNPREPARING = STATES = "preparing", "prepared", "unpreparing"
HINT = (
    "nothing was changed; drain the node of pods with claims, move the file away, remove the files of claims in"
    " /var/run/cdi, and start gpu-dra.service again"
)


@dataclasses.dataclass(frozen=True)
class Instance:
    """The MIG instance of a claim: its placement, and whether it is destroyed with the claim.

    ``made`` is whether it was not there before. Its id and UUID are known once it is there. ``era`` is the load of
    the driver in which it was made: instances don't outlive it.
    """

    profile_id: int
    start: int
    made: bool
    gi: t.Optional[int] = None
    uuid: str = ""
    era: str = ""


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a claim, with its GPU; see values.Result of the daemon for the other fields.

    A device for ``admin`` access can be allocated to others at the same time.
    """

    request: str
    pool: str
    device: str
    gpu: str
    minor: int
    share_id: str = ""
    consumed: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    parameters: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    instance: t.Optional[Instance] = None
    admin: bool = False


@dataclasses.dataclass(frozen=True)
class PreparedClaim:
    """A claim with devices of this node; ``pods`` are the UIDs of the pods that it is reserved for.

    ``enforcement`` is that of its shares, even if the configuration has changed since.
    """

    uid: str
    namespace: str
    name: str
    state: str
    devices: t.Tuple[Device, ...]
    pods: t.Tuple[str, ...] = ()
    enforcement: str = ""

    def __str__(self) -> str:
        return f"claim {self.namespace}/{self.name}"


def entry(held: PreparedClaim) -> str:
    """Return a claim as the file has it."""
    devices = []
    for device in held.devices:
        fields = {key: value for key, value in vars(device).items() if key != "instance"}
        data = {key: value for key, value in fields.items() if value != {} and value is not False}
        devices.append({**data, **({"instance": vars(device.instance)} if device.instance else {})})
    return _text({**vars(held), "devices": devices})


def dump(entries: t.Mapping[str, str]) -> str:
    """Return the file's text, given the entry of each claim by its UID."""
    body = _body(entries)
    return f'{{"version":{VERSION},"checksum":"{_checksum(body)}","claims":{body}}}\n'


def load(text: t.Optional[str], path: str = CHECKPOINT) -> t.Dict[str, PreparedClaim]:
    """Return the claims by UID, none if there is no file.

    Raises:
        NodeError: if it is damaged, or of another version.
    """
    if text is None:
        return {}
    with readable(path, HINT):
        data = json.loads(text)
        version = data["version"]
        if version != VERSION:
            cause = f"it has version {version!r}, and this one knows {VERSION}"
            hint = "install the version that wrote it, or one after it"
            raise NodeError(f"{path} is of another version of gpu.node", cause=cause, hint=hint)
        body = _body({uid: _text(claim) for uid, claim in data["claims"].items()})
        if data["checksum"] != _checksum(body):
            raise ValueError("its checksum is another one")
        return {uid: _held(claim) for uid, claim in data["claims"].items()}


def made(text: t.Optional[str]) -> t.FrozenSet[str]:
    """Return the UUIDs of the MIG devices that were made for claims, which are no part of a layout.

    Raises:
        NodeError: if the checkpoint is damaged, or of another version.
    """
    devices = [device for claim in load(text).values() for device in claim.devices]
    instances = (device.instance for device in devices if device.instance)
    return frozenset(instance.uuid for instance in instances if instance.made)


def _body(entries: t.Mapping[str, str]) -> str:
    claims = ",\n".join(f"{json.dumps(uid)}:{entries[uid]}" for uid in sorted(entries))
    return f"{{{claims}}}"


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _text(data: t.Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _held(data: t.Mapping[str, t.Any]) -> PreparedClaim:
    if data["state"] not in STATES:
        raise ValueError(f"state {data['state']!r}")
    devices = []
    for device in data["devices"]:
        instance = Instance(**device["instance"]) if device.get("instance") else None
        devices.append(Device(**{**device, "instance": instance}))
    return PreparedClaim(**{**data, "devices": tuple(devices), "pods": tuple(data["pods"])})
