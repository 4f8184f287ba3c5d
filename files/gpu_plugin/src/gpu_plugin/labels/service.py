# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process behind the labels: looks at the GPUs and at its node, and keeps the one like the other."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import time
from collections.abc import Callable
from typing import Any

from .. import logs
from .._shared._core.errors import NodeError
from .._shared._core.gpu import VERSION_MISMATCH, NvmlError
from ..backoff import Backoff
from ..config.configuration import Config
from ..config.watch import ConfigWatch
from ..gpus.driver import library_deleted
from ..notify import notify
from ..state import StateFile
from . import reading, rows
from .api import ApiError, NodeApi
from .output import FileOutput
from .owned import Change, NodeState, change
from .settings import API, FEATURE, FILE, Settings
from .trouble import Troubles
from .watching import LONGEST_PAUSE, NodeWatch

STOP, RELOAD = "stop", "reload"
Message = NodeState | ApiError | str


class StartAnew(Exception):
    """Only a new process can go on, such as after the driver on disk was replaced."""


class Service:
    """All is done by the main thread; the thread that follows the node only tells of it."""

    def __init__(self, settings: Settings, load: Callable[[], Config]) -> None:
        self._settings = settings
        self._load = load
        self._watch = ConfigWatch(settings.config)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._troubles = Troubles()
        self._status = StateFile(settings.status_file)
        self._node: NodeState | None = None
        self._api: NodeApi | None = None
        self._wanted: rows.Labels | None = None
        self._driver_worked = False
        self._read_at = self._write_at = 0.0
        self._reading, self._writing = (Backoff(settings.pause, LONGEST_PAUSE) for _each in "rw")
        self._chosen_for: object = None
        self._models: list[str] = []
        self._take(load())

    def _take(self, config: Config) -> None:
        self._config = config
        self._way = self._settings.way(config.gfd)
        self._file = FileOutput(config.gfd.output_file)
        self._started = None if config.gfd.no_timestamp else int(time.time())
        self._read_at = 0.0

    def run(self) -> int:
        """Run until a signal ends it, or once where the configuration says so. Returns the status."""
        if self._config.gfd.oneshot:
            return self._once()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        logs.info("started", output=self._way, node=self._settings.node)
        watch = NodeWatch(self._connect, self._messages.put, self._settings.pause)
        if self._settings.talks(self._config.gfd):
            watch.start()
        notify("READY=1")
        try:
            while self._take_messages():
                self._step()
                self._tell()
        finally:
            notify("STOPPING=1")
            watch.stop()
            if self._way == FILE and self._config.gfd.sleep is not None:
                self._file.remove()
            self._status.remove()
        logs.info("stopped")
        return 0

    def _once(self) -> int:
        """Look and write once. NodeError: it could not be done."""
        facts = self._facts()
        self._wanted = self._labels(facts)
        if self._settings.talks(self._config.gfd):
            self._node, _version = self._connect().read()
            self._choose()
        self._write()
        return 0

    # --- one round ---

    def _take_messages(self) -> bool:
        """Wait for news, at most a tick. Returns whether to go on."""
        with contextlib.suppress(queue.Empty):
            message = self._messages.get(timeout=self._settings.tick)
            while True:
                if message == STOP:
                    return False
                self._hear(message)
                message = self._messages.get_nowait()
        return True

    def _hear(self, message: Message) -> None:
        if isinstance(message, NodeState):
            self._node = message
            self._write_at = 0.0
            if self._troubles.over("node"):
                logs.info("the node can be read again")
        elif isinstance(message, ApiError):
            self._troubles.now("node", message)
        elif message == RELOAD:
            self._reload()

    def _step(self) -> None:
        now = time.monotonic()
        if self._watch.changed():
            self._reload()
        if now >= self._read_at:
            self._look(now)
        if self._node is not None:
            self._choose()
        if now >= self._write_at:
            self._try_to_write(now)

    def _reload(self) -> None:
        try:
            config = self._load()
        except (NodeError, OSError) as error:
            self._troubles.now("configuration", error)
            return
        self._troubles.over("configuration")
        if self._settings.way(config.gfd) != self._way:
            raise StartAnew("the label output has changed")
        self._take(config)
        logs.info("configuration loaded")

    def _look(self, now: float) -> None:
        try:
            facts = self._facts()
        except NvmlError as error:
            mismatch = error.code == VERSION_MISMATCH
            if mismatch and (self._driver_worked or library_deleted()):
                raise StartAnew("the driver was replaced") from error
            if self._config.fail_on_init_error and not self._driver_worked:
                raise
            self._troubles.now("driver", error)
            self._read_at = now + self._reading.failed()
            return
        if self._troubles.over("driver"):
            logs.info("the driver is there", version=facts.inventory.driver_version)
        self._driver_worked = True
        self._reading.reset()
        sleep = self._config.gfd.sleep
        self._read_at = now + sleep if sleep is not None else float("inf")
        wanted = self._labels(facts)
        if wanted != self._wanted:
            self._wanted = wanted
            self._write_at = 0.0

    def _facts(self) -> rows.Facts:
        gfd = self._config.gfd
        return reading.read(
            self._settings.host_root, self._config.driver_roots, gfd.machine_type_file
        )

    def _labels(self, facts: rows.Facts) -> rows.Labels:
        models = rows.models(facts.inventory)
        if len(models) > 1 and models != self._models:
            logs.warning("several models of GPU: the labels are those of the first", models=models)
        self._models = models
        return {**rows.labels(facts, self._config, self._started), **self._settings.extra}

    def _choose(self) -> None:
        """Let the plugin's configuration be the one that the node's label asks for."""
        configs, node = self._settings.configs, self._node
        if configs is None or node is None:
            return
        label = node.labels.get(self._settings.node_label, "")
        stamp = (label, configs.stamp())
        if stamp == self._chosen_for:
            return
        self._chosen_for = stamp
        refused = configs.follow(label)
        if refused:
            self._troubles.now("choice", NodeError("configuration not changed", cause=refused))
        else:
            self._troubles.over("choice")
        self._write_at = 0.0

    # --- writing ---

    def _try_to_write(self, now: float) -> None:
        try:
            self._write()
        except NodeError as error:
            self._troubles.now("labels", error)
            self._write_at = now + self._writing.failed()
            self._drop_api()
            return
        if self._troubles.over("labels"):
            logs.info("labels can be written again")
        self._writing.reset()
        self._write_at = float("inf") if self._way != FILE else now + self._settings.tick

    def _write(self) -> None:
        if self._wanted is None:
            return
        if self._way == FILE:
            self._file.write(self._wanted)
        elif self._way == FEATURE:
            self._write_feature(self._wanted)
        if self._node is not None:
            wanted = self._wanted if self._way == API else {}
            planned = change(self._node, wanted, self._troubles.text("choice"))
            if planned:
                self._node = self._connected().write(planned)
                _report(planned)

    def _write_feature(self, wanted: rows.Labels) -> None:
        namespace = self._settings.namespace
        if self._connected().write_feature(namespace, wanted):
            logs.info("labels written", namespace=namespace, labels=len(wanted))

    def _connected(self) -> NodeApi:
        self._api = self._api or self._connect()
        return self._api

    def _connect(self) -> NodeApi:
        return NodeApi(self._settings.kubeconfig, self._settings.node)

    def _drop_api(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    def _on_signal(self, number: int, _frame: object) -> None:
        self._messages.put(RELOAD if number == signal.SIGHUP else STOP)

    # --- telling ---

    def _tell(self) -> None:
        state = self._state()
        lines = ["WATCHDOG=1"]
        if self._status.write(state):
            lines.append(f"STATUS={state['problem'] or state['state']}")
        notify(*lines)

    def _state(self) -> dict[str, Any]:
        problem = self._troubles.first()
        waiting = self._wanted is None or (self._way == API and self._node is None)
        return {
            "release": os.environ.get("GPU_NODE_RELEASE"),
            "output": self._way,
            "node": self._settings.node,
            "state": "waiting" if waiting else "failing" if problem else "labelled",
            "problem": problem or None,
            "problems": self._troubles.all(),
            "labels": self._wanted or {},
        }


def _report(written: Change) -> None:
    removed = [key for key, text in written.labels.items() if text is None]
    changed = [f"{key}={text}" for key, text in written.labels.items() if text is not None]
    logs.info("node labelled", changed=changed, removed=removed)
    if written.left:
        logs.warning("Node Feature Discovery has labels that are left to it", labels=written.left)
