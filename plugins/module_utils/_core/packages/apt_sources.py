# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""apt's sources: both file formats, and a file of our own that enables more components."""

from __future__ import annotations

import dataclasses
import re
import typing as t

OWN_ENDINGS = (
    "debian",
    "debian-security",
    "debian.list",
    "debian-security.list",
    "ubuntu",
    "ubuntu-ports",
)
KEYRINGS = ("debian-archive-keyring", "ubuntu-archive-keyring")
DISABLED = ("no", "false", "without", "off", "disable")
FIELD = re.compile(r"^([^\s:]+)[ \t]*:(.*(?:\n[ \t].*)*)", re.M)
ONE_LINE = re.compile(r"^[ \t]*deb[ \t]+(?:\[([^]]*)\][ \t]+)?(\S+)[ \t]+(\S+)([^#\n]*)", re.M)


@dataclasses.dataclass(frozen=True)
class Source:
    """Binary packages at an address: one suite and its components."""

    uri: str
    suite: str
    components: t.Tuple[str, ...]
    signed_by: str = ""


def parse_one_line(text: str) -> t.List[Source]:
    """Parse a .list file."""
    found = []
    for options, uri, suite, components in ONE_LINE.findall(text):
        signed = re.search(r"signed-by=(\S+)", options)
        found.append(Source(uri, suite, tuple(components.split()), signed[1] if signed else ""))
    return found


def parse_deb822(text: str) -> t.List[Source]:
    """Parse a .sources file; disabled stanzas and source packages are left out."""
    found = []
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields = {key.lower(): value.strip(" \t\r") for key, value in FIELD.findall(stanza)}
        if (
            fields.get("enabled", "").lower() not in DISABLED
            and "deb" in fields.get("types", "").split()
        ):
            components = tuple(fields.get("components", "").split())
            signed_by = fields.get("signed-by", "")
            found += [
                Source(uri, suite, components, signed_by)
                for uri in fields.get("uris", "").split()
                for suite in fields.get("suites", "").split()
            ]
    return found


def _is_own(source: Source) -> bool:
    return source.uri.rstrip("/").rsplit("/", 1)[-1] in OWN_ENDINGS or any(
        name in source.signed_by for name in KEYRINGS
    )


def additions(
    sources: t.Sequence[Source], codename: str, components: t.Sequence[str]
) -> t.Optional[t.List[Source]]:
    """Return the node's own sources of a release with the components that they lack.

    The release itself, its updates and its security suite count, as far as the node uses them.
    None says that the node has no source of the release at all.
    """
    ours = [one for one in sources if "main" in one.components]
    ours = [one for one in ours if _is_own(one)] or ours
    for name in (codename, "stable", "oldstable"):
        if any(one.suite == name for one in ours):
            break
    else:
        return None
    found = []
    for suite in (name, f"{name}-updates", f"{name}-security"):
        base = next((one for one in ours if one.suite == suite), None)
        enabled = {word for one in sources if one.suite == suite for word in one.components}
        missing = tuple(one for one in components if one not in enabled)
        if base is not None and missing:
            found.append(dataclasses.replace(base, components=missing))
    return found


def render(sources: t.Sequence[Source]) -> str:
    """Return a deb822 file."""
    text = "# Written by gpu.node.nvidia_driver.\n"
    for number, source in enumerate(sources):
        text += "\n" if number else ""
        text += f"Types: deb\nURIs: {source.uri}\nSuites: {source.suite}\n"
        text += f"Components: {' '.join(source.components)}\n"
        text += f"Signed-By: {source.signed_by}\n" if source.signed_by else ""
    return text
