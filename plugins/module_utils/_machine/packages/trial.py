# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Package sources and lists in a temporary folder, on which a package manager is tried."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import typing as t

from ..host import Host


@contextlib.contextmanager
def trial_folder(
    texts: t.Mapping[str, str], keys_folder: str, folders: t.Iterable[str] = ()
) -> t.Iterator[str]:
    """Write files below a temporary folder and yield its path.

    Args:
        texts: Texts of the files, by their paths on the node.
        keys_folder: Where keys are. A text that names one of the written keys names it in the temporary folder.
        folders: Folders that are there even if they have no file.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-node-sources-") as root:
        os.chmod(root, 0o755)  # apt reads keys as a user of its own
        keys = [path for path in texts if path.startswith(keys_folder)]
        for folder in folders:
            os.makedirs(root + folder)
        for path, text in texts.items():
            for key in keys:
                text = text.replace(key, root + key)
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            with open(root + path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        yield root


def changed_texts(
    host: Host,
    paths: t.Iterable[str],
    files: t.Mapping[str, str],
    removed: t.Collection[str],
) -> t.Dict[str, str]:
    """Return the texts of the node's files by their paths, as if ``files`` were written and others ``removed``."""
    texts = {**{path: host.read(path) or "" for path in paths}, **files}
    return {path: text for path, text in texts.items() if path not in removed}


def copy_missing(host: Host, folder: str, copy: str) -> None:
    """Copy the files of a folder of the node that a copy of it lacks."""
    for name in host.listdir(folder):
        status = host.status(f"{folder}/{name}")
        if status and stat.S_ISREG(status.mode) and not os.path.exists(f"{copy}/{name}"):
            os.makedirs(copy, exist_ok=True)
            with open(f"{copy}/{name}", "wb") as file:
                file.write(host.read_bytes(f"{folder}/{name}") or b"")
