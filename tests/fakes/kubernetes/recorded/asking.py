# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Steps over HTTP, by whoever they name, to a genuine API server or to the stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

import urllib3

from tests.fakes.kubernetes.genuine_api import GenuineApi
from tests.fakes.kubernetes.recorded.steps import ADMIN, FORGET, WITHOUT, Step, read
from tests.fakes.kubernetes.standin.api import StandIn
from tests.fakes.kubernetes.standin.authorizers import ADMIN as ADMINISTRATOR
from tests.fakes.kubernetes.standin.authorizers import User, account, kubelet
from tests.support.waiting import LIMIT, eventually

STRANGER = "stranger"  # whom nobody knows


def identity(who: str) -> User:
    """Return whom a step means: ``admin``, ``node:NAME``, ``account:NAMESPACE/NAME`` or ``nobody``."""
    kind, _colon, name = who.partition(":")
    if kind == "node":
        return kubelet(name)
    if kind == "account":
        space, _slash, short = name.partition("/")
        return account(short, space)
    return ADMINISTRATOR if who == ADMIN else User(who)


class Asker:
    """``connect`` returns the connections and the headers of somebody."""

    def __init__(
        self,
        address: str,
        connect: Callable[[str], tuple[Mapping[str, Any], Mapping[str, str]]],
        forget: Callable[[], None],
    ) -> None:
        self._address, self._connect, self._forget = address, connect, forget
        self._known: dict[str, tuple[urllib3.PoolManager, Mapping[str, str]]] = {}

    def __call__(self, step: Step) -> tuple[int, Any, str]:
        """Ask until the status is the one that it comes to, where one is named."""
        if step.method == FORGET:
            self._forget()
        if step.method in (FORGET, WITHOUT):
            return 0, {}, ""
        if not step.until:
            return self._ask(step)
        found: list[tuple[int, Any, str]] = []

        def settled() -> int:
            found[:] = [self._ask(step)]
            return found[0][0]

        eventually(settled, step.until)
        return found[0]

    def _ask(self, step: Step) -> tuple[int, Any, str]:
        pool, headers = self._pool(step.who)
        path = quote(step.path, safe="/?&=,!:%.")
        body = step.body if isinstance(step.body, str) else json.dumps(step.body)
        answer = pool.request(
            step.method,
            f"{self._address}{path}",
            body=None if step.body is None else body.encode(),
            headers={**headers, "Accept": step.accept, "Content-Type": step.kind},
            preload_content=not step.events,
            timeout=LIMIT,
            retries=False,
        )
        kind = answer.headers.get("Content-Type", "")
        if not step.events:
            return answer.status, _parsed(answer.data), kind
        if step.during:
            self._ask(read(step.during))
        found = [json.loads(one) for one in islice(_lines(answer), step.events)]
        answer.close()
        assert len(found) == step.events, (step, found)
        return answer.status, found, kind

    def _pool(self, who: str) -> tuple[urllib3.PoolManager, Mapping[str, str]]:
        if who not in self._known:
            options, headers = self._connect(who)
            self._known[who] = urllib3.PoolManager(**options), headers
        return self._known[who]

    def close(self) -> None:
        """Let go of the connections."""
        for pool, _headers in self._known.values():
            pool.clear()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for part in answer.stream(1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        yield from filter(None, lines)


def of_genuine(server: GenuineApi) -> Asker:
    """Return what asks a genuine API server: with certificates, and accounts with tokens."""
    ca = {"ca_certs": str(server.authority.ca)}

    def connect(who: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        kind, _colon, name = who.partition(":")
        if kind == "account":
            space, _slash, short = name.partition("/")
            return ca, {"Authorization": f"Bearer {server.token(short, space)}"}
        if kind == STRANGER:
            return ca, {"Authorization": "Bearer nobody-knows-it"}
        found = identity(who)
        pair = str(server.authority.identity(found.name, "".join(found.groups)))
        return {**ca, "cert_file": pair}, {}

    return Asker(f"https://127.0.0.1:{server.port}", connect, server.forget)


def of_standin(server: StandIn) -> Asker:
    """Return what asks the stand-in: with a token for each user."""

    def connect(who: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        token = who.replace("/", "-").replace(":", "-")
        if who != STRANGER:
            server.users[token] = identity(who)
        return {}, {"Authorization": f"Bearer {token}"}

    return Asker(f"http://127.0.0.1:{server.port}", connect, server.expire)
