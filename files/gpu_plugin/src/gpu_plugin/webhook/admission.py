# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One review: decide, let the templates be there, answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from .._shared._core.errors import NodeError
from ..cluster.errors import ApiError
from ..hami.errors import Refused
from ..hami.mutation import mutate
from ..hami.published import Published
from ..hami.settings import Settings
from ..tools import logs
from . import metrics, review
from .templates import Templates

CLIENT: Final = range(
    400, 500
)  # what the API server refuses is the pod's, its quota's or its namespace's
RETRY: Final = "the pod's controller tries again, or try again yourself"


class Admission:
    """Answers reviews, in any thread."""

    def __init__(
        self, settings: Settings, templates: Templates, published: Callable[[], Published]
    ) -> None:
        self._settings, self._templates, self._published = settings, templates, published

    def answer(self, body: bytes) -> dict[str, Any]:
        """Return the answer to a review. ReviewError: it is none."""
        asked = review.read(body)
        try:
            result, answer = self._decide(asked)
        except Refused as error:
            result, answer = "refused", review.denied(asked.uid, str(error))
        except ApiError as error:
            result, answer = "failed", _failed(asked, error)
        metrics.REVIEWS.labels(result).inc()
        return answer

    def _decide(self, asked: review.Review) -> tuple[str, dict[str, Any]]:
        found = mutate(asked.pod, self._settings, self._published())
        if not asked.dry_run:
            for template in found.templates:
                made = self._templates.ensure(asked.namespace, template, time.time())
                metrics.MADE.inc(made)
        result = "mutated" if found.patch else "unchanged"
        return result, review.allowed(asked.uid, found.patch, found.warnings)


def _failed(asked: review.Review, error: ApiError) -> dict[str, Any]:
    """Return the answer where no template could be made. It does not depend on the failurePolicy."""
    if error.status in CLIENT:
        return review.denied(asked.uid, str(error), error.status)
    logs.warning("a pod was not admitted", namespace=asked.namespace, cause=error)
    why: NodeError = ApiError(str(error), RETRY) if not error.hint else error
    return review.denied(asked.uid, str(why), HTTPStatus.SERVICE_UNAVAILABLE)
