# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pages that the endpoint serves: metrics for Prometheus, and probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ..mps import state as mps_state
from ..observer import Observer
from .families import Families
from .http import TEXT, Page
from .probes import health, readiness


def pages(observer: Observer, mps_root: Callable[[], str]) -> dict[str, Page]:
    """Return the pages by their path: the observer's metrics, and those of the MPS daemons."""
    registry = CollectorRegistry(auto_describe=False)
    for metric in observer.metrics:
        registry.register(metric)
    registry.register(
        Families(lambda: observer.last()[0], lambda: mps_state.load(Path(mps_root())))
    )
    ProcessCollector(registry=registry)
    return {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: _probe(observer, health),
        "/readyz": lambda: _probe(observer, readiness),
    }


def _probe(
    observer: Observer, judge: Callable[[Mapping[str, Any], float], str]
) -> tuple[HTTPStatus, str, bytes]:
    problem = judge(*observer.last())
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return status, TEXT, f"{problem or 'ok'}\n".encode()
