# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What hostile tenants have an API server ask of a replica of the webhook, and what strangers ask of its port."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import socket
import ssl
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_cluster.webhook.limits import LONGEST, MOST_MARKS

from tests.fakes.cluster.hami_pods import limits, pod
from tests.fakes.kubernetes.reviews import asked
from tests.support.waiting import LIMIT

Json = dict[str, Any]
SIZE = (
    LONGEST - 4096
)  # bytes that a pod of 3 MiB may become, in which an API server has filled in what is missing
STRANGERS, LARGE, MANY = 600, 8, 4  # connections, and clients of large pods and of many templates
ASKING, TEMPLATES = 1000, 32
SHARE = limits(gpu=1, gpumem=100)
HOST, ELSEWHERE = "127.0.0.1", ("127.0.0.2", 0)  # an API server's address, and a tenant's


def _named(name: str, **more: Any) -> Json:
    return {"name": name, "resources": {"limits": SHARE}, **more}


def large() -> list[bytes]:
    """Return reviews of pods of so many bytes, each of another kind: of all that data may be made of, the most."""

    def filled(*containers: Json, **more: Any) -> bytes:
        return _filled(pod(_named("a"), *containers, **more))

    most = MOST_MARKS - 200
    numbers = [f"{number:06x}" for number in range(most)]
    claims = [{"name": f"gpu-a-{number:08x}"} for number in range(most // 5)]
    return [
        filled(*({"name": one, "resources": {}} for one in numbers[: most // 8])),
        filled(_named("b", env=[{"name": one} for one in numbers[: most // 5]])),
        filled(_named("b", env=[{}] * most)),
        filled(_named("b", args=numbers[: most // 2])),
        filled(resourceClaims=claims),
        asked(pod(_named("a"), *[{"name": "c", "resources": {}}] * (SIZE // 28))),
    ]


def _filled(one: Json) -> bytes:
    """Return a review with a text that makes it as long as one may be."""
    short = len(asked(one))
    return asked({**one, "metadata": {"annotations": {"a": "x" * (SIZE - short)}}})


def many(turn: int) -> bytes:
    """Return a review of a pod that asks for as many templates as one gets, or for far too many."""
    count = ASKING if turn % 2 else TEMPLATES
    wanted = (limits(gpu=1, gpumem=1 + turn * TEMPLATES + number) for number in range(count))
    return asked(pod(*wanted))


def memory(pid: int) -> float:
    """Return the most MiB that a process has had in memory."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) / 1024


class Client:
    """A connection that is kept, as an API server's."""

    def __init__(self, port: int, path: str) -> None:
        self._path = path
        self._connection = http.client.HTTPSConnection(
            HOST, port, timeout=LIMIT, context=ssl._create_unverified_context()
        )

    def ask(self, body: bytes) -> tuple[int, Json]:
        """Return the status and the response to a review; 0 where the connection was cut."""
        try:
            self._connection.request("POST", self._path, body)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, {}
        found: Json = json.loads(text)["response"] if answer.status == 200 else {}
        return answer.status, found


class Hostile:
    """A load that goes on until its end. ``answers`` counts what came of it, by kind and status."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path
        self._over, self.answers = threading.Event(), Counter[tuple[str, int]]()
        self._threads = [
            *(self._thread(self._ask, "large", bodies) for bodies in self._large()),
            *(
                self._thread(self._ask, "many", map(many, itertools.count(first, MANY)))
                for first in range(MANY)
            ),
            *(self._thread(self._strange, say) for say in (_nothing, _elsewhere)),
        ]

    def __enter__(self) -> Hostile:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join(LIMIT)

    def answered(self, kind: str) -> int:
        """Return how many of a kind had an answer."""
        return sum(count for (of, _status), count in self.answers.items() if of == kind)

    def reviewed(self, kind: str) -> int:
        """Return how many of a kind had an answer other than to come again."""
        return self.answered(kind) - self.answers[kind, 429]

    @staticmethod
    def _large() -> list[Iterator[bytes]]:
        bodies = large()
        # Of two namespaces, so that as many are under way as there can be.
        elsewhere = [
            body.replace(b'"namespace":"default"', b'"namespace":"team"', 1) for body in bodies
        ]
        turned = (
            reviews[first % len(bodies) :] + reviews
            for first in range(LARGE)
            for reviews in [elsewhere if first % 2 else bodies]
        )
        return [itertools.cycle(one[: len(bodies)]) for one in turned]

    def _thread(self, work: Callable[..., None], *words: Any) -> threading.Thread:
        return threading.Thread(target=work, args=words, daemon=True)

    def _ask(self, kind: str, bodies: Iterator[bytes]) -> None:
        client = Client(self._port, self._path)
        while not self._over.is_set():
            status, response = client.ask(next(bodies))
            told = response.get("status", {}).get("code", status)
            self.answers[kind, told] += 1

    def _strange(self, say: Callable[[socket.socket], socket.socket]) -> None:
        """Keep so many connections open, of which the replica drops what it likes."""
        kept: deque[socket.socket] = deque()
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                kept.append(say(socket.create_connection((HOST, self._port), LIMIT, ELSEWHERE)))
                self.answers["stranger", 0] += 1
            if len(kept) > STRANGERS // 2:
                kept.popleft().close()
        for one in kept:
            one.close()


def _nothing(channel: socket.socket) -> socket.socket:
    return channel


def _elsewhere(channel: socket.socket) -> socket.socket:
    """Ask once, and be kept."""
    secret = ssl._create_unverified_context().wrap_socket(channel)
    secret.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{")
    return secret


if __name__ == "__main__":  # a process of its own, until its standard input ends
    with Hostile(int(sys.argv[1]), sys.argv[2]) as load:
        sys.stdin.read()
    for (kind, status), count in sorted(load.answers.items()):
        print(f"{kind} {status or 'cut'}: {count}")
