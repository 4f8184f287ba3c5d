# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Images of a container engine on this machine."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._machine.host import Host

SAVE: t.Mapping[str, t.Tuple[str, ...]] = {
    "podman": ("podman", "save", "--quiet", "--format", "oci-archive"),
    "docker": ("docker", "save"),
}


def identity(host: Host, name: str) -> t.Tuple[str, str]:
    """Return the engine that has an image, and the image's id. NodeError: none has it."""
    there = [one for one in SAVE if host.which(one)]
    for one in there:
        done = host.run([one, "image", "inspect", "--format", "{{.Id}}", name], check=False)
        if done.rc == 0:
            return one, done.out.strip().rpartition(":")[2]
    of = " and ".join(there) or "podman or Docker, neither of which is here"
    error = InputError.of("images", name, f"the path of an archive, or an image of {of}")
    error.hint = "build it from files/gpu_plugin/Containerfile, or leave it out"
    raise error


def save(host: Host, name: str, file: str) -> None:
    """Write an image into an archive, which podman makes in OCI's layout. NodeError."""
    engine, _identity = identity(host, name)
    host.run([*SAVE[engine], "--output", file, name])
