# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository of packages that the user names: the files that make a node know it, and the step to them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError, NodeError
from ..steps import Step
from .apt import Source, stanza
from .pgp import PublicKey, armoured, binary, is_armoured, read

URL = re.compile(r"(?:https?|file)://([^\s\"'#@/:]*)[^\s\"'#@]*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
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
    """The files of one repository: their name, what it is called, and the module that writes them.

    ``preferred`` are the packages, as apt's patterns, that are taken from it before all others; of the
    rest the distribution's own win.
    """

    name: str
    title: str
    module: str
    preferred: str = ""

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
    def preferences(self) -> str:
        """Return apt's preferences."""
        return f"/etc/apt/preferences.d/{self.name}"

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
        found = (self.sources, *self.apt_keys, self.rpm_key, *self.rpm_repositories.values())
        return (*found, self.preferences) if self.preferred else found


class Known(t.NamedTuple):
    """What a node has of a repository.

    ``files`` are ours by their paths, ``key`` is the text of a key that is a file of the node,
    ``trusted`` are rpm's keys.
    """

    files: t.Mapping[str, str] = {}
    key: t.Optional[str] = None
    trusted: t.Tuple[str, ...] = ()


def step(
    repository: t.Optional[Repository],
    place: Place,
    family: str,
    known: Known,
    sources: t.Iterable[Source],
) -> t.Optional[Step]:
    """Return the step, None where the node has the files that are wanted and no others of ours."""
    if repository is None:
        stale = tuple(sorted(known.files))
        params = {"files": {}, "stale": stale, "trust": (), "forget": True}
        summary = f"forget the repository: remove {', '.join(stale)}"
        return Step("repository", summary, params) if stale else None
    _check_duplicate(repository, place, sources)
    keys = check_key(repository, known.key if repository.key_path else repository.key)
    wanted = files(repository, place, family, keys)
    write = {path: one for path, one in wanted.items() if known.files.get(path) != one}
    stale = tuple(sorted(set(known.files) - set(wanted)))
    marks = (one.fingerprint for one in keys if family in RPM_FAMILIES)
    trust = tuple(one for one in marks if not is_trusted(one, known.trusted))
    words = [f"write {', '.join(sorted(write))}"] if write else []
    words += [f"remove {', '.join(stale)}"] if stale else []
    words += [f"teach rpm the key {', '.join(trust)}"] if trust else []
    if not words:
        return None
    params = {"files": write, "stale": stale, "trust": trust, "key": place.rpm_key, "forget": False}
    summary = f"name the repository {repository.url}: {'; '.join(words)}"
    return Step("repository", summary, params)


def _check_duplicate(repository: Repository, place: Place, sources: t.Iterable[Source]) -> None:
    """Refuse a repository that another file has as well: apt refuses two keys for one address."""
    for one in sources:
        same = one.uri.rstrip("/") == repository.url.rstrip("/")
        same = same and one.suite.strip("/") == repository.suite.strip("/")
        if same and one.signed_by not in place.apt_keys:
            raise NodeError(
                f"the repository {repository.url} is in another file of /etc/apt already",
                cause="two entries for one address must agree in their key, or apt stops working",
                hint="remove that entry, or the package that brought it (such as cuda-keyring), or name no "
                "repository, then run again",
            )


def parse(values: t.Mapping[str, t.Any]) -> Repository:
    """Return the repository; InputError names the key that cannot be meant."""
    url, suite, key = values["url"], values["suite"], values["key"]
    components = tuple(values["components"])
    pinned = tuple(one.replace(" ", "").upper() for one in values["key_fingerprints"])
    metadata, packages = values["signed_metadata"], values.get("signed_packages", True)
    path = [part for part in suite.split("/") if part not in ("", ".")]
    as_text = "an ASCII-armoured public key, or its path on the node"
    as_file = "the key's fingerprint, as a file may change"
    digits = "40 or 64 hexadecimal digits"
    none = f"none for the flat repository {suite!r}, and at least one for a suite"
    address = "an address with http, https or file, without a password in it"
    checks: t.Tuple[t.Tuple[t.Any, str, t.Any, str], ...] = (
        (URL.fullmatch(url), "url", url, address),
        (
            all(map(WORD.fullmatch, path)),
            "suite",
            suite,
            "a suite, or the path of a flat repository",
        ),
        *((WORD.fullmatch(one), "components", one, "names of components") for one in components),
        (suite.endswith("/") != bool(components), "components", list(components), none),
        (is_armoured(key) or key.startswith("/"), "key", key[:40], as_text),
        *((FINGERPRINT.fullmatch(one), "key_fingerprints", one, digits) for one in pinned),
        (pinned or is_armoured(key), "key_fingerprints", [], as_file),
        (metadata or packages, "signed_packages", packages, "true, or signed_metadata to be true"),
    )
    for good, name, value, expected in checks:
        if not good:
            raise InputError.of(f"repository.{name}", value, expected)
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
    source = Source(repository.url, repository.suite, repository.components, path)
    found = {path: binary(keys), place.sources: place.header + stanza(source)}
    return {**found, place.preferences: _pins(repository, place)} if place.preferred else found


def _pins(repository: Repository, place: Place) -> str:
    match = URL.match(repository.url)
    host = match[1] if match else ""
    origin = f'Pin: origin "{host}"'
    pins = f"{place.header}Package: {place.preferred}\n{origin}\nPin-Priority: 600\n"
    # A repository without a host cannot be told from others on the node's own disk.
    return pins + (f"\nPackage: *\n{origin}\nPin-Priority: 400\n" if host else "")


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
        "priority": "50",
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
