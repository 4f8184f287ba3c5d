# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Edits of a file with 3,000 tables, as ratios to reading it with Python's own library."""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Callable

from ansible_collections.gpu.node.plugins.module_utils._base.text import toml_data
from ansible_collections.gpu.node.plugins.module_utils._runtime import edits
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml

TABLES = 3000
ROUNDS = 5
MOST = {"read by us": 10, "set": 60, "set and reverted": 300}
CRI = ("plugins", "io.containerd.grpc.v1.cri")
HANDLER = (*CRI, "containerd", "runtimes", "nvidia")
CHANGES: list[edits.Change] = [
    ((*CRI, "enable_cdi"), True),
    ((*HANDLER, "runtime_type"), "io.containerd.runc.v2"),
    ((*HANDLER, "options", "BinaryName"), "/usr/bin/nvidia-container-runtime"),
    ((*CRI, "containerd", "default_runtime_name"), "nvidia"),
]


def seconds(work: Callable[[], object]) -> float:
    """Return the shortest of some rounds."""
    found = []
    for _round in range(ROUNDS):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> int:
    text = "version = 2\n" + "".join(
        f'[plugins."io.x".registry.configs."host{at}.example"]\n  ca = "/x{at}"\n  skip = true\n'
        for at in range(TABLES)
    )
    data = tomllib.loads(text)
    entries = edits.note(data, CHANGES, [])
    after = toml.edit(text, CHANGES)

    def both() -> None:
        toml.edit(toml.edit(text, CHANGES), *edits.revert(tomllib.loads(after), entries))

    unit = seconds(lambda: tomllib.loads(text))
    print(f"{TABLES} tables, {len(text) >> 10} KiB: read by tomllib in {unit * 1000:.0f} ms")
    works: dict[str, Callable[[], object]] = {
        "read by us": lambda: toml_data.loads(text),
        "set": lambda: toml.edit(text, CHANGES),
        "set and reverted": both,
    }
    missed = 0
    for name, work in works.items():
        took = seconds(work)
        verdict = "" if took / unit <= MOST[name] else f"  MORE THAN {MOST[name]}"
        missed += bool(verdict)
        print(f"  {name:<18} {took * 1000:7.0f} ms  {took / unit:6.1f} times as long{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
