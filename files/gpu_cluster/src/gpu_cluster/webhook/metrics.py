# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The webhook's metrics for Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

REGISTRY: Final = CollectorRegistry()
REVIEWS: Final = Counter(
    "gpu_webhook_reviews", "Pods that were reviewed", ["result"], registry=REGISTRY
)
SECONDS: Final = Histogram(
    "gpu_webhook_review_seconds",
    "How long a review took",
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
MADE: Final = Counter("gpu_webhook_templates_created", "Templates made", registry=REGISTRY)
REMOVED: Final = Counter("gpu_webhook_templates_removed", "Templates removed", registry=REGISTRY)
STUCK: Final = Gauge(
    "gpu_webhook_namespaces_not_collected",
    "Namespaces whose unused templates could not be looked for in the last round",
    registry=REGISTRY,
)
EXPIRY: Final = Gauge(
    "gpu_webhook_certificate_expiry_seconds",
    "When the serving certificate ends, since 1970",
    registry=REGISTRY,
)
for _result in ("mutated", "unchanged", "refused", "failed", "invalid"):
    REVIEWS.labels(_result)


def page() -> bytes:
    """Return the metrics as Prometheus reads them."""
    return generate_latest(REGISTRY)
