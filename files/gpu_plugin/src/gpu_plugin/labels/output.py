# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where labels go, and how they go again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..cluster.access import Access
from ..config.configuration import Config
from ..tools import files, logs
from .api import NodeApi
from .feature import NodeFeature
from .health.reporter import NAME, Reporter
from .owned import change
from .settings import FEATURE, FILE, OFF, Settings


class FileOutput:
    """Writes ``key=value`` lines for Node Feature Discovery; ``path`` empty is standard output."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._last: str | None = None

    def write(self, labels: Mapping[str, str]) -> None:
        """Write the labels, if they are others than before. NodeError: they can't be written."""
        text = "".join(f"{key}={labels[key]}\n" for key in sorted(labels))
        if self._path is None:
            if text != self._last:
                print(text, end="", flush=True)
        elif _content(self._path) != text:
            with files.failing(f"can't write {self._path}"):
                files.replace(self._path, text, durable=True)
            logs.info("labels written", file=self._path, labels=len(labels))
        self._last = text

    def remove(self) -> None:
        """Remove the file, so that the labels go."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                logs.warning("the file of labels stays", file=self._path, cause=error)


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class Cluster:
    """What is written to the API about the node, through one access."""

    access: Access
    node: NodeApi
    feature: NodeFeature


def connect(settings: Settings) -> Cluster:
    """Return what speaks with the API about the node."""
    access, node = Access(settings.kubeconfig, settings.rate), settings.node
    feature = NodeFeature(access, node, settings.namespace, settings.pod)
    return Cluster(access, NodeApi(access, node), feature)


def reporter(settings: Settings, cluster: Callable[[], Cluster]) -> Reporter:
    """Return what tells the cluster of the GPUs' health."""
    return Reporter(settings.node, settings.status_file.with_name(NAME), lambda: cluster().access)


def remove(settings: Settings, config: Config) -> int:
    """Remove our labels and annotations, and nobody else's. ApiError: the API does not do it."""
    output = settings.label_output or settings.output(config.gfd)
    if output == FILE:
        FileOutput(config.gfd.output_file).remove()
    reporter(settings, lambda: connect(settings)).remove()
    if output in (FILE, OFF) and not settings.chooses:
        return 0
    cluster = connect(settings)
    if output == FEATURE:
        cluster.feature.remove()
    if settings.reads_node(config.gfd):
        planned = change(cluster.node.read().node, {})
        if planned:
            cluster.node.write(planned)
            logs.info("labels removed", node=settings.node, labels=list(planned.labels))
    return 0
