# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The list of a bundle's files with their SHA-256, and how a folder differs from it."""

from __future__ import annotations

import hashlib
import json
import typing as t

from .._base.errors import NodeError, readable

FORMAT = 1
LIST, SUMS = "bundle.json", "SHA256SUMS"
SHOWN = 12  # digits of a digest
LINK = "a link"


class File(t.NamedTuple):
    """A file of a bundle: its SHA-256, or LINK where it is none, and its size in bytes."""

    sha256: str
    size: int


Files = t.Mapping[str, File]


class Manifest(t.NamedTuple):
    """What a bundle was made of, as JSON, and its files by their paths in it."""

    made_of: t.Mapping[str, t.Any]
    files: Files


def render(manifest: Manifest) -> str:
    """Return the text of bundle.json."""
    files = {name: file._asdict() for name, file in sorted(manifest.files.items())}
    whole = {"format": FORMAT, "made_of": manifest.made_of, "files": files}
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def parse(text: str, path: str) -> Manifest:
    """Return the manifest in a text of bundle.json.

    Raises:
        NodeError: if it is damaged, or of a later format.
    """
    with readable(path, "make the bundle again, or fetch it again from where it was made"):
        whole = json.loads(text)
        version = whole["format"]
        files = {
            name: File(str(file["sha256"]), int(file["size"]))
            for name, file in whole["files"].items()
        }
        made_of = dict(whole["made_of"])
    if version != FORMAT:
        raise NodeError(
            f"{path}: a bundle of format {version}, and this release of gpu.node knows {FORMAT}",
            hint="install the collection that the bundle holds",
        )
    return Manifest(made_of, files)


def file_of(text: str) -> File:
    """Return the digest and size of a text as a file."""
    data = text.encode()
    return File(hashlib.sha256(data).hexdigest(), len(data))


def sums(manifest: Manifest) -> str:
    """Return the text of SHA256SUMS, as ``sha256sum --check`` reads it: all files but itself."""
    files = {**manifest.files, LIST: file_of(render(manifest))}
    return "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))


def extra(manifest: Manifest, files: Files) -> t.List[str]:
    """Return the files that are not of the bundle."""
    return sorted(set(files) - set(manifest.files) - {LIST, SUMS})


def differences(manifest: Manifest, files: Files) -> t.List[str]:
    """Return how files differ from the list."""
    messages = []
    for name, file in sorted(manifest.files.items()):
        if name not in files:
            messages.append(f"{name} is missing")
        elif files[name].sha256 == LINK:
            messages.append(f"{name} is a link, and a bundle has none")
        elif files[name].sha256 != file.sha256:
            have, expected = files[name].sha256[:SHOWN], file.sha256[:SHOWN]
            messages.append(
                f"{name} has another content (sha256 {have}... instead of {expected}...)"
            )
    messages += [f"{name} is not in {LIST}" for name in extra(manifest, files)]
    if files.get(SUMS) != file_of(sums(manifest)):
        messages.append(
            f"{SUMS} is not the one of {LIST}" if SUMS in files else f"{SUMS} is missing"
        )
    return messages
