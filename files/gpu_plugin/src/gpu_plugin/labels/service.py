# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The process of the labels: it looks at the GPUs and at its node, and keeps the node's labels up to date."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import VERSION_MISMATCH, NvmlError
from .._shared._mig.label import FAILED, LABEL, STATE_LABEL, SUCCESS
from ..cluster.kubeconfig import NameWatch
from ..cluster.rate import jittered
from ..config.configuration import Config
from ..config.sources import ConfigWatch, Source
from ..driver.nvml import library_deleted
from ..driver.quarantine import QuarantineWatch
from ..tools import logs
from ..tools.chores import Backoff
from ..tools.files import StateFile
from ..tools.logs import notify
from ..tools.process import Process, RestartNeeded
from . import labels, mig, reading
from .api import NodeNews, NodeWatch
from .health.condition import accepted
from .inforce import InForce, Plugin
from .output import Cluster, FileOutput, connect, reporter
from .owned import NodeState, change
from .settings import API, FEATURE, FILE, Settings

TICK: Final = 1.0  # seconds between two looks at files
SET_ASIDE: Final = "quarantine.labels.json"  # beside the device plugin's own
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class Service(Process):
    """All is done by the main thread; the thread that follows the node only reports to it."""

    def __init__(self, settings: Settings, source: Source) -> None:
        super().__init__(
            StateFile(settings.files.status), TICK, 0.0
        )  # each round may be a long one
        self._settings = settings
        self._source = source
        self._watch = ConfigWatch(settings.files.config)
        self._messages: queue.SimpleQueue[NodeNews] = queue.SimpleQueue()
        self._problems: dict[str, str] = {}  # in words, by what they are about, the oldest first
        self._node: NodeState | None = None
        self._cluster: Cluster | None = None
        self._node_watch: NodeWatch | None = None
        self._reporter = reporter(settings, self._connected)
        self._beside: dict[str, str] = {}  # problems that are none of labels
        self._desired: labels.Labels | None = None
        self._driver_worked = False
        self._read_at = self._write_at = 0.0
        self._reader = reading.Reader(settings.patience)
        self._reading = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._writing = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._chosen_for: object = None
        self._mig = mig.MigByLabel(settings.mig) if settings.mig else None
        self._models: list[str] = []
        set_aside = settings.files.status.with_name(SET_ASIDE)
        self._quarantine = QuarantineWatch(settings.files.host_root, set_aside)
        self._plugin = Plugin(settings.files.plugin_status)
        self._name = NameWatch(settings.api.named, settings.api.kubeconfig, settings.api.node)
        self._in_force = InForce(source, settings.files.last_good)
        self._in_force.follow(self._plugin.state())
        self._apply(self._in_force.config)

    def _apply(self, config: Config) -> None:
        self._config = config
        self._output = self._settings.output(config.gfd)
        self._file = FileOutput(config.gfd.output_file)
        self._started = None if config.gfd.no_timestamp else int(time.time())
        self._read_at = 0.0

    def run(self) -> int:
        """Run until a signal ends it, or once if so configured. Return the exit status."""
        return self._once() if self._config.gfd.oneshot else super().run()

    def begin(self) -> int:
        """Be ready at once, whatever the driver and the API do."""
        logs.info("started", output=self._output, node=self._settings.api.node)
        self.wake()
        return 0

    def close(self) -> None:
        """Remove the files."""
        if self._output == FILE and self._config.gfd.sleep is not None:
            self._file.remove()
        with contextlib.suppress(OSError):
            self.status.remove()

    def _once(self) -> int:
        """Look and write once."""
        if not self._in_force.known:
            self._source.load()  # says why
            raise NodeError(self._in_force.problem)
        self._desired = self._labels(reading.read(self._settings.files.host_root, self._config))
        if self._settings.reads_node(self._config.gfd):
            self._node = self._connected().node.read().node
            self._choose()
            self._follow_mig()
        self._quarantine.look()
        self._write()
        return 0

    def _note(self, about: str, error: Exception | str) -> None:
        """Note a problem, and log it if it differs from the one before."""
        if self._problems.get(about) != str(error):
            logs.warning(f"{about}: trying again", cause=error)
        self._problems[about] = str(error)

    def _settle(self, about: str, problem: str) -> None:
        """Note a problem, or that there is none any more."""
        if problem:
            self._note(about, problem)
        else:
            self._problems.pop(about, None)

    # --- one round ---

    def _hear(self, message: NodeNews) -> None:
        self._messages.put(message)
        self.wake()

    def round(self) -> None:
        """Look at the GPUs and the node if that is due, and write what is to be written."""
        while not self._messages.empty():
            message = self._messages.get()
            if isinstance(message, NodeState):
                self._node, self._write_at = message, 0.0
                if self._problems.pop("node", None):
                    logs.info("the node can be read again")
                    self._reporter.retry()
            else:
                self._note("node", message)
        self._name.check(self._problems.keys() & {"node", "labels"})
        moment = time.monotonic()
        asked = self.asked()
        if self._watch.changed() or asked:
            self._in_force.reload()
            self._read_at = 0.0
        self._follow()
        if self._quarantine.look():
            self._write_at = 0.0
        for chore in self._quarantine.chores:
            self._settle(chore.name, chore.error or "")
        if moment >= self._read_at and self._in_force.known:
            self._look(moment)
        if self._settings.reads_node(self._config.gfd) and self._node_watch is None:
            self._node_watch = NodeWatch(self._connected().node, self._hear)
            self._node_watch.start()
        if self._node is not None:
            self._choose()
            self._follow_mig()
        if moment >= self._write_at:
            self._try_to_write(moment)
        notify("WATCHDOG=1")  # each of the two may wait for the API
        self._report_health()
        self._report_state()

    def _report_health(self) -> None:
        """Write Events and the node's conditions about its GPUs."""
        before, gate = self._beside, self._quarantine.gate
        self._beside = self._reporter.keep(
            self._plugin.state(),
            events_wanted=self._settings.writes_events(self._config.gfd),
            condition=self._settings.condition,
            accepted=accepted(*gate) if self._settings.uses_api(self._config.gfd) else None,
        )
        for about, why in self._beside.items():
            if before.get(about) != why:
                logs.warning(f"{about}: trying again", cause=why)

    def _follow(self) -> None:
        """Take the configuration that the plugin serves, as it may refuse the one on disk."""
        another = self._in_force.follow(self._plugin.state())
        self._settle("configuration", self._in_force.problem)
        if another:
            config = self._in_force.config
            if self._settings.output(config.gfd) != self._output:
                raise RestartNeeded("the label output has changed")
            self._apply(config)
            logs.info("configuration loaded")

    def _look(self, moment: float) -> None:
        try:
            facts = self._reader.read(self._settings.files.host_root, self._config)
        except NvmlError as error:
            mismatch = error.code == VERSION_MISMATCH
            if mismatch and (self._driver_worked or library_deleted()):
                raise RestartNeeded("the driver was replaced") from error
            if self._config.driver.fail_on_init_error and not self._driver_worked:
                raise
            self._note("driver", error)
            self._read_at = moment + self._reading.failed()
            return
        if self._problems.pop("driver", None):
            logs.info("the driver is there", version=facts.inventory.driver_version)
        self._driver_worked = True
        self._reading.reset()
        sleep = self._config.gfd.sleep
        self._read_at = moment + jittered(sleep) if sleep is not None else float("inf")
        desired = self._labels(facts)
        if desired != self._desired:
            self._desired = desired
            self._write_at = 0.0

    def _labels(self, facts: labels.Facts) -> labels.Labels:
        models = labels.models(facts.inventory)
        if len(models) > 1 and models != self._models:
            logs.warning("several models of GPU: the labels are those of the first", models=models)
        self._models = models
        return {**labels.labels(facts, self._config, self._started), **self._settings.extra}

    def _choose(self) -> None:
        """Let the plugin's configuration be the one that the node's label names."""
        configs, node = self._settings.configs, self._node
        if configs is None or node is None:
            return
        label = node.labels.get(self._settings.node_label, "")
        stamp = (label, configs.stamp())
        if stamp == self._chosen_for:
            return
        self._chosen_for = stamp
        refused = configs.follow(label)
        cause = str(NodeError("configuration not changed", cause=refused))
        self._settle("choice", cause if refused else "")
        self._write_at = 0.0

    def _follow_mig(self) -> None:
        """Request the MIG layout that the node's label names; look at the GPUs anew once it was made."""
        if self._mig is None or self._node is None:
            return
        if self._mig.follow(self._node.labels.get(LABEL, "")):
            self._write_at = 0.0
            if self._mig.decision.state == SUCCESS:
                self._read_at = 0.0

    # --- writing ---

    def _try_to_write(self, moment: float) -> None:
        try:
            self._write()
        except NodeError as error:
            self._note("labels", error)
            self._write_at = moment + self._writing.failed()
            return
        if self._problems.pop("labels", None):
            logs.info("labels can be written again")
        self._writing.reset()
        # When to look whether what was written is still there: of the node, a watch reports changes.
        pause, sleep = float("inf"), self._config.gfd.sleep
        if self._output == FILE:
            pause = TICK
        elif self._output == FEATURE and sleep is not None:
            pause = jittered(sleep)
        self._write_at = moment + pause

    def _write(self) -> None:
        if self._desired is None:
            return
        if self._output == FILE:
            self._file.write(self._desired)
        elif self._output == FEATURE and self._connected().feature.write(self._desired):
            where = self._settings.api.namespace
            logs.info("labels written", namespace=where, labels=len(self._desired))
        if self._node is not None:
            desired = dict(self._desired if self._output == API else {})
            reason = self._mig.decision.reason if self._mig else ""
            if self._mig and self._mig.decision.state:
                desired[STATE_LABEL] = self._mig.decision.state
            refused, aside = self._problems.get("choice", ""), self._quarantine.describe
            planned = change(self._node, desired, refused, reason, aside)
            if planned:
                self._node = self._connected().node.write(planned)
                self._report_mig(planned.labels.get(STATE_LABEL))
                changes = planned.labels.items()
                removed = [key for key, text in changes if text is None]
                changed = [f"{key}={text}" for key, text in changes if text is not None]
                logs.info("node labelled", changed=changed, removed=removed)
                if planned.left:
                    left = "Node Feature Discovery has labels that are left to it"
                    logs.warning(left, labels=planned.left)

    def _report_mig(self, state: str | None) -> None:
        """Write an Event once a MIG layout that was asked for has been made, or can't be."""
        if self._mig is None or self._node is None or state not in (SUCCESS, FAILED):
            return
        if self._settings.writes_events(self._config.gfd):
            name, reason = self._node.labels.get(LABEL, ""), self._mig.decision.reason
            self._reporter.report_mig(name, reason, failed=state == FAILED)

    def _connected(self) -> Cluster:
        self._cluster = self._cluster or connect(self._settings)
        return self._cluster

    def _report_state(self) -> None:
        """Write the status file, and keep the service manager informed."""
        problem = next(iter(self._problems.values()), None)
        node = self._node
        waiting = self._desired is None or (self._output == API and node is None)
        state = {
            "release": os.environ.get("GPU_NODE_RELEASE"),
            "output": self._output,
            "node": self._settings.api.node,
            "state": "waiting" if waiting else "failing" if problem else "labelled",
            "problem": problem,
            "problems": {**self._problems, **self._beside},
            "labels": self._desired or {},
            "mig": self._mig.describe(node.labels.get(LABEL, "")) if self._mig and node else None,
        }
        self.report(state, problem or str(state["state"]))
