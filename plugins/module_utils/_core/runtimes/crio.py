# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What CRI-O's configuration must say."""

from __future__ import annotations

import typing as t

from .common import CDI, DEFAULT_RUNTIME, Change, Wanted, lookup, union

MINIMUM = (1, 23)
SECTION = ("crio", "runtime")
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")


def effective(config: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return the runtime's section with the defaults, which ``crio config`` shows as comments."""
    return {"cdi_spec_dirs": list(SPEC_DIRS), **(lookup(config, SECTION) or {})}


def settings(runtime: t.Mapping[str, t.Any], wanted: Wanted, cdi: bool) -> t.List[Change]:
    """Return what the runtime's section must have; CDI itself is always on."""
    found: t.List[Change] = []
    if cdi:
        found.append((("cdi_spec_dirs",), union(runtime.get("cdi_spec_dirs"), wanted.spec_dirs)))
    if wanted.mode != CDI:
        found.append((("runtimes", wanted.handler, "runtime_path"), wanted.runtime_path))
    if wanted.mode == DEFAULT_RUNTIME:
        found.append((("default_runtime",), wanted.handler))
    return found
