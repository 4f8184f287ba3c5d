# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests to the Kubernetes API, bounded in time and size, and their errors: for modules and the services of nodes.

They read and renew a kubeconfig differently, so that and the package kubernetes are left to the callers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
import typing as t
import urllib.parse

from ..._base.errors import NodeError
from ..._base.text import json_data
from ..._base.text.json_data import MISREAD
from ..._base.text.shown import cut, printable

CONNECT, ANSWER = 5.0, 30.0  # seconds
LONGEST = 8 << 20  # bytes of an answer, or of one event of a watch
CHUNK = 1 << 16
PAGE = 200  # objects of one answer to a list
LONGEST_CAUSE = 400  # characters of a server's message, which names objects
JSON, MERGE = "application/json", "application/merge-patch+json"
# Without specification and status, which are most of an object.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# HTTP's, and 0 for no answer.
UNREACHED, UNAUTHORIZED, FORBIDDEN, MISSING = 0, 401, 403, 404
CONFLICT, GONE, TOO_MANY = 409, 410, 429
# A request may succeed a moment later: the server is away, restarts or is overloaded.
PASSING = (UNREACHED, TOO_MANY, 500, 502, 503, 504)
Json = t.Dict[str, t.Any]
Query = t.Mapping[str, str]
T = t.TypeVar("T")


class ApiError(NodeError):
    """A request that the Kubernetes API did not carry out.

    ``status`` is HTTP's, 0 if there was no answer. ``causes`` are the reasons and messages in the answer's details,
    and ``detail`` is its whole message, of which ``cause`` may be the beginning.
    """

    def __init__(
        self,
        doing: str,
        cause: str,
        status: int = UNREACHED,
        *,
        hint: str = "",
        causes: t.Sequence[t.Tuple[str, str]] = (),
        detail: str = "",
    ) -> None:
        super().__init__(f"the Kubernetes API failed while {doing}", cause=cause, hint=hint)
        self.status, self.causes, self.detail = status, tuple(causes), detail

    @property
    def passing(self) -> bool:
        """Return whether asking again may help."""
        return self.status in PASSING


class TooLong(ApiError):
    """An answer is longer than the bound; one with fewer objects may not be."""


def understood(doing: str, read: t.Callable[[], T]) -> T:
    """Return what a function reads from an answer.

    Raises:
        ApiError: if the answer has another shape.
    """
    try:
        return read()
    except MISREAD as error:
        cause = f"an answer was not understood: {error.__class__.__name__} {error}"
        raise ApiError(doing, cause) from error


def if_there(ask: t.Callable[[], T]) -> t.Optional[T]:
    """Return an answer, None if there is no such object.

    Raises:
        ApiError: if the server refuses or can't be asked.
    """
    try:
        return ask()
    except ApiError as error:
        if error.status != MISSING:
            raise
        return None


class Request(t.NamedTuple):
    """A request: ``kind`` is the media type of its body, ``rights`` the next step if the user lacks the right to it."""

    method: str
    path: str
    body: t.Any = None
    query: t.Optional[Query] = None
    kind: str = JSON
    accept: str = JSON
    rights: str = ""


class Connection:
    """The connections to an API server, with the address and the credentials of a ``kubernetes.client.ApiClient``.

    Only its pool of connections is used: the signatures above it differ between versions of the client. ``retries`` is
    urllib3's, False for none.
    """

    def __init__(self, client: t.Any, agent: str, retries: t.Any = False) -> None:
        self._client, self._agent, self._retries = client, agent, retries

    @property
    def server(self) -> str:
        """Return the server's address."""
        return str(self._client.configuration.host)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    @contextlib.contextmanager
    def open(self, doing: str, request: Request, seconds: float = ANSWER) -> t.Iterator[t.Any]:
        """Yield the response to a request, whose body is to be read in the with statement.

        Args:
            doing: The request in words, for errors.
            request: The request.
            seconds: How long to wait for each part of the response.

        Raises:
            ApiError: if the server can't be asked, or answers with another status than 2xx.
        """
        import urllib3  # it is loaded where something is asked

        url = f"{self.server.rstrip('/')}{request.path}"
        if request.query:
            url = f"{url}?{urllib.parse.urlencode(request.query)}"
        headers = {"Accept": request.accept, "User-Agent": self._agent}
        if request.body is not None:
            headers["Content-Type"] = request.kind
        response = None
        try:
            credentials = self._client.configuration.auth_settings().values()  # renews a token
            headers.update({each["key"]: each["value"] for each in credentials if each["value"]})
            response = self._client.rest_client.pool_manager.request(
                request.method,
                url,
                headers=headers,
                body=None if request.body is None else json.dumps(request.body).encode(),
                preload_content=False,
                retries=self._retries,
                timeout=urllib3.Timeout(connect=CONNECT, read=seconds),
            )
            if not 200 <= response.status <= 299:
                raise _refusal(doing, response, request.rights)
            yield response
            response.drain_conn()
            response.release_conn()
            response = None
        except Exception as error:  # of the client's libraries, of sockets and of login programs
            raise api_error(doing, error) from error
        finally:
            if response is not None:
                response.close()  # what is left of the answer is not for the next request

    def ask(self, doing: str, request: Request, longest: int = LONGEST) -> Json:
        """Return the JSON object of an answer of at most so many bytes.

        Raises:
            ApiError: if the server refuses or can't be asked, or its answer is too long or no JSON object.
        """
        with self.open(doing, request) as response:
            data = read_body(response, longest)
        try:
            return dict(json.loads(data))
        except (ValueError, TypeError, RecursionError) as error:
            raise ApiError(doing, f"{self.server} answers with no JSON object", 502) from error


