# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages that the endpoint serves: metrics for Prometheus, and probes."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ..mps import listing
from ..observer import Observer, Seen
from .families import Families
from .http import TEXT, Page
from .probes import health, readiness


def pages(observer: Observer, mps_root: Callable[[], str]) -> dict[str, Page]:
    """Return the pages by their path: the observer's numbers, and those of the MPS daemons."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(observer.seen, lambda: listing.load(Path(mps_root()))))
    ProcessCollector(registry=registry)
    return {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: _probe(observer, health),
        "/readyz": lambda: _probe(observer, readiness),
    }


def _probe(
    observer: Observer, judge: Callable[[Seen, float], str]
) -> tuple[HTTPStatus, str, bytes]:
    problem = judge(observer.seen(), time.monotonic())
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return status, TEXT, f"{problem or 'ok'}\n".encode()
