# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt and dpkg print, as values."""

from __future__ import annotations

import re
import typing as t


class Policy(t.NamedTuple):
    """A package in apt's eyes: what is installed, what would be, and all versions on offer."""

    installed: t.Optional[str]
    candidate: t.Optional[str]
    versions: t.Tuple[str, ...]


def parse_policy(text: str) -> t.Dict[str, Policy]:
    """Parse ``apt-cache policy`` of several packages."""
    found: t.Dict[str, Policy] = {}
    for block in re.split(r"^(?=\S)", text, flags=re.M):
        lines = block.splitlines()
        if not lines or not lines[0].endswith(":"):
            continue
        installed, candidate = (_field(block, name) for name in ("Installed", "Candidate"))
        versions = tuple(re.findall(r"^ (?:\*\*\*|   ) (\S+) -?\d+$", block, flags=re.M))
        found[lines[0][:-1].split(":")[0]] = Policy(installed, candidate, versions)
    return found


def _field(block: str, name: str) -> t.Optional[str]:
    match = re.search(rf"^  {name}: (.+)$", block, flags=re.M)
    return None if match is None or match[1] == "(none)" else match[1]


def parse_status(text: str) -> t.Dict[str, str]:
    """Parse lines of ``package version status-abbreviation`` and return the installed versions."""
    found = {}
    for line in text.splitlines():
        package, version, status = ([*line.split(" ", 2), "", ""])[:3]
        if status.strip() in ("ii", "hi"):
            found[package] = version
    return found


def parse_simulation(text: str) -> t.List[str]:
    """Return the packages that ``apt-get --simulate install`` would install anew."""
    return [match[1] for match in re.finditer(r"^Inst (\S+) \((?!.*\[upgrade)", text, flags=re.M)]


def upstream(version: str) -> str:
    """Return the upstream part of a Debian version: no epoch, no revision."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]


class Source(t.NamedTuple):
    """A Debian source that the node uses already."""

    uri: str
    suite: str
    signed_by: str


def find_source(one_line: str, deb822: str, codename: str) -> t.Optional[Source]:
    """Return the node's own source of the release's main component, from both file formats."""
    for match in re.finditer(r"^deb (?:\[([^]]*)\] )?(\S+) (\S+) (.+)$", one_line, flags=re.M):
        if match[3] == codename and "main" in match[4].split():
            signed = re.search(r"signed-by=(\S+)", match[1] or "")
            return Source(match[2], codename, signed[1] if signed else "")
    for stanza in re.split(r"\n\s*\n", deb822):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, flags=re.M))
        if (
            codename in fields.get("Suites", "").split()
            and "main" in fields.get("Components", "").split()
        ):
            return Source(fields.get("URIs", "").split()[0], codename, fields.get("Signed-By", ""))
    return None


def render_source(source: Source, components: t.Sequence[str]) -> str:
    """Return a deb822 file for more components of the same source."""
    lines = [
        "# Written by gpu.node.nvidia_driver.",
        "Types: deb",
        f"URIs: {source.uri}",
        f"Suites: {source.suite}",
        f"Components: {' '.join(components)}",
    ]
    if source.signed_by:
        lines.append(f"Signed-By: {source.signed_by}")
    return "\n".join(lines) + "\n"
