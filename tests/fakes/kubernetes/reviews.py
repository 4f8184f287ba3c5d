# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reviews as an API server sends them to a webhook of pods."""

from __future__ import annotations

import json
from typing import Any


def asked(one: object, **more: Any) -> bytes:
    """Return the review of a pod's creation; ``more`` are other fields of the request."""
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": one,
        **more,
    }
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**kind, "request": request}, separators=(",", ":")).encode()


def unlimited(_namespace: str, _pod: Any, _templates: Any) -> None:
    """Allow any pod, as in a namespace without LimitRanges and ResourceQuotas."""
