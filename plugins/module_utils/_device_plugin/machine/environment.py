# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release's environment is whole: what was written down of it when it was made, held against what is there now."""

from __future__ import annotations

import contextlib
import hashlib
import json
import typing as t

from ..._base.text import json_data
from ..._machine.host import Host

COMPLETE = ".complete"
INTERPRETER = "bin/python3"
SETTINGS = "pyvenv.cfg"  # by which an interpreter knows that it is of an environment


def complete(host: Host, release: str) -> None:
    """Write down what a release has, which makes it one that can be used."""
    host.write(f"{release}/{COMPLETE}", json.dumps(_measured(host, release)) + "\n", mode=0o644)


def damage(host: Host, release: str) -> str:
    """Return what is wrong with a release, empty where nothing is. Files are told by sizes and times."""
    try:
        made = json_data.loads(host.read(f"{release}/{COMPLETE}") or "")
    except ValueError:
        return "it was not finished"
    found = _measured(host, release)
    if not isinstance(made, dict) or made.get("python") != found["python"]:
        return f"it was made for another Python than {found['python'] or 'there is'}"
    return "" if made == found else "its files are others than it was made of"


@contextlib.contextmanager
def replacing(host: Host, release: str) -> t.Iterator[None]:
    """Make a release in a with statement, in place of one that is damaged; it comes back where that fails."""
    aside = f"{release}.damaged"
    there = host.exists(f"{release}/{COMPLETE}")
    host.remove(aside)
    if there:
        host.move(release, aside)
    host.remove(release)
    try:
        yield
    except BaseException:
        host.remove(release)
        if there:
            host.move(aside, release)
        raise
    host.remove(aside)


def _measured(host: Host, release: str) -> t.Dict[str, str]:
    sizes = {**host.sizes(f"{release}/lib"), **host.sizes(f"{release}/bin")}
    lines = "".join(f"{path}\0{size} {at}\n" for path, (size, at) in sorted(sizes.items()))
    lines += host.read(f"{release}/{SETTINGS}") or ""
    return {
        "python": host.leads_to(f"{release}/{INTERPRETER}"),
        "files": hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest(),
    }
