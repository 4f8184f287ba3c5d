# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release of the device plugin: its environment, with the listed libraries and no others.

The address of the package index may have a password, which is masked in errors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import re
import secrets
import typing as t
from urllib.parse import unquote, urlsplit

from ..._base.boot import PROGRAM
from ..._base.errors import InputError, NodeError
from ..._base.space import ENVIRONMENT
from ..._base.text import json_data
from ..._base.text.shown import counted
from ..._machine.host import Host, Measured
from ..._machine.room import Room
from ..failures import UNTRUSTED, is_full, of_pip

COMPLETE = ".complete"
# The names that the collection makes in the prefix, also of half-made links.
NAMES = ("bin", "current", "releases", "rollback.json", "bin.new", "current.new")
ASIDE = ".damaged"  # in the name of a damaged release while another one is made in its place
INTERPRETER = "bin/python3"
SETTINGS = "pyvenv.cfg"  # by which an interpreter knows that it is of an environment

# Of the Kubernetes client's two thousand files, those that are never loaded.
UNUSED = "/kubernetes/(aio/|client/(api|models)/(?!__init__))"
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
PIP = (
    *("-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
    *("--no-cache-dir", "--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile"),
)
# The node's own store of authorities: Debian's and Ubuntu's, the RHEL family's, SUSE's. pip has another one.
STORES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
)
STORE = "REQUESTS_CA_BUNDLE"
SCRIPT = """#!{python}
import sys

from gpu_plugin.cli import main

sys.exit(main())
"""
MASK = "****"
COMMAND = "/usr/local/bin/gpu-plugin"  # where a shell looks for it


def check_prefix(host: Host, prefix: str, unit: str) -> None:
    """Refuse a prefix below which others may write, as root runs its programs.

    If our ``unit`` starts programs of it, the prefix is ours: its mode is restored, and only its parents are checked.

    Raises:
        InputError: if others may write there.
    """
    is_ours = f"={prefix}/" in (host.read(unit) or "")
    writer = host.who_writes(posixpath.dirname(prefix) if is_ours else prefix)
    if writer:
        raise InputError.exposed("prefix", prefix, "a folder", writer)


def publish(host: Host, prefix: str, digest: str) -> None:
    """Switch to a release; the command for people is not made if the file exists or can't be written."""
    host.symlink(f"releases/{digest}", f"{prefix}/current")
    host.symlink("current/bin", f"{prefix}/bin")
    if PROGRAM.startswith(f"{prefix}/") and not host.exists(COMMAND):
        with contextlib.suppress(OSError):
            host.symlink(PROGRAM, COMMAND)


def linked(host: Host, prefix: str) -> bool:
    """Return whether the links to a release are there that publish() makes."""
    missing = PROGRAM.startswith(f"{prefix}/") and not host.exists(COMMAND)
    if missing and host.writable(os.path.dirname(COMMAND)):
        return False
    return host.readlink(f"{prefix}/bin") == "current/bin"


def beside(host: Host, prefix: str) -> t.Tuple[str, ...]:
    """Return the names in the prefix that the collection has not made; hidden files of killed writes are its own."""
    names = (name for name in host.listdir(prefix) if not name.startswith(".rollback.json."))
    return tuple(name for name in names if name not in NAMES)


def clear(host: Host, prefix: str) -> None:
    """Remove what the collection has made in the prefix, the prefix if nothing is left, and the command."""
    releases = beside(host, prefix)
    for name in host.listdir(prefix):
        if name not in releases:
            host.remove(f"{prefix}/{name}")
    if not releases:
        host.remove(prefix)
    if PROGRAM.startswith(f"{prefix}/") and host.readlink(COMMAND) == PROGRAM:
        host.remove(COMMAND)


def fill(host: Host, release: str, python: str, payload: str, index_url: t.Optional[str]) -> None:
    """Make the environment of a release from the controller's archive; after an error nothing of it is left."""
    try:
        _fill(host, release, python, payload, index_url)
    except NodeError as error:
        if is_full(str(error), Room().space(release).free):
            error.cause = f"the file system of {release} is full"
            error.hint = f"free {ENVIRONMENT >> 20} MiB there, and run again"
        host.remove(release)
        raise


def _fill(host: Host, release: str, python: str, payload: str, index_url: t.Optional[str]) -> None:
    host.makedirs(f"{release}/payload")
    host.run(["tar", "-xzf", payload, "-C", f"{release}/payload"])
    host.run([python, "-m", "venv", release])
    _libraries(host, release, index_url)
    # The daemon's sources are copied to its libraries, since pip would have to build it.
    own = f"{release}/bin/python"
    site = host.run([own, "-I", "-c", SITE]).out.strip()
    host.run(["cp", "-R", f"{release}/payload/package/src/gpu_plugin", f"{site}/gpu_plugin"])
    host.write(f"{release}/bin/gpu-plugin", SCRIPT.format(python=own), mode=0o755)
    # The units can't write byte code, so what has none is compiled at each start.
    host.run([own, "-m", "compileall", "-q", "-x", UNUSED, f"{release}/lib"])
    host.run([own, "-I", "-c", "import gpu_plugin.labels.api"])
    host.run([f"{release}/bin/gpu-plugin", "--version"])


