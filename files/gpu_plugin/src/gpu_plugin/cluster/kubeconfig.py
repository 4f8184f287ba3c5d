# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A kubeconfig, looked at before the Kubernetes client reads it: it knows no limits, and runs programs."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import yaml

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, shown
from .._shared._cluster.machine.api import ApiError
from ..config import plain_yaml
from ..tools import bounded
from ..tools.process import RestartNeeded

# Where kubelets of kubeadm, k3s, RKE2, k0s and of EKS' and Bottlerocket's nodes keep theirs.
KUBECONFIGS: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
)
LIMITS: Final = plain_yaml.Limits(256 << 10, 4000)  # with certificates in it, and many clusters
PROGRAM_SECONDS: Final = 60.0
FILES: Final = ("client-certificate", "client-key", "tokenFile", "certificate-authority")
OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
# In a certificate: the object identifier of a common name, a string of one length byte, and a kubelet's name.
KUBELET: Final = re.compile(rb"\x06\x03\x55\x04\x03[\x0c\x13](.)system:node:([!-~]+)", re.DOTALL)
PREFIX: Final = len("system:node:")
NAME_LOOK: Final = 60.0  # seconds between two looks for another name


def find(path: str) -> str:
    """Return the kubeconfig to use, by default the kubelet's; an empty text for a pod's own access.

    Raises:
        ApiError: if there is none.
    """
    if path:
        if not Path(path).is_file():
            raise ApiError("looking for a kubeconfig", f"{path} is not there")
        return path
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    for usual in KUBECONFIGS:
        if Path(usual).is_file():
            return usual
    raise ApiError(
        "looking for a kubeconfig",
        f"none of {', '.join(KUBECONFIGS)} is there",
        hint="let the node join its cluster, or name a kubeconfig with --kubeconfig",
    )


def node_name(name: str, kubeconfig: str) -> str:
    """Return the node's name in its cluster: the ``name`` if any, that of the kubelet's certificate, or the host's.

    The host's is another one on many clouds. ``kubeconfig`` may be empty for the kubelet's.
    """
    with contextlib.suppress(NodeError, OSError, ValueError):
        return name or _certified(find(kubeconfig))
    return socket.gethostname().lower()


class NameWatch:
    """Notices that the kubelet's certificate names another node than this process works for.

    Args:
        named: The name that the user has chosen, empty for that of the certificate.
        kubeconfig: The kubeconfig's path, empty for the kubelet's.
        node: The node that this process works for.
    """

    def __init__(self, named: str, kubeconfig: str, node: str) -> None:
        self._named, self._kubeconfig, self._node = named, kubeconfig, node
        self._due = 0.0

    def check(self, problem: object) -> None:
        """Look, at most once a minute, while there is a problem with the API.

        Raises:
            RestartNeeded: if the node was renamed.
        """
        if not problem or self._named or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + NAME_LOOK
        with contextlib.suppress(NodeError, OSError, ValueError):
            name = _certified(find(self._kubeconfig))
            if name != self._node:
                raise RestartNeeded(f"the kubelet's certificate is of node {name}")


def _certified(path: str) -> str:
    """Return the node whose kubelet a user of a kubeconfig is; an error if none is a kubelet."""
    text = bounded.read_text(Path(path), LIMITS.characters)
    for entry in _data(text, path).get("users") or []:
        user = entry.get("user")
        for pem in _certificates(user if isinstance(user, dict) else {}, os.path.dirname(path)):
            der = base64.b64decode(b"".join(pem.split()))
            if match := KUBELET.search(der):
                return match[2][: match[1][0] - PREFIX].decode()
    raise ValueError


def _certificates(user: Mapping[str, Any], folder: str) -> Iterator[bytes]:
    inside, file = user.get("client-certificate-data"), user.get("client-certificate")
    if isinstance(inside, str):
        yield from PEM.findall(base64.b64decode(inside))
    elif isinstance(file, str):
        yield from PEM.findall(bounded.read(Path(folder, file), LIMITS.characters))


def look(path: str) -> tuple[str, ...]:
    """Return a kubeconfig and the files that it names.

    Raises:
        NodeError: if it can't be read, or runs a program as this user and somebody else may write it.
    """
    try:
        text = bounded.read_text(Path(path), LIMITS.characters)
        programs = check(text, path)
        status = os.stat(path)
    except (OSError, UnicodeDecodeError) as error:
        raise NodeError(f"can't read {path}", cause=str(error)) from error
    ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & OTHERS
    if programs and not ours:
        raise NodeError(
            f"{path} can be written by others",
            cause=f"it names a program that would be run: {programs[0]}",
            hint=f"chown root {path} and chmod 0600 {path}",
        )
    return (path, *_files(_data(text, path), os.path.dirname(os.path.abspath(path))))


def check(text: str, path: str) -> list[str]:
    """Return the programs that a kubeconfig has run for its tokens.

    Raises:
        NodeError: if it isn't a kubeconfig.
    """
    programs = []
    for entry in _data(text, path).get("users") or []:
        user = entry.get("user")
        for key in ("exec", "auth-provider") if isinstance(user, dict) else ():
            if plugin := user.get(key):  # without its arguments: there may be secrets in them
                is_named = isinstance(plugin, dict)
                name = plugin.get("command", plugin.get("name")) if is_named else plugin
                programs.append(shown(name))
    return programs


def _data(text: str, path: str) -> dict[str, Any]:
    try:
        data = plain_yaml.load(text, LIMITS)
    except yaml.YAMLError as error:
        cause = cut(str(getattr(error, "problem", None) or error))
        raise NodeError(f"{path} is no kubeconfig", cause=cause) from error
    if not isinstance(data, dict):
        raise NodeError(f"{path} is no kubeconfig", cause="it is not a mapping")
    for key in ("clusters", "contexts", "users"):
        named = data.get(key) or []
        if not isinstance(named, list) or not all(isinstance(entry, dict) for entry in named):
            raise NodeError(f"{path} is no kubeconfig", cause=f"{key} is not a list of mappings")
    return data


def _files(data: dict[str, Any], folder: str) -> Iterator[str]:
    """Yield the certificates, keys and tokens that are files of their own."""
    for section, part in (("users", "user"), ("clusters", "cluster")):
        for entry in data.get(section) or []:
            named = entry.get(part)
            for key in FILES if isinstance(named, dict) else ():
                if isinstance(named.get(key), str):
                    yield os.path.join(folder, named[key])


class BoundedProgram(subprocess.Popen[str]):
    """A program of a kubeconfig, which is ended if it takes too long."""

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[str, str]:
        """As the library does, with a TimeoutError also if the library sets no limit."""
        try:
            return super().communicate(input, timeout or PROGRAM_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            self.wait()
            seconds = f"{error.timeout:.0f} seconds"
            raise TimeoutError(f"{shown(self.args[0])} has not answered in {seconds}") from error  # type: ignore[index]


# What the client uses of the module ``subprocess``; it would wait for such a program without end.
BOUNDED: Final = SimpleNamespace(Popen=BoundedProgram, PIPE=subprocess.PIPE)
