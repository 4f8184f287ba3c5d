# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository of packages that the user names: its files, and the step that writes them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError, NodeError
from ..steps import Plan, Step
from ..text.masking import masked_text
from .apt import Source, stanza
from .pgp import PublicKey, armoured, binary, is_armoured, read

URL = re.compile(r"(?:https?|file)://([^\s\"'#@/:]*)[^\s\"'#@]*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
OWN_KEYS = "/etc/apt/keyrings/gpu-node-"
RPM_FAMILIES = ("rhel", "suse")
# The steps that change the package manager's lists.
BEFORE = frozenset({"repair", "repository", "sources", "refresh"})
ADDRESS = "an address with http, https or file, without a password in it"


@dataclasses.dataclass(frozen=True)
class Repository:
    """The user's options of a repository.

    Attributes:
        url: Its address.
        key: The key's text, its path on the node, or its address.
        suite: The suite, or, with a slash at its end, the path of a flat apt repository.
        components: The components of the suite.
        key_fingerprints: Those of all primary keys in the key, in capitals.
        signed_metadata: Whether dnf and zypper check the signatures of its lists.
        signed_packages: Whether they check the signatures of packages.
        plain_http: Whether lists that are not signed may come over http.
        named: The option that has the address.
    """

    url: str
    key: str
    suite: str = "/"
    components: t.Tuple[str, ...] = ()
    key_fingerprints: t.Tuple[str, ...] = ()
    signed_metadata: bool = False
    signed_packages: bool = True
    plain_http: bool = False
    named: str = "url"

    @property
    def key_path(self) -> str:
        """Return the path of the key on the node, empty if it is a text or an address."""
        return self.key if self.key.startswith("/") else ""

    @property
    def key_url(self) -> str:
        """Return the address of the key, empty if it is a text or a path."""
        return self.key if URL.fullmatch(self.key) else ""


class Place(t.NamedTuple):
    """The paths of the files of a repository.

    Attributes:
        name: The name in the paths.
        title: The repository's name for people.
        header: The first line of the files.
        preferred: Packages, as apt's patterns, that are preferred from it; of others the distribution's own win.
        sources: apt's entry.
        all_preferences: apt's preferences, at the earlier and at the present path. Of two preferences for a package,
            apt follows the first: ours sort last.
        apt_keys: apt's key, at the earlier and at the present path.
        rpm_key: rpm's key.
        rpm_repositories: The files for dnf and zypper, by family.
    """

    name: str
    title: str
    header: str
    preferred: str
    sources: str
    all_preferences: t.Tuple[str, str]
    apt_keys: t.Tuple[str, str]
    rpm_key: str
    rpm_repositories: t.Mapping[str, str]

    @classmethod
    def of(cls, name: str, title: str, module: str, preferred: str = "") -> Place:
        """Return the paths of the files that a module writes."""
        key = f"/etc/apt/keyrings/{name}"
        return cls(
            *(name, title, f"# Written by {module}.\n", preferred),
            f"/etc/apt/sources.list.d/{name}.sources",
            (f"/etc/apt/preferences.d/{name}", f"/etc/apt/preferences.d/zz-{name}"),
            (f"{key}.asc", f"{key}.gpg"),
            f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{name}",
            {"rhel": f"/etc/yum.repos.d/{name}.repo", "suse": f"/etc/zypp/repos.d/{name}.repo"},
        )

    @property
    def preferences(self) -> str:
        """Return the path of apt's preferences."""
        return self.all_preferences[1]

    @property
    def paths(self) -> t.Tuple[str, ...]:
        """Return the paths of all files that may be there."""
        paths = (self.sources, *self.apt_keys, self.rpm_key, *self.rpm_repositories.values())
        return (*paths, *self.all_preferences) if self.preferred else paths

    def key(self, family: str) -> str:
        """Return the path of the key in a family."""
        return self.rpm_key if family in RPM_FAMILIES else self.apt_keys[1]


class Known(t.NamedTuple):
    """The files of a repository on a node.

    ``files`` are our texts by path, ``key`` is the text of a key that is a file of the node, and ``trusted`` are rpm's
    keys.
    """

    files: t.Mapping[str, str] = {}
    key: t.Optional[str] = None
    trusted: t.Tuple[str, ...] = ()


class Fetch(t.NamedTuple):
    """A key to fetch: the repository that has its address, the family, its path on the node, and rpm's keys."""

    repository: Repository
    family: str
    path: str
    trusted: t.Tuple[str, ...]


def step(
    repository: t.Optional[Repository],
    place: Place,
    family: str,
    known: Known,
    sources: t.Iterable[Source],
) -> t.Optional[Step]:
    """Return the step that writes a repository's files, or removes them, None if there is nothing to do.

    If another file of apt has the repository, its entry is used: two entries for one address must agree in their key,
    or apt stops working.
    """
    if repository is None:
        stale = tuple(sorted(known.files))
        params = {"files": {}, "stale": stale, "trust": (), "forget": True}
        summary = f"forget the repository: remove {', '.join(stale)}"
        return Step("repository", summary, params) if stale else None
    entries, path = _entries(repository, place, sources), place.key(family)
    _check_entries(repository, entries)
    keys = () if entries else _keys(repository, known, path)
    desired = _preferences(repository, place) if entries else files(repository, place, family, keys)
    spared = {*desired} if entries else {path, *desired}
    write = {name: text for name, text in desired.items() if known.files.get(name) != text}
    stale = tuple(sorted(set(known.files) - spared))
    trust = untrusted(keys, family, known.trusted)
    fetch = None if keys or entries else Fetch(repository, family, path, known.trusted)
    pinned = " or ".join(repository.key_fingerprints)
    first = f"fetch the key {repository.key_url}, which must be {pinned}, to {path}"
    actions = [first] if fetch else []
    actions += [f"write {', '.join(sorted(write))}"] if write else []
    actions += [f"remove {', '.join(stale)}"] if stale else []
    actions += [f"teach rpm the key {', '.join(trust)}"] if trust else []
    if not actions:
        return None
    params = {"files": write, "stale": stale, "trust": trust, "key": place.rpm_key, "forget": False}
    verb = "use the entry that apt has for" if entries else "name"
    summary = f"{verb} the repository {repository.url}: {'; '.join(actions)}"
    return Step("repository", summary, {**params, "fetch": fetch})


def followed(first: Plan, later: Plan) -> Plan:
    """Return a plan with the steps of the first that make sources known, and those of a later one after them."""
    before = [step for step in first.steps if step.action in BEFORE]
    actions = {step.action for step in before}
    further = (step for step in later.steps if step.action not in actions)
    return dataclasses.replace(later, steps=(*before, *further))


def _keys(repository: Repository, known: Known, path: str) -> t.Tuple[PublicKey, ...]:
    """Return the keys, none if they have to be fetched: the key of an address is not fetched again."""
    if not repository.key_url:
        return check_key(repository, known.key if repository.key_path else repository.key)
    try:
        return check_key(repository, known.files.get(path))
    except InputError:
        return ()


def fetched(fetch: Fetch, text: str) -> t.Tuple[t.Dict[str, str], t.Tuple[str, ...]]:
    """Return the key's file by its path, and the fingerprints that rpm has to trust.

    Raises:
        NodeError: if the key is another than the pinned one.
    """
    repository = fetch.repository
    try:
        keys = read(text, "key")
        fingerprints = ", ".join(key.fingerprint for key in keys)
        cause = f"it is {fingerprints}, and {' or '.join(repository.key_fingerprints)} is pinned"
    except InputError as error:
        keys, cause = (), error.cause
    if not keys or {key.fingerprint for key in keys} - set(repository.key_fingerprints):
        raise NodeError(
            f"the key at {repository.key_url} is not the one that is pinned, and nothing was changed",
            cause=cause,
            hint="find out who has changed it; where its publisher says that it is another one now, name that in "
            "key_fingerprints",
        )
    trust = untrusted(keys, fetch.family, fetch.trusted)
    return {fetch.path: key_text(keys, fetch.family)}, trust


def untrusted(
    keys: t.Iterable[PublicKey], family: str, trusted: t.Iterable[str]
) -> t.Tuple[str, ...]:
    """Return the fingerprints that rpm has to trust, and does not yet."""
    marks = [key.fingerprint for key in keys if family in RPM_FAMILIES]
    return tuple(mark for mark in marks if not is_trusted(mark, tuple(trusted)))


def _check_entries(repository: Repository, entries: t.Collection[Source]) -> None:
    """Refuse to use an entry that apt does not verify, or that another role has written and may remove."""
    roles = [source.signed_by for source in entries if source.signed_by.startswith(OWN_KEYS)]
    if roles:
        raise NodeError(
            f"the repository {repository.url} is in another file of /etc/apt already",
            cause=f"another role of gpu.node has written it, with the key {roles[0]}",
            hint="have one role name that repository, then run again",
        )
    if any(source.is_unverified for source in entries):
        raise NodeError(
            f"the repository {repository.url} is in another file of /etc/apt already, and is not verified there",
            cause="its entry has one of the options trusted, allow-insecure, and allow-weak, and entries of one "
            "address must agree in them",
            hint="take the option out of that entry, or remove the entry, then run again",
        )


def is_elsewhere(repository: Repository, place: Place, sources: t.Iterable[Source]) -> bool:
    """Return whether another file of apt has the repository."""
    return bool(_entries(repository, place, sources))


def _entries(repository: Repository, place: Place, sources: t.Iterable[Source]) -> t.List[Source]:
    """Return the entries of other files for the repository."""
    return [
        source
        for source in sources
        if _alike(source.uri, repository.url) or _alike(repository.url, source.uri)
        if source.suite.strip("/") == repository.suite.strip("/")
        if source.signed_by not in place.apt_keys
    ]


def _alike(url: str, other_url: str) -> bool:
    """Return whether two addresses can be the same: apt replaces $(ARCH) by the architecture."""
    pattern = re.escape(url.rstrip("/")).replace(re.escape("$(ARCH)"), "[^/]+")
    return re.fullmatch(pattern, other_url.rstrip("/")) is not None


def parse(values: t.Mapping[str, t.Any]) -> Repository:
    """Return the repository.

    Raises:
        InputError: if an option is invalid, with its key.
    """
    url, suite, key = values.get("url") or "", values["suite"], values.get("key") or ""
    components = tuple(values["components"])
    pinned = tuple(text.replace(" ", "").upper() for text in values["key_fingerprints"])
    metadata, packages = bool(values["signed_metadata"]), values.get("signed_packages") is not False
    path = [part for part in suite.split("/") if part not in ("", ".")]
    as_text = "an ASCII-armoured public key, its path on the node, or its address"
    as_file = "the key's fingerprint, as a file may change, and so may what is at an address"
    digits = "40 or 64 hexadecimal digits"
    none = f"none for the flat repository {suite!r}, and at least one for a suite"
    known = is_armoured(key) or key.startswith("/") or URL.fullmatch(key)
    checks: t.Tuple[t.Tuple[t.Any, str, t.Any, str], ...] = (
        (url, "url", None, "the address of the repository, or preset: nvidia instead"),
        (URL.fullmatch(url), "url", masked_text(url), ADDRESS),
        (key, "key", None, f"{as_text}, or preset: nvidia instead of url and key"),
        (
            all(map(WORD.fullmatch, path)),
            "suite",
            suite,
            "a suite, or the path of a flat repository",
        ),
        *(
            (WORD.fullmatch(component), "components", component, "names of components")
            for component in components
        ),
        (suite.endswith("/") != bool(components), "components", list(components), none),
        (known, "key", masked_text(key)[:40], as_text),
        *(
            (FINGERPRINT.fullmatch(fingerprint), "key_fingerprints", fingerprint, digits)
            for fingerprint in pinned
        ),
        (pinned or is_armoured(key), "key_fingerprints", [], as_file),
        (metadata or packages, "signed_packages", packages, "true, or signed_metadata to be true"),
    )
    for good, name, value, expected in checks:
        if not good:
            raise InputError.of(f"repository.{name}", value, expected)
    plain, named = values.get("plain_http", False), values.get("named", "url")
    return Repository(url, key, suite, components, pinned, metadata, packages, plain, named)


def check_key(repository: Repository, text: t.Optional[str]) -> t.Tuple[PublicKey, ...]:
    """Return the keys in the key's text.

    Raises:
        InputError: if there is no text, or it has other keys than the pinned ones.
    """
    if text is None:
        raise InputError.of("repository.key", repository.key, "a file that is there on the node")
    keys, pinned = read(text, "repository.key"), repository.key_fingerprints
    strangers = sorted({key.fingerprint for key in keys} - set(pinned))
    if pinned and strangers:
        expected = f"those of all keys in the file, which has {', '.join(strangers)} too"
        raise InputError.of("repository.key_fingerprints", list(pinned), expected)
    return keys


def files(
    repository: Repository, place: Place, family: str, keys: t.Sequence[PublicKey]
) -> t.Dict[str, str]:
    """Return the texts of a repository's files for a family, by their paths; without keys, those of the others."""
    path = place.key(family)
    texts_by_path = {path: key_text(keys, family)} if keys else {}
    if family in RPM_FAMILIES:
        _check_transport(repository)
        return {**texts_by_path, place.rpm_repositories[family]: _repo(repository, place, family)}
    source = Source(repository.url, repository.suite, repository.components, path)
    texts_by_path[place.sources] = place.header + stanza(source)
    return {**texts_by_path, **_preferences(repository, place)}


def key_text(keys: t.Sequence[PublicKey], family: str) -> str:
    """Return a key file as a family reads it."""
    return armoured(keys) if family in RPM_FAMILIES else binary(keys)


def _preferences(repository: Repository, place: Place) -> t.Dict[str, str]:
    """Return the file of preferences by its path, none if no packages are preferred."""
    if not place.preferred:
        return {}
    match = URL.match(repository.url)
    host = match[1] if match else ""
    origin = f'Pin: origin "{host}"'
    pins = f"{place.header}Package: {place.preferred}\n{origin}\nPin-Priority: 600\n"
    # Repositories without a host, on the node's own disk, can't be distinguished.
    pins += f"\nPackage: *\n{origin}\nPin-Priority: 400\n" if host else ""
    return {place.preferences: pins}


def _check_transport(repository: Repository) -> None:
    """Refuse lists that anyone on the network path can replace by old ones, whose packages are signed too."""
    private = not repository.url.startswith("http:")
    if not (private or repository.signed_metadata or repository.plain_http):
        raise InputError.of(
            f"repository.{repository.named}",
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


def texts(files_by_path: t.Mapping[str, str], place: Place) -> t.Dict[str, str]:
    """Return the texts of files for the diff, without those of keys."""
    keys = (*place.apt_keys, place.rpm_key)
    return {path: "a key" if path in keys else text for path, text in sorted(files_by_path.items())}


def is_trusted(fingerprint: str, trusted: t.Iterable[str]) -> bool:
    """Return whether rpm has a key; older versions name it by the last digits of its fingerprint."""
    versions = (version.split("-")[0].upper() for version in trusted)
    return any(version and fingerprint.endswith(version) for version in versions)
