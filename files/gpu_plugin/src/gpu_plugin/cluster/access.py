# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Access to the Kubernetes API: the client's own access and renewal, connections that are kept, no models.

The models of the API would be 80 MiB for each node. Requests and answers are plain JSON instead.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .. import __version__
from .._shared._base.dra.versions import Version, parse
from .._shared._cluster.machine import api
from .._shared._cluster.trust import exposed
from ..tools import files, logs
from . import kubeconfig as kubeconfig_file
from .rate import Rate

ANEW: Final = 60.0  # seconds between two times that access is read anew since rights are missing
Stamp = tuple[tuple[str, files.Stamp | None], ...]


class Access:
    """The API server for all threads of a process; of an answer ``longest`` bytes are read at most.

    The kubeconfig is read anew if it or a file that it names has changed, and if the server
    refuses. One that is being written changes nothing as long as the server does not refuse.
    """

    def __init__(
        self, kubeconfig: str, rate: Rate | None = None, longest: int = api.LONGEST
    ) -> None:
        self._kubeconfig, self._rate, self._longest = kubeconfig, rate or Rate(), longest
        self._lock = threading.Lock()
        self._connection: api.Connection | None = None
        self._files: tuple[str, ...] = ()
        self._stamp: Stamp = ()
        self._refused = False
        self._warned = ""
        self._read_at = 0.0

    def connect(self) -> Access:
        """Read the kubeconfig at once.

        Raises:
            ApiError: if there is none that can be used.
        """
        self._ready()
        return self

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def ask(
        self,
        doing: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: api.Query | None = None,
        kind: str = api.JSON,
        accept: str = api.JSON,
        rights: str = "",
        look: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return the JSON of an answer, or what ``look`` makes of it.

        ``rights`` is the hint of the error if they are missing.

        Raises:
            ApiError: if the server can't be reached, refuses, or answers in another form.
        """
        request = api.Request(method, path, body, query, kind, accept, rights)
        with self._connected() as connection:
            answer = connection.ask(doing, request, self._longest)
        return api.understood(doing, lambda: look(answer)) if look else answer

    def events(
        self,
        doing: str,
        path: str,
        query: api.Query,
        *,
        accept: str,
        seconds: float,
        rights: str = "",
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a watch that ends within so many seconds, the first one empty.

        Raises:
            ApiError: if the server can't be reached, or refuses.
        """
        request = api.Request("GET", path, query=query, accept=accept, rights=rights)
        with (
            self._connected() as connection,
            connection.open(doing, request, seconds + api.ANSWER) as response,
        ):
            yield {}  # it has begun
            for line in _lines(response):
                yield json.loads(line)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[api.Connection]:
        """Yield the connection once the rate allows it, and note if the server refuses our access."""
        connection = self._ready()
        self._rate.wait()
        try:
            yield connection
        except api.ApiError as error:
            old = time.monotonic() - self._read_at > ANEW
            # Without credentials it may say 403 as well.
            if error.status == api.UNAUTHORIZED or (error.status == api.FORBIDDEN and old):
                self._refused = True
            raise

    def _ready(self) -> api.Connection:
        """Return the connection, a new one if its access may have changed."""
        with self._lock:
            before = self._connection
            if before is not None and not self._refused and _stamp(self._files) == self._stamp:
                return before
            try:
                made = self._made()
            except Exception as error:
                if before is None or self._refused:
                    raise api.api_error("reading the kubeconfig", error) from error
                return before  # the kubeconfig is being written: the one before still holds
            if before is not None:
                before.close()
            self._connection, self._refused, self._read_at = made, False, time.monotonic()
            return made

    def _made(self) -> api.Connection:
        import kubernetes.client as k8s  # it is large
        from kubernetes import config as access
        from kubernetes.config import exec_provider, kube_config

        exec_provider.subprocess = kube_config.subprocess = kubeconfig_file.BOUNDED
        settings = k8s.Configuration()
        named: tuple[str, ...] = ()
        path = kubeconfig_file.find(self._kubeconfig)
        if path:
            named = kubeconfig_file.look(path)
        stamp = _stamp(named)  # before it is read, so that no change is missed
        if path:
            access.load_kube_config(path, client_configuration=settings, persist_config=False)
        else:
            access.load_incluster_config(client_configuration=settings)
        settings.keep_alive = True
        warning = exposed(settings.host, verifies=settings.verify_ssl)
        if warning and warning != self._warned:
            logs.warning(warning)
        self._warned = warning
        self._files, self._stamp = named, stamp
        return api.Connection(k8s.ApiClient(settings), f"gpu-plugin/{__version__}")


def _stamp(paths: tuple[str, ...]) -> Stamp:
    """Return the stamps of these files; renewed certificates are links."""
    return tuple((path, files.stamp(path)) for path in paths)


def _lines(response: Any) -> Iterator[bytes]:
    """Yield the lines of an answer as they come, without a last one that was cut off."""
    incomplete = bytearray()
    for part in response.stream(api.CHUNK, decode_content=True):
        incomplete += part
        *lines, last = incomplete.split(b"\n")
        incomplete = last
        api.check_length(incomplete)
        yield from filter(None, map(bytes, lines))


def version(access: Access) -> Version | None:
    """Return a server's version of Kubernetes, None if this user may not read it.

    Raises:
        ApiError: if the server can't be reached, or answers in another form.
    """
    try:
        text = access.ask(
            *("asking for the version", "GET", "/version"),
            look=lambda answer: str(answer["gitVersion"]),
        )
    except api.ApiError as error:
        if error.status != api.FORBIDDEN:
            raise
        return None
    return parse(text)
