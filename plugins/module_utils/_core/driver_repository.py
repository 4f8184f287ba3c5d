# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository that the user names for the driver: the files that make a node know it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .errors import InputError
from .pgp import fingerprints, is_armoured

ID = "gpu-node-driver"
HEADER = "# Written by gpu.node.nvidia_driver.\n"
SOURCES = f"/etc/apt/sources.list.d/{ID}.sources"
PREFERENCES = f"/etc/apt/preferences.d/{ID}"
APT_KEYS = (f"/etc/apt/keyrings/{ID}.asc", f"/etc/apt/keyrings/{ID}.gpg")
RPM_KEY = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{ID}"
REPOSITORIES = {"rhel": f"/etc/yum.repos.d/{ID}.repo", "suse": f"/etc/zypp/repos.d/{ID}.repo"}
PATHS = (SOURCES, PREFERENCES, *APT_KEYS, RPM_KEY, *REPOSITORIES.values())
URL = re.compile(r"(?:https?|file)://([^\s\"'#@/:]*)[^\s\"'#@]*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
# The repository is preferred for these only: of all else the distribution's own packages win.
PREFERRED = "nvidia-* libnvidia-* libcuda* libnvcuvid* libnvoptix* libxnvctrl* firmware-nvidia-* cuda-drivers*"
APT_PRIORITY, APT_OTHERS = 600, 400
RPM_PRIORITY = 50


@dataclasses.dataclass(frozen=True)
class Repository:
    """What the user says of it.

    ``suite`` ends in a slash where it is the path of a flat apt repository. ``key`` is a key's text, or
    its path on the node; ``key_fingerprints`` are those of all primary keys in it, in capitals.
    """

    url: str
    key: str
    suite: str = "/"
    components: t.Tuple[str, ...] = ()
    key_fingerprints: t.Tuple[str, ...] = ()
    signed_metadata: bool = False

    @property
    def key_path(self) -> str:
        """Return the path of the key on the node, empty where the text is given."""
        return "" if is_armoured(self.key) else self.key


def parse(values: t.Optional[t.Mapping[str, t.Any]], source: str) -> t.Optional[Repository]:
    """Return the repository; InputError names the key that cannot be meant."""
    if values is None or source != "repository":
        if values is not None:
            raise InputError.of("repository", values.get("url"), "source to be repository with it")
        if source == "repository":
            raise InputError.of("repository", None, "its url and its key, with source: repository")
        return None
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
    return Repository(url, key, suite, components, pinned, values["signed_metadata"])


def check_key(repository: Repository, text: t.Optional[str]) -> t.Tuple[str, ...]:
    """Return the fingerprints of the key's text; InputError where it is not the key that is meant."""
    if text is None:
        raise InputError.of("repository.key", repository.key, "a file that is there on the node")
    found = fingerprints(text, "repository.key")
    strangers = sorted(set(found) - set(repository.key_fingerprints))
    if repository.key_fingerprints and strangers:
        raise InputError.of(
            "repository.key_fingerprints",
            list(repository.key_fingerprints),
            f"those of all keys in the file, which has {', '.join(strangers)} too",
        )
    return found


def files(repository: Repository, family: str, key: str) -> t.Dict[str, str]:
    """Return the files that make a node of a family know the repository, by their paths."""
    if family in REPOSITORIES:
        return {RPM_KEY: key, REPOSITORIES[family]: _repo(repository, family)}
    path = APT_KEYS[0 if is_armoured(key) else 1]
    components = " ".join(repository.components)
    text = f"{HEADER}Types: deb\nURIs: {repository.url}\nSuites: {repository.suite}\n"
    text += f"Components: {components}\n" if components else ""
    text += f"Signed-By: {path}\n"
    match = URL.match(repository.url)
    host = match[1] if match else ""
    origin = f'Pin: origin "{host}"'
    pin = f"{HEADER}Package: {PREFERRED}\n{origin}\nPin-Priority: {APT_PRIORITY}\n"
    # A repository without a host cannot be told from others on the node's own disk.
    pin += f"\nPackage: *\n{origin}\nPin-Priority: {APT_OTHERS}\n" if host else ""
    return {path: key, SOURCES: text, PREFERENCES: pin}


def _repo(repository: Repository, family: str) -> str:
    values = {
        "name": "The NVIDIA driver, for gpu.node",
        "baseurl": repository.url,
        "enabled": "1",
        "gpgcheck": "1",
        "repo_gpgcheck": "1" if repository.signed_metadata else "0",
        "gpgkey": f"file://{RPM_KEY}",
        "priority": str(RPM_PRIORITY),
    }
    if family == "suse":
        values.update(autorefresh="0", type="rpm-md", pkg_gpgcheck="1")
    lines = "".join(f"{key}={value}\n" for key, value in values.items())
    return f"{HEADER}[{ID}]\n{lines}"


def texts(found: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Return the files for a user, to whom a key says nothing."""
    keys = (*APT_KEYS, RPM_KEY)
    return {path: "a key" if path in keys else text for path, text in sorted(found.items())}


def is_trusted(fingerprint: str, trusted: t.Iterable[str]) -> bool:
    """Tell whether rpm has a key: older ones call it by the last digits of its fingerprint."""
    versions = (one.split("-")[0].upper() for one in trusted)
    return any(version and fingerprint.endswith(version) for version in versions)
