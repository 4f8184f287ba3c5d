# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The claims that the DRA driver has prepared on this node, as its checkpoint keeps them.

Whoever takes something of a GPU reads it too: the kubelet may be down, and the claim's object gone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ..errors import NodeError, readable
from .names import CHECKPOINT

VERSION = 1
# What was begun last: a claim that is neither prepared nor gone was interrupted.
PREPARING, PREPARED, UNPREPARING = STATES = "preparing", "prepared", "unpreparing"
HINT = (
    "nothing was changed; drain the node of pods with claims, move the file away, remove the files of claims in"
    " /var/run/cdi, and start gpu-dra.service again"
)


@dataclasses.dataclass(frozen=True)
class Instance:
    """The MIG instance of a claim: where it is, and whether it is to be destroyed with the claim.

    ``made`` says that it was not there before. Its id and UUID are known once it is there. ``era`` is the load of
    the driver that it was made in: instances don't outlive it.
    """

    profile_id: int
    start: int
    made: bool
    gi: t.Optional[int] = None
    uuid: str = ""
    era: str = ""


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a claim, with the GPU that it is on; see values.Result of the daemon for the rest.

    What is given for ``admin`` access is given beside others' and takes nothing from them.
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
    """A claim that holds devices of this node; ``pods`` are the UIDs that it was reserved for.

    ``enforcement`` is what its shares are enforced by, whatever the configuration says by now.
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
    return _text(_plain(held))


def dump(entries: t.Mapping[str, str]) -> str:
    """Return the file's text, given the entry of each claim by its UID."""
    claims = ",\n".join(f"{json.dumps(uid)}:{entries[uid]}" for uid in sorted(entries))
    body = f"{{{claims}}}"
    return f'{{"version":{VERSION},"checksum":"{_checksum(body)}","claims":{body}}}\n'


def load(text: t.Optional[str], path: str = CHECKPOINT) -> t.Dict[str, PreparedClaim]:
    """Return the claims by UID, none where there is no file. NodeError: it is damaged, or of another version."""
    if text is None:
        return {}
    with readable(path, HINT):
        data = json.loads(text)
        version = data["version"]
        if version != VERSION:
            cause = f"it has version {version!r}, and this one knows {VERSION}"
            hint = "install the version that wrote it, or one after it"
            raise NodeError(f"{path} is of another version of gpu.node", cause=cause, hint=hint)
        texts = {uid: _text(claim) for uid, claim in data["claims"].items()}
        body = ",\n".join(f"{json.dumps(uid)}:{texts[uid]}" for uid in sorted(texts))
        if data["checksum"] != _checksum(f"{{{body}}}"):
            raise ValueError("its checksum is another one")
        return {uid: _held(claim) for uid, claim in data["claims"].items()}


def made(text: t.Optional[str]) -> t.FrozenSet[str]:
    """Return the UUIDs of the MIG devices that claims had made, which are no part of a layout. NodeError."""
    devices = [device for claim in load(text).values() for device in claim.devices]
    return frozenset(
        device.instance.uuid for device in devices if device.instance and device.instance.made
    )


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _text(data: t.Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _plain(held: PreparedClaim) -> t.Dict[str, t.Any]:
    return {
        "uid": held.uid,
        "namespace": held.namespace,
        "name": held.name,
        "state": held.state,
        "pods": list(held.pods),
        "enforcement": held.enforcement,
        "devices": [
            {
                **{
                    key: value
                    for key, value in vars(device).items()
                    if key != "instance" and value != {} and value is not False
                },
                **({"instance": vars(device.instance)} if device.instance else {}),
            }
            for device in held.devices
        ],
    }


def _held(data: t.Mapping[str, t.Any]) -> PreparedClaim:
    if data["state"] not in STATES:
        raise ValueError(f"state {data['state']!r}")
    devices = tuple(
        Device(
            **{
                **device,
                "instance": Instance(**device["instance"]) if device.get("instance") else None,
            }
        )
        for device in data["devices"]
    )
    return PreparedClaim(**{**data, "devices": devices, "pods": tuple(data["pods"])})
