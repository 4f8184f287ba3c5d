# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository of packages that the user names, and the files that make a node know it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError
from .pgp import PublicKey, armoured, binary, is_armoured, read

URL = re.compile(r"(?:https?|file)://([^\s\"'#@/:]*)[^\s\"'#@]*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
RPM_PRIORITY = 50
RPM_FAMILIES = ("rhel", "suse")


@dataclasses.dataclass(frozen=True)
class Repository:
    """What the user says of it.

    ``suite`` ends in a slash where it is the path of a flat apt repository. ``key`` is a key's text, or
    its path on the node; ``key_fingerprints`` are those of all primary keys in it, in capitals.
    dnf and zypper check the signatures of packages, of the repository's lists, or of both. Lists that
    are not signed come over http only with ``plain_http``.
    """

    url: str
    key: str
    suite: str = "/"
    components: t.Tuple[str, ...] = ()
    key_fingerprints: t.Tuple[str, ...] = ()
    signed_metadata: bool = False
    signed_packages: bool = True
    plain_http: bool = False

    @property
    def key_path(self) -> str:
        """Return the path of the key on the node, empty where the text is given."""
        return "" if is_armoured(self.key) else self.key


@dataclasses.dataclass(frozen=True)
class Place:
    """The files of one repository: their name, what it is called, and the module that writes them."""

    name: str
    title: str
    module: str

    @property
    def header(self) -> str:
        """Return the first line of the files."""
        return f"# Written by {self.module}.\n"

    @property
    def sources(self) -> str:
        """Return apt's list of sources."""
        return f"/etc/apt/sources.list.d/{self.name}.sources"

    @property
    def apt_keys(self) -> t.Tuple[str, str]:
        """Return apt's key: where it was written in ASCII before, and where it is."""
        return f"/etc/apt/keyrings/{self.name}.asc", f"/etc/apt/keyrings/{self.name}.gpg"

    @property
    def rpm_key(self) -> str:
        """Return rpm's key."""
        return f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{self.name}"

    @property
    def rpm_repositories(self) -> t.Dict[str, str]:
        """Return the repository files by family."""
        return {
            "rhel": f"/etc/yum.repos.d/{self.name}.repo",
            "suse": f"/etc/zypp/repos.d/{self.name}.repo",
        }

    @property
    def paths(self) -> t.Tuple[str, ...]:
        """Return all files that may be there."""
        return (self.sources, *self.apt_keys, self.rpm_key, *self.rpm_repositories.values())


def parse(values: t.Mapping[str, t.Any]) -> Repository:
    """Return the repository; InputError names the key that cannot be meant."""
    url, suite, key = values["url"], values["suite"], values["key"]
    components = tuple(values["components"])
    if not URL.fullmatch(url):
        raise InputError.of(
            "repository.url", url, "an address with http, https or file, without a password in it"
        )
    if not all(WORD.fullmatch(part) for part in suite.split("/") if part not in ("", ".")):
        raise InputError.of("repository.suite", suite, "a suite, or the path of a flat repository")
    for name in components:
        if not WORD.fullmatch(name):
            raise InputError.of("repository.components", name, "names of components")
    if suite.endswith("/") == bool(components):
        raise InputError.of(
            "repository.components",
            list(components),
            f"none for the flat repository {suite!r}, and at least one for a suite",
        )
    if not is_armoured(key) and not key.startswith("/"):
        raise InputError.of(
            "repository.key", key[:40], "an ASCII-armoured public key, or its path on the node"
        )
    pinned = tuple(one.replace(" ", "").upper() for one in values["key_fingerprints"])
    for one in pinned:
        if not FINGERPRINT.fullmatch(one):
            raise InputError.of("repository.key_fingerprints", one, "40 or 64 hexadecimal digits")
    if not pinned and not is_armoured(key):
        raise InputError.of(
            "repository.key_fingerprints", [], "the key's fingerprint, as a file may change"
        )
    metadata, packages = values["signed_metadata"], values.get("signed_packages", True)
    if not (metadata or packages):
        raise InputError.of(
            "repository.signed_packages", packages, "true, or signed_metadata to be true"
        )
    plain = values.get("plain_http", False)
    return Repository(url, key, suite, components, pinned, metadata, packages, plain)


def check_key(repository: Repository, text: t.Optional[str]) -> t.Tuple[PublicKey, ...]:
    """Return the keys in the key's text; InputError where it is not the key that is meant."""
    if text is None:
        raise InputError.of("repository.key", repository.key, "a file that is there on the node")
    found = read(text, "repository.key")
    strangers = sorted({one.fingerprint for one in found} - set(repository.key_fingerprints))
    if repository.key_fingerprints and strangers:
        raise InputError.of(
            "repository.key_fingerprints",
            list(repository.key_fingerprints),
            f"those of all keys in the file, which has {', '.join(strangers)} too",
        )
    return found


def files(
    repository: Repository, place: Place, family: str, keys: t.Sequence[PublicKey]
) -> t.Dict[str, str]:
    """Return the files that make a node of a family know the repository, by their paths."""
    if family in RPM_FAMILIES:
        _check_transport(repository)
        text = _repo(repository, place, family)
        return {place.rpm_key: armoured(keys), place.rpm_repositories[family]: text}
    _ascii, path = place.apt_keys
    components = " ".join(repository.components)
    text = f"{place.header}Types: deb\nURIs: {repository.url}\nSuites: {repository.suite}\n"
    text += f"Components: {components}\n" if components else ""
    return {path: binary(keys), place.sources: text + f"Signed-By: {path}\n"}


def _check_transport(repository: Repository) -> None:
    """Refuse lists that anybody on the way can exchange for old ones: their packages are signed too."""
    private = not repository.url.startswith("http:")
    if not (private or repository.signed_metadata or repository.plain_http):
        raise InputError.of(
            "repository.url",
            repository.url,
            "https, as the lists are not signed and anybody on the way could keep the node on old packages; "
            "or signed_metadata: true where they are signed, or plain_http: true to take that risk",
        )


def _repo(repository: Repository, place: Place, family: str) -> str:
    packages = "1" if repository.signed_packages else "0"
    values = {
        "name": place.title,
        "baseurl": repository.url,
        "enabled": "1",
        "gpgcheck": packages,
        "repo_gpgcheck": "1" if repository.signed_metadata else "0",
        "gpgkey": f"file://{place.rpm_key}",
        "priority": str(RPM_PRIORITY),
    }
    if family == "suse":
        values.update(autorefresh="0", type="rpm-md", pkg_gpgcheck=packages)
    lines = "".join(f"{key}={value}\n" for key, value in values.items())
    return f"{place.header}[{place.name}]\n{lines}"


def texts(found: t.Mapping[str, str], place: Place) -> t.Dict[str, str]:
    """Return the files for a user, to whom a key says nothing."""
    keys = (*place.apt_keys, place.rpm_key)
    return {path: "a key" if path in keys else text for path, text in sorted(found.items())}


def is_trusted(fingerprint: str, trusted: t.Iterable[str]) -> bool:
    """Tell whether rpm has a key: older ones call it by the last digits of its fingerprint."""
    versions = (one.split("-")[0].upper() for one in trusted)
    return any(version and fingerprint.endswith(version) for version in versions)
