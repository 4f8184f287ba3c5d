# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The output of zypper, its locks and its configuration."""

from __future__ import annotations

import configparser
import fnmatch
import re
import typing as t
import xml.etree.ElementTree as ET

from ..errors import NodeError
from .package import Policy, Simulation
from .rpm import ordered

# The fields that `zypper addlock NAME` writes, besides the name and a comment.
PLAIN = {"type": "package", "match_type": "glob", "case_sensitive": "on"}
SOLVABLES = {"to-install": "new", "to-remove": "removed"}
WILDCARD = re.compile(r"[*?\[]")
# name-version-release.architecture, maybe with the repository.
IN_THE_WAY = re.compile(r"remove lock to allow \w+ of (\S+)-[^-\s]+-[^-\s]+\.\w+")
SKIPPED = re.compile(r"Skipping repository '(.+)' because of the above error")
NOT_REFRESHED = "Some of the repositories have not been refreshed"
# Entries of libzypp's history that are no reason: zypp-media/mediaexception.cc, RepoManager.cc.
NO_REASON = re.compile(r"ABORT request|Unknown error reading|\[\|\] Error trying to read")
REPOSITORY = re.compile(r"^\[([^|\]]+)\|.*", re.M)
TOOK = re.compile(r" after \d+ ms(?=:)")
CURL = re.compile(r"^Error message: (.+)", re.M)


class Lock(t.NamedTuple):
    """An entry of the file of locks: its fields, and its text."""

    fields: t.Mapping[str, str]
    text: str

    @property
    def pattern(self) -> str:
        """Return the name or pattern of the packages."""
        return self.fields.get("solvable_name", "")

    @property
    def is_simple(self) -> bool:
        """Return whether it locks packages by name only, in any version and repository."""
        further = {key: value for key, value in self.fields.items() if key != "comment"}
        return {**PLAIN, "solvable_name": self.pattern} == further

    @property
    def name(self) -> str:
        """Return the package that it locks in every version, empty for another kind of lock."""
        return self.pattern if self.is_simple and not WILDCARD.search(self.pattern) else ""

    def fits(self, package: str) -> bool:
        """Return whether it may lock a package."""
        return fnmatch.fnmatchcase(package, self.pattern)

    @property
    def arguments(self) -> t.List[str]:
        """Return the arguments of zypper removelock for it."""
        repository = self.fields.get("repo", "")
        version = self.fields.get("version", "")
        name = f"{self.pattern} {version}" if version else self.pattern
        return [*(["--repo", repository] if repository else []), name]


def parse_locks(text: str) -> t.List[Lock]:
    """Parse zypper's file of locks."""
    locks = []
    for block in filter(str.strip, re.split(r"\n\s*\n", text)):
        rows = [line.partition(":") for line in block.split("\n") if ":" in line]
        locks.append(Lock({key.strip(): value.strip() for key, _colon, value in rows}, block))
    return locks


def locked(text: str, installed: t.Collection[str]) -> t.FrozenSet[str]:
    """Return the packages that are locked in every version: by name, or, if installed, by a pattern."""
    locks = [lock for lock in parse_locks(text) if lock.is_simple]
    names = {lock.name for lock in locks} - {""}
    names.update(name for name in installed if any(lock.fits(name) for lock in locks))
    return frozenset(names)


def without(text: str, names: t.Collection[str]) -> str:
    """Return the file's text without the plain locks of packages."""
    return "".join(f"\n{lock.text}\n\n" for lock in parse_locks(text) if lock.name not in names)


def in_the_way(text: str, refusal: str, ours: t.Collection[str]) -> t.List[Lock]:
    """Return the locks of packages in a refusal of zypper, without ours."""
    named = set(IN_THE_WAY.findall(refusal))
    foreign = [lock for lock in parse_locks(text) if lock.name not in ours]
    return [lock for lock in foreign if any(lock.fits(name) for name in named)]


def configuration(files: t.Mapping[str, str], locks: str) -> str:
    """Return one configuration of the files that zypper reads, by their paths, with another file of locks.

    ``files`` are the vendor's and the system's; later ones override earlier ones, and the system's those of the
    vendor with the same name.

    Raises:
        NodeError: if a file can't be read, with its path.
    """
    chosen: t.Dict[str, str] = {}
    for path in sorted(files, key=lambda file: file.startswith("/etc/")):
        chosen[path.split("/zypp/", 1)[1]] = path
    parser = _parser()
    for name in sorted(chosen, key=lambda path: ("/" in path, path)):
        try:
            parser.read_string(files[chosen[name]])
        except configparser.Error as error:
            raise NodeError(
                f"{chosen[name]} cannot be read",
                cause=str(error),
                hint="fix what it says, then run again",
            ) from error
    parser.read_string(f"[main]\nlocksfile.path = {locks}\n")
    # Each key once: of several, some versions of libzypp use the first and others the last.
    lines = []
    for section in parser.sections():
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in parser.items(section))]
    return "\n".join(lines) + "\n"


