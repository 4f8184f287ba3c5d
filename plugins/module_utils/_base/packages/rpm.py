# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The output of rpm and dnf, as the same values as apt's."""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from .package import Package, Policy, Simulation, State

RPM_FORMAT = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\n"
DNF_FORMAT = "%{name}\\t%{arch}\\t%{epoch}\\t%{version}-%{release}"
# By the first word of a section in dnf's table.
SECTIONS = {
    "Installing": "new",
    "Removing": "removed",
    **dict.fromkeys(("Upgrading", "Downgrading", "Reinstalling"), "changed"),
}
# The last error of dnf 4 and dnf 5 if a repository does not answer, or has no address.
UNANSWERED = re.compile(
    r"^(?:Error: )?\s*((?:Failed to download metadata|Cannot find a valid baseurl|No valid source)\b.*?"
    r"\b(?:repo|repository):? [\"']?([^\"'\s]+?)[\"']?(?:: .*)?)$",
    re.M,
)
FILTERED = re.compile(r"package (\S+)-[^-\s]+-[^-\s]+ is filtered out by exclude filtering")
# A package of a module stream.
ARTIFACT = re.compile(r": +(\S+)-(\d+):(\S+)\.(\w+)$", re.M)
# The words of a rich dependency that are no names.
COMPARED = ("<", "<=", "=", ">=", ">")
CONDITIONS = ("if", "unless")
JOINED = ("and", "or", "else", "with", "without")


def _rows(text: str) -> t.Iterator[t.Tuple[str, str, str]]:
    """Yield name, architecture and version of each line in one of the formats above."""
    for line in text.split("\n"):
        if line.count("\t") == 3:
            name, machine, epoch, version = line.split("\t")
            yield name, machine, version if epoch in ("0", "(none)") else f"{epoch}:{version}"


def parse_packages(text: str, locked: t.Collection[str]) -> t.Dict[str, Package]:
    """Parse rpm's output in RPM_FORMAT; of several packages of one name the newest counts.

    Parts of the driver that are there twice were left by a transaction that was killed.
    """
    packages: t.Dict[str, Package] = {}
    twice = {name for name, _versions in doubles(text)}
    for name, _machine, version in _rows(text):
        known = packages.get(name)
        if known is None or version_key(version) > version_key(known.version):
            state = State.TWICE if name in twice else State.INSTALLED
            packages[name] = Package(version, "", state, held=name in locked)
    for name in locked:
        packages.setdefault(name, Package("", "", State.NOT_INSTALLED, held=True))
    return packages


def names(text: str) -> t.FrozenSet[str]:
    """Return the names of the packages in one of the formats above."""
    return frozenset(name for name, _machine, _version in _rows(text))


def several(text: str) -> t.FrozenSet[str]:
    """Return the names of packages that are installed in several versions."""
    counts = Counter(name for name, _machine, _version in _rows(text))
    return frozenset(name for name, count in counts.items() if count > 1)


def doubles(text: str) -> t.List[t.Tuple[str, t.List[str]]]:
    """Return the parts of the driver that rpm has twice, each with its versions, oldest first.

    Modules that belong to one kernel may be there for several.
    """
    by_name: t.Dict[str, t.Set[str]] = {}
    for name, _machine, version in _rows(text):
        if "nvidia" in name and "-kmp-" not in name:
            by_name.setdefault(name, set()).add(version)
    twice = sorted((name, versions) for name, versions in by_name.items() if len(versions) > 1)
    return [(name, sorted(versions, key=version_key)) for name, versions in twice]


def parse_repoquery(text: str, names: t.Collection[str]) -> t.Dict[str, Policy]:
    """Parse dnf's output in DNF_FORMAT; names may have version and architecture."""
    versions: t.Dict[str, t.Set[str]] = {}
    for name, machine, version in _rows(text):
        for key in (name, f"{name}-{version.split(':')[-1]}.{machine}"):
            if key in names:
                versions.setdefault(key, set()).add(version)
    return ordered(versions)


def ordered(offered: t.Mapping[str, t.Collection[str]]) -> t.Dict[str, Policy]:
    """Return the policies of packages by their offered versions, which are sorted, newest first."""
    newest = {
        name: sorted(versions, key=version_key, reverse=True) for name, versions in offered.items()
    }
    return {name: Policy(versions[0], tuple(versions)) for name, versions in newest.items()}


def parse_enabled(text: str) -> str:
    """Return the stream in dnf's file of a module, empty if it is not enabled."""
    values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return values.get("stream", "") if values.get("state") == "enabled" else ""


def is_disabled(text: str) -> bool:
    """Return whether a module is disabled by dnf's file of it."""
    return re.search(r"^state *= *disabled$", text, re.M) is not None


def parse_info(text: str) -> t.Dict[str, t.Tuple[t.Tuple[str, str, str], ...]]:
    """Return the packages of each stream from ``dnf module info``, which has a paragraph for each build."""
    result: t.Dict[str, t.Tuple[t.Tuple[str, str, str], ...]] = {}
    for paragraph in re.split(r"\n\s*\n", text):
        stream = re.search(r"^Stream +: (\S+)", paragraph, flags=re.M)
        if stream:
            rows = tuple(
                (name, machine, version if epoch == "0" else f"{epoch}:{version}")
                for name, epoch, version, machine in ARTIFACT.findall(paragraph)
            )
            result[stream[1]] = (*result.get(stream[1], ()), *rows)
    return result