def read_body(response: t.Any, longest: int = LONGEST) -> bytes:
    """Return the body of a response.

    Raises:
        OverflowError: if it has more than ``longest`` bytes.
        TimeoutError: if it has not ended in time, although parts of it come again and again.
    """
    data, deadline = bytearray(), time.monotonic() + ANSWER
    read = getattr(response, "read1", response.read)  # urllib3 before 2.1 waits for whole chunks
    while True:
        part = read(CHUNK, decode_content=True)
        if not part:
            return bytes(data)
        data += part
        check_length(data, longest)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the answer has not ended within {ANSWER:.0f} seconds")


def check_length(data: bytearray, longest: int = LONGEST) -> None:
    """Refuse a part of an answer that is longer than the bound.

    Raises:
        OverflowError: if it is.
    """
    if len(data) > longest:
        raise OverflowError(f"the answer is longer than {longest >> 20} MiB")


def api_error(doing: str, error: Exception) -> ApiError:
    """Return the error of a request for any exception that was raised meanwhile."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, NodeError):
        return ApiError(doing, str(error))
    if isinstance(error, OverflowError):
        return TooLong(doing, str(error))
    lines = str(error).splitlines()
    return ApiError(doing, cut(printable(lines[0])) if lines else error.__class__.__name__)


def _refusal(doing: str, response: t.Any, rights: str) -> ApiError:
    """Return the error for a response with another status than 2xx."""
    message, detail, causes = f"{response.reason or ''} (no Status object)".strip(), "", []
    with contextlib.suppress(Exception):  # such as the page of a proxy
        answer = json_data.loads(read_body(response).decode())
        detail = str(answer["message"])
        message = _printable(detail)
        for each in (answer.get("details") or {}).get("causes") or ():
            causes.append((str(each.get("reason") or ""), _printable(each.get("message") or "")))
    status = int(response.status)
    hint = rights if status in (UNAUTHORIZED, FORBIDDEN) else ""
    return ApiError(doing, f"{status} {message}", status, hint=hint, causes=causes, detail=detail)


def _printable(text: t.Any) -> str:
    return cut(printable(str(text)), LONGEST_CAUSE)


def parts(
    ask: t.Callable[..., t.Any],
    doing: str,
    path: str,
    *,
    query: t.Optional[Query] = None,
    page: int = PAGE,
    **more: str,
) -> t.Iterator[Json]:
    """Yield the answers that make up a list; if one is too long, fewer objects are asked for.

    ``ask`` takes the request in words, its method, its path, and by name what a Request has besides.

    Raises:
        TooLong: if one object alone is too long.
        ApiError: if the server refuses.
    """
    token: t.Dict[str, str] = {}
    while True:
        query_of_page = {**(query or {}), **token, "limit": str(page)}
        try:
            answer = ask(doing, "GET", path, query=query_of_page, **more)
        except TooLong:
            if page == 1:
                raise
            page //= 2
            continue
        yield answer
        following = understood(doing, functools.partial(_following, answer))
        if not following:
            return
        token = {"continue": str(following)}


def items(ask: t.Callable[..., t.Any], doing: str, path: str, **more: t.Any) -> t.Iterator[Json]:
    """Yield the objects of a list; arguments and errors are those of parts()."""
    for part in parts(ask, doing, path, **more):
        yield from understood(doing, functools.partial(_items, part))


def _following(answer: Json) -> t.Any:
    return (answer.get("metadata") or {}).get("continue")


def _items(answer: Json) -> t.List[Json]:
    return list(answer["items"] or ())
