# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A module whose process is killed once the API server has answered so many of its requests."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import KubernetesApi


class KilledError(BaseException):
    """The module's process is gone."""


def kill_after(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    """Let the module go when so many requests were answered."""
    ask, left = KubernetesApi.ask, requests

    def counted(self: KubernetesApi, *args: Any, **options: Any) -> Any:
        nonlocal left
        answer = ask(self, *args, **options)
        left -= 1
        if left == 0:
            raise KilledError
        return answer

    monkeypatch.setattr(KubernetesApi, "ask", counted)
