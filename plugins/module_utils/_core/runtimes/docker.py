# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Docker's daemon.json must say."""

from __future__ import annotations

import typing as t

from .common import CDI, DEFAULT_RUNTIME, Change, Version, Wanted, union

MINIMUM = (25,)
CDI_BY_DEFAULT = (28, 2)
CHECKS = (23,)  # from it on, dockerd has --validate
# What dockerd takes over on SIGHUP, provided that it has a value: that a key is gone goes unnoticed.
LIVE = (("runtimes",), ("default-runtime",))
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")


def effective(config: t.Mapping[str, t.Any], version: Version) -> t.Dict[str, t.Any]:
    """Return the configuration with the defaults that matter here."""
    features = {"cdi": version[:2] >= CDI_BY_DEFAULT, **(config.get("features") or {})}
    return {"cdi-spec-dirs": list(SPEC_DIRS), **config, "features": features}


def settings(config: t.Mapping[str, t.Any], wanted: Wanted, cdi: bool) -> t.List[Change]:
    """Return what the effective configuration must have."""
    found: t.List[Change] = []
    if cdi:
        found.append((("features", "cdi"), True))
        found.append((("cdi-spec-dirs",), union(config.get("cdi-spec-dirs"), wanted.spec_dirs)))
    if wanted.mode != CDI:
        found.append((("runtimes", wanted.handler, "path"), wanted.runtime_path))
    if wanted.mode == DEFAULT_RUNTIME:
        found.append((("default-runtime",), wanted.handler))
    return found
