# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way to the Kubernetes API: the client's own access and renewal, connections that are kept, no models.

The models of the API would be 80 MiB for each node. What is asked and answered is plain JSON instead.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from .. import __version__
from .._shared._base.dra.versions import Version, parse
from .._shared._base.errors import NodeError
from .._shared._base.text import json_data
from .._shared._base.text.json_data import MISREAD
from .._shared._base.text.shown import cut
from .._shared._cluster.trust import exposed
from ..tools import files, logs
from . import kubeconfig as kubeconfig_file
from .errors import ApiError, TooLong, misread
from .rate import Rate

if TYPE_CHECKING:  # they are large, and only loaded when something is asked
    import kubernetes.client as k8s
    import urllib3

CONNECT, ANSWER = TIMES = (5.0, 30.0)
LONGEST: Final = 8 << 20  # of an answer, or of one event of a watch
CHUNK: Final = 1 << 16
JSON: Final = "application/json"
UNAUTHORIZED, FORBIDDEN = 401, 403
ANEW: Final = 60.0  # seconds between two times that access is read anew since rights are missing
Query = Mapping[str, str]
Stamp = tuple[tuple[str, files.Stamp | None], ...]


class Access:
    """The API server for all threads of a process; of an answer ``longest`` bytes are read at most.

    The kubeconfig is read anew where it or a file that it names has changed, and where the server
    refuses. One that is being written changes nothing as long as the server does not refuse.
    """

    def __init__(self, kubeconfig: str, rate: Rate | None = None, longest: int = LONGEST) -> None:
        self._kubeconfig, self._rate, self._longest = kubeconfig, rate or Rate(), longest
        self._lock = threading.Lock()
        self._client: k8s.ApiClient | None = None
        self._files: tuple[str, ...] = ()
        self._stamp: Stamp = ()
        self._refused = False
        self._said = ""
        self._read_at = 0.0

    def connect(self) -> Access:
        """Read what access there is, so that it is known at once where there is none. ApiError."""
        self._ready()
        return self

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def ask(
        self,
        doing: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Query | None = None,
        kind: str = JSON,
        accept: str = JSON,
        rights: str = "",
        look: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return the JSON of an answer, or what ``look`` makes of it. ApiError.

        ``rights`` says what to do where they are missing.
        """
        try:
            with self._send(method, path, body, query, kind, accept, TIMES, rights) as response:
                found = json.loads(_content(response, self._longest))
        except Exception as error:
            raise _failure(doing, error) from error
        try:
            return look(found) if look else found
        except MISREAD as error:
            raise misread(doing, error) from error

    def events(
        self, doing: str, path: str, query: Query, *, accept: str, seconds: float, rights: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a watch that ends within so many seconds, the first one empty. ApiError."""
        times = (CONNECT, seconds + ANSWER)
        try:
            with self._send("GET", path, None, query, JSON, accept, times, rights) as response:
                yield {}  # it has begun
                for line in _lines(response):
                    yield json.loads(line)
        except Exception as error:
            raise _failure(doing, error) from error

    @contextlib.contextmanager
    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Query | None,
        kind: str,
        accept: str,
        times: tuple[float, float],
        rights: str,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Yield an answer, of which nothing is read yet; afterwards its connection is kept or closed."""
        client = self._ready()
        self._rate.wait()
        request = client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": accept, "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = client.call_api(*request, _request_timeout=times).response
        kept = False
        try:
            if not 200 <= response.status <= 299:
                self._refuse(response.status)
                raise _refusal(response, rights)
            yield response
            response.drain_conn()
            kept = True
        finally:
            if kept:
                response.release_conn()
            else:
                response.close()  # what is left of the answer is not for the next one

    def _refuse(self, status: int) -> None:
        """Note that the server did not take our access; without credentials it may say 403 as well."""
        old = time.monotonic() - self._read_at > ANEW
        if status == UNAUTHORIZED or (status == FORBIDDEN and old):
            self._refused = True

    def _ready(self) -> k8s.ApiClient:
        """Return the client, a new one where its access may be another one by now."""
        with self._lock:
            before = self._client
            if before is not None and not self._refused and _stamp(self._files) == self._stamp:
                return before
            try:
                made = self._made()
            except Exception as error:
                if before is None or self._refused:
                    raise _failure("reading the kubeconfig", error) from error
                return before  # the kubeconfig is being written: what was there before still holds
            if before is not None:
                before.close()
            self._client, self._refused, self._read_at = made, False, time.monotonic()
            return made

    def _made(self) -> k8s.ApiClient:
        import kubernetes.client as k8s
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
        settings.retries, settings.keep_alive = False, True
        said = exposed(settings.host, verifies=settings.verify_ssl)
        if said and said != self._said:
            logs.warning(said)
        self._said = said
        client = k8s.ApiClient(settings)
        client.user_agent = f"gpu-plugin/{__version__}"
        self._files, self._stamp = named, stamp
        return client


def _stamp(paths: tuple[str, ...]) -> Stamp:
    """Return what differs after a change of any of these files; renewed certificates are links."""
    return tuple((path, files.stamp(path)) for path in paths)


def _content(response: urllib3.BaseHTTPResponse, longest: int = LONGEST) -> bytes:
    """Return an answer. TimeoutError: it takes too long as a whole, though a part of it comes again and again."""
    data, deadline = bytearray(), time.monotonic() + ANSWER
    while part := response.read1(CHUNK, decode_content=True):
        data += part
        _bounded(data, longest)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the answer has not ended within {ANSWER:.0f} seconds")
    return bytes(data)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer as they come; a last one that was cut off is none."""
    rest = bytearray()
    for part in response.stream(CHUNK, decode_content=True):
        rest += part
        *lines, last = rest.split(b"\n")
        rest = last
        _bounded(rest, LONGEST)
        yield from filter(None, map(bytes, lines))


def _bounded(data: bytearray, longest: int) -> None:
    if len(data) > longest:
        raise OverflowError(f"the answer is longer than {longest >> 20} MiB")


def _refusal(response: urllib3.BaseHTTPResponse, rights: str) -> k8s.ApiException:
    """Return what an answer says that is none."""
    import kubernetes.client as k8s

    error = k8s.ApiException(status=response.status, reason=response.reason)
    with contextlib.suppress(Exception):  # an answer of a proxy in between, such as a page
        error.body = str(json_data.loads(_content(response).decode())["message"])
        error.reason = cut(error.body)
    error.hint = rights if response.status in (UNAUTHORIZED, FORBIDDEN) else ""
    return error


def _failure(doing: str, error: Exception) -> ApiError:
    """Return what went wrong on the way, whatever it was, as an error of ours."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, NodeError):
        return ApiError(doing, str(error))
    if isinstance(error, OverflowError):
        return TooLong(doing, str(error))
    import kubernetes.client as k8s

    if isinstance(error, k8s.ApiException):
        status, hint = int(error.status or 0), getattr(error, "hint", "")
        text = " ".join(f"{status or ''} {error.reason}".split())
        return ApiError(doing, cut(text), status=status, hint=hint, told=error.body or "")
    text = str(error).splitlines()[0] if str(error) else error.__class__.__name__
    return ApiError(doing, cut(text))  # the client's libraries have many kinds


def version(access: Access) -> Version | None:
    """Return the version of Kubernetes that a server is of, None where it does not say one to this user. ApiError."""

    def look(said: Any) -> Version | None:
        return parse(str(said["gitVersion"]))

    try:
        found: Version | None = access.ask("asking for the version", "GET", "/version", look=look)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return None
    return found
