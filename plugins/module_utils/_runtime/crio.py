# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What CRI-O's configuration must say, and what its daemon checks when it starts.

By CRI-O's source (pkg/config/config.go of 1.36): a later file replaces the whole entry of a runtime;
a daemon ends where an entry names no monitor and PATH has no conmon, which ``crio config`` does not check.
"""

from __future__ import annotations

import typing as t

from .edits import Change, lookup
from .state import CDI, CRIO, SPEC_DIRS, Wanted

DEFAULT_RUNTIMES = ("crun", "runc")  # one of them is the default one where no file names one
INHERITED = (
    "runtime_root",
    "monitor_path",
    "monitor_env",
    "monitor_cgroup",
    "monitor_exec_cgroup",
    "allowed_annotations",
    "privileged_without_host_devices",
)
MONITOR = "conmon"
LOW_LEVEL = ("runc", "crun")  # what NVIDIA's runtime calls where its own configuration names none
Section = t.Mapping[str, t.Any]


def section(config: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return CRI-O's section with the defaults, which ``crio config`` shows as comments."""
    return {"cdi_spec_dirs": list(SPEC_DIRS), **(lookup(config, CRIO.prefix) or {})}


def like(shown: Section, handler: str) -> t.Tuple[str, Section]:
    """Return name and entry of the runtime that a handler is like: the default one, if it is no virtual machine."""
    for name in (shown.get("default_runtime"), *DEFAULT_RUNTIMES):
        found = lookup(shown, ("runtimes", str(name)))
        if name != handler and isinstance(found, t.Mapping) and is_oci(found):
            return str(name), found
    return "", {}


def is_oci(entry: Section) -> bool:
    """Tell whether a runtime is one that conmon watches."""
    return entry.get("runtime_type") in (None, "", "oci")


def handler(shown: Section, wanted: Wanted) -> t.Iterator[Change]:
    """Yield what the handler's entry must have, given CRI-O's section without ours."""
    at = ("runtimes", wanted.handler)
    yield (*at, CRIO.handler), wanted.runtime_path
    _name, base = like(shown, wanted.handler)
    for key in INHERITED:
        if base.get(key):
            yield (*at, key), base[key]


def known(shown: Section, own: Section, wanted: Wanted, needed: t.Sequence[Change]) -> Section:
    """Return the section in effect, with the handler only as our file has it where that has to be written."""
    at = ("runtimes", wanted.handler)
    here = [(path, value) for path, value in needed if path[:2] == at]
    if wanted.mode in ("", CDI) or all(lookup(shown, path) == value for path, value in here):
        return shown
    runtimes = {**(shown.get("runtimes") or {}), wanted.handler: lookup(own, at) or {}}
    return {**shown, "runtimes": runtimes}


def monitor(shown: Section, name: str) -> str:
    """Return the monitor that the entry of a runtime means: a path, or a program's name in PATH; empty for none."""
    entry = lookup(shown, ("runtimes", name)) or {}
    if not is_oci(entry):
        return ""
    return str(shown.get("conmon") or entry.get("monitor_path") or MONITOR)


def low_level(config: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    """Return the programs that NVIDIA's runtime tries, by its own configuration."""
    found = lookup(config, ("nvidia-container-runtime", "runtimes"))
    named = tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
    return named or LOW_LEVEL