def _parser() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(
        strict=False,
        interpolation=None,
        delimiters=("=",),
        comment_prefixes=("#",),
        default_section="(none)",
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    return parser


def disabled(texts: t.Iterable[str]) -> t.List[str]:
    """Return the aliases of disabled repositories, from the texts of their files."""
    aliases = []
    for text in texts:
        for section in re.split(r"^\[", text, flags=re.M)[1:]:
            if re.search(r"^enabled\s*=\s*(?:0|no|off|false)\s*$", section, flags=re.M):
                aliases.append(section.split("]")[0])
    return sorted(aliases)


def _xml(text: str) -> ET.Element:
    try:
        return ET.fromstring(text)
    except ET.ParseError as error:
        cause = f"{error}: {text[:200]!r}"
        raise NodeError("zypper's answer can't be read", cause=cause) from error


def parse_search(text: str) -> t.Dict[str, Policy]:
    """Parse ``zypper --xmlout search --details``; what is only installed is not offered."""
    versions: t.Dict[str, t.Set[str]] = {}
    for solvable in _xml(text).iter("solvable"):
        if solvable.get("kind") == "package" and solvable.get("repository") != "(System Packages)":
            versions.setdefault(solvable.get("name", ""), set()).add(solvable.get("edition", ""))
    return ordered(versions)


def parse_summary(text: str) -> Simulation:
    """Parse ``zypper --xmlout install --dry-run``, which has more kinds of changes than dnf."""
    return Simulation.of(
        (SOLVABLES.get(part.tag, "changed"), str(solvable.get("name")))
        for summary in _xml(text).iter("install-summary")
        for part in summary
        for solvable in part.iter("solvable")
    )


def messages(text: str) -> str:
    """Return the problems in an answer of zypper in XML, each line once; any other text as it is."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError:
        return text
    every = list(root.iter("message"))
    # Messages about repositories that could not be read are replaced by short ones, at the end.
    texts = [message.text or "" for message in every]
    last = max((index for index, text in enumerate(texts) if SKIPPED.search(text)), default=-1)
    every = [message for message in every[last + 1 :] if NOT_REFRESHED not in (message.text or "")]
    wrong = [
        message
        for message in every
        if message.get("type") != "info" or (message.text or "").startswith("Problem:")
    ]
    wrong += [message for prompt in root.iter("prompt") for message in prompt.iter("description")]
    lines = [line for message in wrong or every for line in (message.text or "").split("\n")]
    lines += map(str, skipped(text))
    return "\n".join(dict.fromkeys(line for line in lines if line.strip()))


def failed_scripts(text: str) -> t.List[str]:
    """Return rpm's messages about scripts that have failed, although the packages may be installed."""
    lines = re.findall(r"^(?:error|warning): .*script(?:let)? failed.*", text, re.M)
    return list(dict.fromkeys(lines))


class Skipped(t.NamedTuple):
    """A repository that zypper could not read and went on without.

    Attributes:
        name: The repository's name.
        alias: Its alias. Empty if zypper does not say it.
        reason: zypper's own sentences.
    """

    name: str
    alias: str
    reason: str

    def __str__(self) -> str:
        return (
            f"zypper could not read the repository {self.name!r}, so what it offers is not known: "
            f"{self.reason}"
        )


def skipped(answer: str) -> t.List[Skipped]:
    """Return the repositories that were skipped for an answer in XML."""
    try:
        root = ET.fromstring(answer)
    except ET.ParseError:
        return []
    result, errors = [], ""
    for message in root.iter("message"):
        text = message.text or ""
        match = SKIPPED.search(text)
        if match:
            subject = REPOSITORY.search(errors)
            sentences = filter(None, (subject and subject[0], _reason(errors)))
            reason = "; ".join(dict.fromkeys(sentences))
            result.append(Skipped(match[1], subject[1] if subject else "", reason or text))
            errors = ""
        elif message.get("type") == "error":
            errors += f"{text}\n"
    return result


def _reason(errors: str) -> str:
    """Return the decisive sentence of libzypp's errors about one repository, or an empty string."""
    curl = CURL.search(errors)
    if curl:
        return TOOK.sub("", curl[1])
    history = re.findall(r"^ - (.+)", errors, re.M)
    return next((entry for entry in history if not NO_REASON.search(entry)), "")
