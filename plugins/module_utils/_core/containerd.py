# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containerd's configuration must say for CDI."""

from __future__ import annotations

import re
import typing as t

from .errors import NodeError

MINIMUM = (1, 7)
CRI_SECTION = {
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
Change = t.Tuple[t.Tuple[str, ...], t.Any]


def parse_version(text: str) -> t.Tuple[int, ...]:
    """Return the version from ``containerd --version``."""
    match = re.search(r"\bv?(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise NodeError("containerd did not tell its version", cause=text.strip() or "no output")
    return tuple(int(part) for part in match.groups())


def check_version(version: t.Tuple[int, ...]) -> None:
    """Refuse a containerd that has no CDI."""
    if version[:2] < MINIMUM:
        raise NodeError(
            f"containerd {'.'.join(map(str, version))} cannot hand out GPUs through CDI",
            cause="that came with containerd 1.7",
            hint="upgrade containerd",
        )


def section(config: t.Mapping[str, t.Any], version: t.Tuple[int, ...]) -> t.Tuple[str, str]:
    """Return the path of the CRI plugin's section for a configuration's own format version."""
    number = config.get("version", 3 if not config and version >= (2,) else 2 if not config else 1)
    if number not in CRI_SECTION:
        raise NodeError(
            f"containerd's configuration has format version {number!r}",
            cause="expected 2, 3 or 4",
            hint="migrate it with 'containerd config migrate'",
        )
    return "plugins", CRI_SECTION[number]


def lookup(config: t.Mapping[str, t.Any], path: t.Sequence[str]) -> t.Any:
    """Return the value at a path of keys, None where there is none."""
    value: t.Any = config
    for key in path:
        if not isinstance(value, t.Mapping) or key not in value:
            return None
        value = value[key]
    return value


def needed(
    effective: t.Mapping[str, t.Any], cri: t.Tuple[str, str], spec_dirs: t.Sequence[str]
) -> t.List[Change]:
    """Return the values that the effective configuration lacks."""
    changes: t.List[Change] = []
    if lookup(effective, (*cri, "enable_cdi")) is not True:
        changes.append(((*cri, "enable_cdi"), True))
    have = lookup(effective, (*cri, "cdi_spec_dirs")) or []
    missing = [one for one in spec_dirs if one not in have]
    if missing:
        changes.append(((*cri, "cdi_spec_dirs"), [*have, *missing]))
    return changes


def describe(changes: t.Sequence[Change]) -> str:
    """Return changes in words."""
    return ", ".join(
        f"{path[-1]} = {str(value).lower() if isinstance(value, bool) else value}"
        for path, value in changes
    )
