# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One review: decide, create the templates, answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from http import HTTPStatus
from typing import Any, Final

from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.tools import logs

from ..hami.errors import Refused
from ..hami.mutation import mutate
from ..hami.published import Published
from ..hami.settings import Settings
from ..hami.template import Template
from . import limits, metrics, review
from .budget import AGAIN, OverLimit
from .templates import Templates

# Statuses of the API server's refusals that the pod, its quota or its namespace causes.
CLIENT: Final = range(400, 500)
# Refuses a pod in a namespace that asks for these templates, as Namespaces.check does.
CheckLimits = Callable[[str, review.Json, Sequence[Template]], None]


class Admission:
    """Answers reviews, in any thread. Nothing is made in the namespaces that are ``closed``."""

    def __init__(
        self,
        settings: Settings,
        templates: Templates,
        published: Callable[[], Published],
        check_limits: CheckLimits,
        closed: Container[str] = (),
    ) -> None:
        self._settings, self._templates, self._published = settings, templates, published
        self._check_limits, self._closed = check_limits, closed

    def answer(self, body: bytes, look: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return the answer to a review.

        ``look`` is called between steps, and ends the work by what it raises.

        Raises:
            ReviewError: if the body isn't a review of a pod's creation.
        """
        asked = review.read(body)
        look()
        try:
            result, answer = self._decide(asked, look)
        except Refused as error:
            result, answer = "refused", review.denied(asked.uid, str(error))
        except OverLimit as error:
            result, answer = "refused", review.denied(asked.uid, str(error), error.status)
        except ApiError as error:  # the answer does not depend on the failurePolicy
            why, status = str(error), error.status
            if status not in CLIENT:
                logs.warning("a pod was not admitted", namespace=asked.namespace, cause=error)
                why = why if error.hint else str(ApiError(why, AGAIN))
                status = HTTPStatus.SERVICE_UNAVAILABLE
            result, answer = "failed", review.denied(asked.uid, why, status)
        metrics.REVIEWS.labels(result).inc()
        return answer

    def _decide(self, asked: review.Review, look: Callable[[], None]) -> tuple[str, dict[str, Any]]:
        mutation = mutate(asked.pod, self._settings, self._published(), look)
        count = len(mutation.templates)
        if count and asked.namespace in self._closed:
            text = f"the webhook makes no claims in namespace {asked.namespace}"
            raise OverLimit(text, HTTPStatus.FORBIDDEN, hint="ask in a namespace of your own")
        if count > limits.MOST_TEMPLATES:
            raise OverLimit(
                f"the pod asks for {count} different parts of GPUs",
                HTTPStatus.UNPROCESSABLE_ENTITY,
                cause=f"it gets at most {limits.MOST_TEMPLATES}",
                hint="let its containers ask for the same amounts",
            )
        if count:
            look()
            self._check_limits(asked.namespace, asked.pod, mutation.templates)
        if not asked.dry_run:
            for template in mutation.templates:
                look()
                made = self._templates.ensure(asked.namespace, template, time.time(), look)
                metrics.MADE.inc(made)
        result = "mutated" if mutation.patch else "unchanged"
        return result, review.allowed(asked.uid, mutation.patch, mutation.warnings)
