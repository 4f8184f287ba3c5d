# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt and dpkg print, as values."""

from __future__ import annotations

import re
import typing as t

from .package import Package, Policy, Relations, Simulation, State

DPKG_FORMAT = (
    "${binary:Package}\\t${Architecture}\\t${source:Package}\\t${Version}\\t${db:Status-Abbrev}\\n"
)


# dpkg's letter for what is there, the second of its abbreviation.
STATES = {
    "n": State.NOT_INSTALLED,
    "c": State.CONFIG_FILES,
    "H": State.HALF_INSTALLED,
    "U": State.UNPACKED,
    "F": State.HALF_CONFIGURED,
    "W": State.TRIGGERS_AWAITED,
    "t": State.TRIGGERS_PENDING,
    "i": State.INSTALLED,
}


def parse_packages(text: str) -> t.Dict[str, Package]:
    """Parse what dpkg-query prints in DPKG_FORMAT.

    Left out are packages of foreign architectures, and those that are not there, unless they are on
    hold nevertheless.
    """
    rows = [line.split("\t") for line in text.split("\n") if line.count("\t") == 4]
    native = next((row[1] for row in rows if row[0] == "dpkg"), None)
    found = [
        (row[0].split(":")[0], _package(row[3], row[2], row[4]))
        for row in rows
        if row[4][1:2] in STATES and (native is None or row[1] in (native, "all", ""))
    ]
    return {name: one for name, one in found if one.held or one.state is not State.NOT_INSTALLED}


def _package(version: str, source: str, letters: str) -> Package:
    """Return a package by dpkg's abbreviation of its state: wanted, actual, error."""
    return Package(
        version, source, STATES[letters[1]], held=letters[0] == "h", torn=letters[2:3] == "R"
    )


def parse_policy(text: str) -> t.Dict[str, Policy]:
    """Parse ``apt-cache policy`` of several packages."""
    found: t.Dict[str, Policy] = {}
    for block in re.split(r"^(?=\S)", text, flags=re.M):
        lines = block.split("\n")
        if not lines[0].endswith(":"):
            continue
        match = re.search(r"^  Candidate: (\S+)$", block, flags=re.M)
        candidate = None if match is None or match[1] == "(none)" else match[1]
        versions = tuple(re.findall(r"^ (?:\*\*\*|   ) (\S+) \d+$", block, flags=re.M))
        found[lines[0][:-1].split(":")[0]] = Policy(candidate, versions)
    return found


def parse_simulation(text: str) -> Simulation:
    """Parse the output of ``apt-get --simulate``."""
    new, changed, removed = [], [], []
    for word, name, old in re.findall(r"^(Inst|Remv|Purg) (\S+)( \[)?", text, flags=re.M):
        if word != "Inst":
            removed.append(name)
        elif old:
            changed.append(name)
        else:
            new.append(name)
    return Simulation(tuple(new), tuple(changed), tuple(removed))


def parse_dependencies(text: str) -> t.FrozenSet[str]:
    """Return every package that a recursive ``apt-cache depends`` names.

    It does not look behind a name such as <perl:any>, but lists who provides it.
    """
    names = re.findall(r"^(?:[ |]*(?:Pre)?Depends:)? *<?(\w[^\s<>]*)>?$", text, flags=re.M)
    return frozenset(name.split(":")[0] for name in names)


def parse_relations(text: str) -> Relations:
    """Parse ``apt-cache show``: what each version of each package depends on."""
    found: t.Dict[str, t.Dict[str, t.Tuple[str, ...]]] = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", stanza, flags=re.M))
        needs = [fields[key] for key in ("Pre-Depends", "Depends") if key in fields]
        relations = tuple(one.strip() for text in needs for one in text.split(","))
        if "Package" in fields and "Version" in fields:
            found.setdefault(fields["Package"], {})[fields["Version"]] = relations
    return found


def upstream(version: str) -> str:
    """Return the upstream part of a version: no epoch, no revision, and no kernel as SUSE adds it."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0].split("_k", 1)[0]


def preferences(pins: t.Mapping[str, str], existing: str) -> str:
    """Return an apt preferences file that keeps packages at versions, beside what was there."""
    stanzas = [existing.strip("\n")] if existing.strip() else []
    stanzas += [
        f"Package: {packages}\nPin: version {version}\nPin-Priority: 1001"
        for packages, version in sorted(pins.items())
    ]
    return "\n\n".join(stanzas) + "\n"


def is_busy(text: str) -> bool:
    """Tell whether apt or dpkg gave up because another process holds its lock."""
    return bool(
        re.search(
            r"[Cc]ould not get lock|lock was locked by|Unable to lock |is another process using it",
            text,
        )
    )
