# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""All limits of the webhook: for an API server, for a namespace, for anybody who reaches its port.

Together they keep a replica within the 256 MiB of its manifest: a body is there three times
while it is parsed, a connection takes a third of a MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST: Final = 5.0  # seconds for a TLS handshake, and once more until a review is asked for
DEADLINE: Final = 9.0  # of a review, body included; the API server waits for ten seconds
IDLE: Final = 120.0  # that a connection may be kept without a review
LINGER: Final = 1.0  # for which what is left of a body is read that nobody wants
GOODBYE: Final = 10.0  # for reviews that are under way at the end
MOST_CONNECTIONS: Final = 128  # kept ones too


@dataclass(frozen=True)
class Lane:
    """Reviews of up to ``longest`` bytes: how many are read or decided at once, and in how many threads.

    Of one namespace, ``of_namespace`` are under way, those that wait included; more are refused for now.
    """

    longest: int
    at_once: int
    threads: int
    of_namespace: int


# A review of a usual pod has a few KiB, and waits for none of the large ones.
LANES: Final = (Lane(64 << 10, 64, 12, 64), Lane(4 << 20, 2, 2, 1))
LONGEST: Final = LANES[-1].longest  # etcd takes no object of more than 1.5 MiB
LONGEST_HEAD: Final = 4096  # bytes in which an API server writes a review's uid and namespace
MARKS: Final = (b"{", b"[", b'"')  # of JSON
MOST_MARKS: Final = 1 << 18  # in a review: what they mark takes most of the memory and of the time
COME_AGAIN: Final = 1  # seconds until a client that is refused for now tries again
LONGEST_ANSWER: Final = 4 << 20  # of an API server, to the webhook

MOST_TEMPLATES: Final = 32  # that a pod asks for
MOST_IN_NAMESPACE: Final = 1000  # templates of the webhook
# Templates of a namespace a second, and at once: half of QPS and BURST.
LOOKED_AT: Final = (200.0, 400)
MADE: Final = (1.0, 64)
MOST_REMOVED: Final = 100  # of a namespace, in a round that looks for unused ones
MOST_NAMESPACES: Final = 10_000  # whose rates are known
# Of requests to the API servers: an admission is a read for each template, and three of its namespace in a second.
QPS, BURST = 400.0, 800
