# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Takes back what was written for a node."""

from __future__ import annotations

from .. import logs
from ..config.configuration import Config
from .api import NodeApi
from .output import FileOutput
from .owned import change
from .settings import FEATURE, FILE, OFF, Settings


def remove(settings: Settings, config: Config) -> int:
    """Remove our labels and annotations, and nobody else's. ApiError: the API does not do it."""
    way = settings.output or settings.way(config.gfd)
    if way == FILE:
        FileOutput(config.gfd.output_file).remove()
    if way in (FILE, OFF) and settings.configs is None:
        return 0
    api = NodeApi(settings.kubeconfig, settings.node)
    try:
        if way == FEATURE:
            api.remove_feature(settings.namespace)
        node, _version = api.read()
        planned = change(node, {})
        if planned:
            api.write(planned)
            logs.info("labels removed", node=settings.node, labels=list(planned.labels))
    finally:
        api.close()
    return 0