def parse_dnf_locks(text: str) -> t.FrozenSet[str]:
    """Return the packages in dnf's list of version locks."""
    lines = (line.strip() for line in text.split("\n"))
    rows = (line.rsplit("-", 2) for line in lines if line and line[0] not in "#!")
    return frozenset(row[0] for row in rows if len(row) == 3)


def parse_dnf5_locks(text: str) -> t.FrozenSet[str]:
    """Return the packages that dnf 5 keeps at one version, from its file, which has a block for each."""
    blocks = re.split(r"^\[\[packages\]\]$", text, flags=re.M)[1:]
    exact = (block for block in blocks if re.search(r'^comparator *= *"=+"', block, flags=re.M))
    names_by_block = (re.findall(r'^name *= *"(.*)"', block, re.M) for block in exact)
    return frozenset(names[0] for names in names_by_block if names)


def writer(locks: str, files: t.Collection[str]) -> str:
    """Return the process that has locked one of the files, given by inode, in /proc/locks; empty for none."""
    rows = (line.split() for line in locks.split("\n"))
    writes = (row for row in rows if len(row) == 8 and row[3] == "WRITE")
    return next((row[4] for row in writes if row[5].rsplit(":", 1)[-1] in files), "")


def parse_dnf_transaction(text: str) -> Simulation:
    """Parse the table of a transaction that dnf has not carried out."""
    changes, section = [], ""
    for line in text.split("\n"):
        if line.endswith(":") and line[:1] not in ("", " "):
            section = SECTIONS.get(line[:-1].split(" ")[0], "")
        match = re.match(r"^ (\S+)(?:\s|$)", line)
        if match and section:
            changes.append((section, match[1]))
        elif not line.strip():
            section = ""
    return Simulation.of(changes)


def parse_repositories(text: str) -> t.Dict[str, t.Dict[str, str]]:
    """Return the repositories in a file of dnf's or zypper's, each with its options."""
    import configparser  # for previews alone: imports are compiled on the node each time

    parser = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",)
    )
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def parse_unanswered(text: str) -> t.Tuple[str, str]:
    """Return the repository that made dnf give up, with its reason; empty if none did."""
    match = UNANSWERED.search(text)
    return (match[2], match[1]) if match else ("", "")


def parse_dnf_versions(text: str) -> t.Dict[str, str]:
    """Return the packages that a transaction's table installs, with their versions without epoch."""
    expected, section = {}, ""
    for line in text.split("\n"):
        # A name that is too long for its column has a line of its own.
        match = re.match(r"^ (\S+) +(\S+) +(\S+) +\S", line)
        if line.endswith(":") and line[:1] not in ("", " "):
            section = SECTIONS.get(line[:-1].split(" ")[0], "")
        elif not line.strip():
            section = ""
        elif match and section in ("new", "changed"):
            expected[match[1]] = match[3].split(":")[-1]
    return expected


def has(simulation: Simulation, package: str) -> bool:
    """Return whether a transaction installs a package, whose name may have a version."""
    names = (*simulation.new, *simulation.changed)
    return any(
        package == name or re.fullmatch(rf"{re.escape(name)}-\d.*", package) for name in names
    )


def parse_needs(text: str) -> t.List[t.Tuple[str, str]]:
    """Return the needed capabilities in ``rpm --erase --test``, each with the package that needs it."""
    rows = re.findall(r"^\s*(.+?) is needed by (?:\(installed\) )?(\S+)$", text, flags=re.M)
    # The user is name-version-release.architecture.
    return [
        (capability, user.rsplit("-", 2)[0])
        for needed, user in rows
        for capability in _capabilities(needed)
    ]


def _capabilities(needed: str) -> t.List[str]:
    """Return the names in a dependency; of a rich one, (A or B = V if C), all but its condition."""
    if not needed.startswith("("):
        return [needed.split(" ")[0]]
    capabilities, before = [], ""
    for word in needed.split(" "):
        name = word.lstrip("(")
        while name.count(")") > name.count("("):
            name = name[:-1]
        if before not in (*COMPARED, *CONDITIONS) and name not in (*COMPARED, *CONDITIONS, *JOINED):
            capabilities.append(name)
        before = word
    return capabilities


def version_key(version: str) -> t.Tuple[t.Any, ...]:
    """Return a key that sorts versions, epoch:version-release, as rpm does."""
    epoch, _colon, evr = version.rpartition(":")
    return tuple(map(_parts, (epoch or "0", *evr.partition("-")[::2])))


def _parts(text: str) -> t.List[t.Tuple[t.Any, ...]]:
    """Return the ranks of a version's parts: a tilde is older than the end, and digits are newer than letters."""
    ranks = {"~": (0,), "^": (2,)}
    tokens = re.findall(r"\d+|[A-Za-z]+|~|\^", text)
    return [
        ranks.get(token, (4, int(token)) if token.isdigit() else (3, token)) for token in tokens
    ] + [(1,)]