def _libraries(host: Host, release: str, index_url: t.Optional[str]) -> None:
    pip = [f"{release}/bin/python", *PIP]
    if host.exists(f"{release}/payload/wheels"):
        pip += ["--no-index", "--find-links", f"{release}/payload/wheels"]
        index_url = None
    listed = f"{release}/payload/package/requirements.txt"
    # No configuration but ours: pip reads no file if that is the null device, and ignores empty variables.
    # The address may hold a password: other users can read a process's command line, but not its environment.
    env = {name: "" for name in os.environ if name.startswith("PIP_")}
    env.update(PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=index_url or "")
    try:
        _installed(host, [*pip, "--requirement", listed], env)
    except NodeError as error:
        error.cause, error.hint = of_pip(masked(error.cause, index_url or ""))
        raise


def _installed(host: Host, argv: t.Sequence[str], env: t.Mapping[str, str]) -> None:
    """Run pip with the node's store of authorities, unless the play's environment names one.

    If that does not have the authority, pip is run with its own, which may be newer.
    """
    store = next(filter(host.exists, STORES), "")
    if not store or os.environ.get(STORE):
        host.run(argv, env=env)
        return
    try:
        host.run(argv, env={**env, STORE: store})
    except NodeError as error:
        if UNTRUSTED not in error.cause:
            raise
        host.run(argv, env=env)


def masked(text: str, url: str) -> str:
    """Return a text without the password of an address; a user without a password is a token."""
    userinfo = urlsplit(url).netloc.rpartition("@")[0]
    user, separator, password = userinfo.partition(":")
    secret = password if separator else user
    for word in sorted({userinfo, secret, unquote(secret)}, key=len, reverse=True):
        if word:
            text = text.replace(word, MASK)
    return text


def checked(url: t.Optional[str]) -> t.Optional[str]:
    """Return an address that pip can use.

    Raises:
        InputError: if it is none, without its password.
    """
    if not url:
        return None
    try:
        parts = urlsplit(url)
        good = parts.scheme == "file" or bool(parts.scheme in ("https", "http") and parts.hostname)
        good = good and parts.port != 0
    except ValueError:
        good = False
    if not good or re.search(r"[\s\x00-\x1f\x7f]", url):
        shown = re.sub(r"^.*@", f"{MASK}@", url, flags=re.DOTALL)
        raise InputError.of("index_url", shown, "a URL such as https://host/simple")
    return url


def complete(host: Host, release: str) -> None:
    """Record the files of a release, which makes it usable."""
    host.write(f"{release}/{COMPLETE}", json.dumps(_measured(host, release)) + "\n", mode=0o644)


def damage(host: Host, release: str) -> str:
    """Return the fault of a release, empty if it has none. Files are compared by size and time."""
    try:
        made = json_data.loads(host.read(f"{release}/{COMPLETE}") or "")
    except ValueError:
        return "it was not finished"
    measured = _measured(host, release)
    if not isinstance(made, dict) or made.get("python") != measured["python"]:
        return f"it was made for another Python than {measured['python'] or 'there is'}"
    if made == measured:
        return ""
    opened = sorted(path for path, size in _sizes(host, release).items() if size.is_open)
    if opened:
        files = counted(len(opened), "file")
        return f"not only root can write to {files} of it, such as {opened[0]}"
    return "its files are others than it was made of"


@contextlib.contextmanager
def replacing(host: Host, release: str) -> t.Iterator[None]:
    """Make a release in a with statement, in place of a damaged one, which is restored if that fails.

    A killed run may have left the damaged release, as the only one, under another name: it is restored first.
    """
    aside = f"{release}{ASIDE}{secrets.token_hex(8)}"
    for path in _set_aside(host, release):
        if path.startswith(f"{release}{ASIDE}") and not host.exists(f"{release}/{COMPLETE}"):
            host.remove(release)
            host.move(path, release)
    damaged = host.exists(f"{release}/{COMPLETE}")
    if damaged:
        host.move(release, aside)
    host.remove(release)
    try:
        yield
    except BaseException:
        host.remove(release)
        if damaged:
            host.move(aside, release)
        raise
    for path in _set_aside(host, release):
        host.remove(path)


def _set_aside(host: Host, release: str) -> t.List[str]:
    folder = os.path.dirname(release)
    return [f"{folder}/{name}" for name in host.listdir(folder) if ASIDE in name]


def _sizes(host: Host, release: str) -> t.Dict[str, Measured]:
    return {**host.sizes(f"{release}/lib"), **host.sizes(f"{release}/bin")}


def _measured(host: Host, release: str) -> t.Dict[str, str]:
    sizes = sorted(_sizes(host, release).items())
    lines = "".join(
        f"{path}\0{size.size} {size.at}{' open' * size.is_open}\n" for path, size in sizes
    )
    lines += host.read(f"{release}/{SETTINGS}") or ""
    digest = hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
    return {"python": host.leads_to(f"{release}/{INTERPRETER}"), "files": digest}
