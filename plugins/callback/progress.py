# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One readable line for each task on each node, with the steps that it took."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: A readable display of what happens to each node
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Shows a line for each task on each node as it ends, and under it the steps that the collection's modules took,
    or in check mode would take, its warnings, why it failed, and with C(--diff) what it changes.
  - On a terminal, the last lines show what each node is doing and for how long. A log gets a line now and then.
  - Shows a warning with the first node that has it, and at the end with the number of nodes.
  - Ends with a table of the nodes, the failures, and the counts.
  - C(-v) adds what was skipped, the results, the resources of validated nodes, and everything that is shortened.
    C(-vvv) adds tracebacks and the parameters of the modules.
requirements:
  - set as stdout callback in the configuration
options:
  progress_heartbeat:
    description:
      - Seconds after which a log, or a terminal that can't take lines back, is told that a task still runs.
        V(0) for never.
    type: float
    default: 60
    env:
      - name: GPU_NODE_PROGRESS_HEARTBEAT
    ini:
      - section: callback_progress
        key: progress_heartbeat
  progress_lines:
    description:
      - The most lines at the end of a terminal that say what the nodes are doing.
        V(0) for none; then there are heartbeats.
    type: int
    default: 8
    env:
      - name: GPU_NODE_PROGRESS_LINES
    ini:
      - section: callback_progress
        key: progress_lines
"""

import collections
import functools
import time
import typing as t

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import counted, printable
from ansible_collections.gpu.node.plugins.plugin_utils.progress import details, tasks, text, values
from ansible_collections.gpu.node.plugins.plugin_utils.progress.live import Live, width
from ansible_collections.gpu.node.plugins.plugin_utils.progress.nodes import Failure, ProgressNode
from ansible_collections.gpu.node.plugins.plugin_utils.progress.summary import Row, summary

MARKS = {"ok": "=", "changed": "+", "failed": "!", "unreachable": "!", "message": "i"}
MARKS |= {"skipped": "-", "ignored": "~", "rescued": "~"}
COLORS = {
    "ok": constants.COLOR_OK,
    "changed": constants.COLOR_CHANGED,
    "failed": constants.COLOR_ERROR,
    "unreachable": constants.COLOR_UNREACHABLE,
    "message": constants.COLOR_VERBOSE,
    "skipped": constants.COLOR_SKIP,
    "ignored": constants.COLOR_WARN,
    "rescued": constants.COLOR_WARN,
    "warning": constants.COLOR_WARN,
    "note": constants.COLOR_VERBOSE,
    "added": constants.COLOR_DIFF_ADD,
    "removed": constants.COLOR_DIFF_REMOVE,
    "place": constants.COLOR_DIFF_LINES,
}
INDENT = " " * 15  # what is below a task's line
WIDE = 80  # columns of a terminal that has room for long names


def _ending(method: t.Callable[..., None]) -> t.Callable[..., None]:
    """Let a method show what came of a task, and forget the task."""

    @functools.wraps(method)
    def shown(self: t.Any, result: t.Any, **options: t.Any) -> None:
        host = result.host.get_name()
        with self._live.ending(printable(host)):
            method(self, result, **options)
            self._warn(result)
        self._runs.pop((host, result.task._uuid), None)

    return shown


class CallbackModule(CallbackBase):
    """The display."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpu.node.progress"

    def __init__(self, display: t.Any = None, options: t.Any = None) -> None:
        super().__init__(display=display, options=options)
        self._begun = time.monotonic()
        self._task_names: t.Dict[str, str] = {}
        self._runs: t.Dict[t.Tuple[str, str], details.Run] = collections.defaultdict(details.Run)
        self._nodes: t.Dict[str, ProgressNode] = collections.defaultdict(ProgressNode)
        self._every: t.Dict[str, None] = {}  # the hosts of all plays, in their order
        self._warned: t.Set[str] = set()
        self._shown_below: t.Dict[
            t.Any, str
        ] = {}  # what was below a task's line, and the first node with it
        self._handlers: t.Set[str] = set()
        self._batch: t.List[str] = []
        self._has_hosts = True
        self._names = text.Names(16 if 0 < width() < WIDE else 32)
        self._live = Live(self._display, self._names)

    # --- what Ansible calls ---

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        """Show the play's name, and its nodes where they are not all of them."""
        every, self._batch = tasks.hosts(play)
        self._has_hosts = bool(play.hosts)
        batch = [printable(host) for host in self._batch]
        self._names.add(batch)
        self._every.update(dict.fromkeys(every))
        title = play.get_name()
        if batch and len(batch) < len(every):
            names = text.shortened(", ".join(map(self._names.shown, batch)))
            title += f": {len(batch)} of {len(every)} nodes, {names}"
        check = " (check mode: nothing is changed)" if play.check_mode else ""
        self._show("")
        self._wrapped(f"{title}{check}", "plain", "", "  ")
        self._live.start(*(self.get_option(f"progress_{host}") for host in ("lines", "heartbeat")))

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        """Remember the name, which holds no variables now."""
        self._task_names[task._uuid] = task.get_name()

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        """Remember a handler and its name."""
        self._task_names[task._uuid] = task.get_name()
        self._handlers.add(task._uuid)

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        """Note when a task began on a host."""
        self._runs[host.get_name(), task._uuid] = details.Run(begun=time.monotonic())
        title = self._task_names.get(task._uuid, task.get_name())
        asks = tasks.asks(task) or bool(constants.ENABLE_TASK_DEBUGGER)
        self._live.begin(printable(host.get_name()), printable(tasks.short(title)), asks)

    def v2_runner_retry(self, result: t.Any) -> None:
        """Count an attempt; with -v say why it is not the last."""
        run = self._run(result)
        run.retries += 1
        number = f"attempt {run.retries + 1} of {result.result.get('retries', '?')}"
        self._note(result, number)
        if self._display.verbosity:
            self._line("ignored", result, f"{self._name(result)}: not yet, {number} follows")
            self._below(values.reason(result.result), "note")

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        """Keep what an item of a loop says until the task ends."""
        self._item("changed" if result.result.get("changed") else "ok", result)

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        """Keep why an item of a loop failed."""
        self._item("failed", result)

    def v2_runner_item_on_skipped(self, result: t.Any) -> None:
        """Keep that an item of a loop was left out."""
        self._item("skipped", result)

    def v2_on_file_diff(self, result: t.Any) -> None:
        """Note that differences are wanted; they are shown below the task's line."""
        self._run(result).differs = True

    @_ending
    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Show a task that ended well."""
        action, run = self._ran(result), self._run(result)
        if action == "debug":
            for data in run.results or [result.result]:
                self._line("message", result, values.message(data))
        elif self._display.verbosity > 1 or self._new_warnings(result) or self._tells(result):
            state = "changed" if result.result.get("changed") else "ok"
            self._line(state, result, self._name(result))
            self._details(result)
            self._returned(result)

    @_ending
    def v2_runner_on_failed(self, result: t.Any, ignore_errors: t.Optional[bool] = False) -> None:
        """Show a failure with its reason."""
        self._ran(result)
        gone = not ignore_errors and not tasks.rescued(result.task)
        state = "failed" if gone else "ignored" if ignore_errors else "rescued"
        title = self._name(result)
        self._line(state, result, title if gone else f"{title}: failed, {state}")
        self._details(result)
        self._reason(state, result)
        self._returned(result)

    @_ending
    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Show a host that does not answer."""
        ignored = bool(result.task.ignore_unreachable)
        state = "ignored" if ignored else "unreachable"
        title = f"{self._name(result)}: unreachable{', ignored' if ignored else ''}"
        self._line(state, result, title)
        self._reason(state, result)

    @_ending
    def v2_runner_on_skipped(self, result: t.Any) -> None:
        """With -v show what was left out, and why."""
        data = result.result
        if self._display.verbosity or self._new_warnings(result):
            condition = data.get("false_condition")
            why = data.get("skip_reason") if condition is None else f"{condition} is false"
            self._line(
                "skipped", result, f"{self._name(result)}: skipped{f', {why}' if why else ''}"
            )

    def v2_playbook_on_include(self, included_file: t.Any) -> None:
        """With -vv say which tasks come next."""
        if self._display.verbosity > 1:
            hosts = text.shortened(", ".join(host.get_name() for host in included_file._hosts))
            self._below(f"{included_file._filename} for {hosts}", "note")

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Say that there is nothing to do: a play may have chosen nobody, or named a group that is not there."""
        message = "no host matches" if self._has_hosts else "no host has to be changed"
        self._show(f"  {message}", "skipped")

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """Say once why the rest of the play is not run."""
        if self._batch:
            self._show("  the play ends here, as nodes have failed", "failed")
        for host in self._batch:
            self._nodes[host].stopped = True
        self._batch = []

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Show what has become of each host."""
        self._live.stop()
        self._show("")
        hosts = [host for host in self._every if host in stats.processed]
        hosts += sorted(host for host in stats.processed if host not in self._every)
        rows = [Row(printable(host), self._nodes[host], stats.summarize(host)) for host in hosts]
        verbosity = self._display.verbosity
        for line in summary(rows, self._names, width(), verbosity) if rows else ():
            self._show(line.text, line.kind)
        left = [printable(host) for host in self._every if host not in stats.processed]
        if left:
            self._wrapped(f"nothing was run on {', '.join(left)}", "skipped", "  ", "  ")
        self._show(f"  {time.monotonic() - self._begun:.1f} s in all")

    # --- what is kept ---

    def _run(self, result: t.Any) -> details.Run:
        return self._runs[result.host.get_name(), result.task._uuid]

    def _node(self, result: t.Any) -> ProgressNode:
        return self._nodes[result.host.get_name()]

    def _name(self, result: t.Any) -> str:
        return tasks.short(result.task_name)

    def _note(self, result: t.Any, note: str) -> None:
        self._live.note(printable(result.host.get_name()), f" ({note})")

    def _item(self, state: str, result: t.Any) -> None:
        items = self._run(result).items
        items.append(details.Item(state, result.result))
        self._note(result, f"{counted(len(items), 'item')} done")

    def _ran(self, result: t.Any) -> str:
        """Count the calls of a task, learn from it, and return its action."""
        action, node, run = tasks.action(result.task), self._node(result), self._run(result)
        if action not in tasks.CONTROLLER:
            node.calls += run.calls
        for data in (*run.results, result.result):
            node.learn(action, data)
        return action

    def _tells(self, result: t.Any) -> bool:
        """Return whether a task that ended well has a line: not what the controller does, nor an idle handler."""
        idle = result.task._uuid in self._handlers and not result.result.get("changed")
        silent = tasks.action(result.task) in tasks.CONTROLLER
        return not silent and (not idle or self._display.verbosity > 0)

    def _warnings(self, result: t.Any) -> t.List[str]:
        shows_deprecations = constants.config.get_config_value("DEPRECATION_WARNINGS")
        return details.warnings(self._run(result), result.result, shows_deprecations)

    def _new_warnings(self, result: t.Any) -> t.List[str]:
        """Return the warnings of a task that no node has had yet."""
        return [warning for warning in self._warnings(result) if warning not in self._warned]

    # --- how it looks ---

    def _show(self, line: str, kind: str = "plain") -> None:
        self._display.display(printable(line, keep="\t"), color=COLORS.get(kind))

    def _wrapped(self, message: str, kind: str, first: str, indent: str) -> None:
        for line in text.wrapped(message, width(), first, indent):
            self._show(line, kind)

    def _below(self, message: str, kind: str = "plain") -> None:
        """Show a text below the line of a task."""
        self._wrapped(message, kind, INDENT, INDENT)

    def _line(self, state: str, result: t.Any, title: str) -> None:
        """Show the line of a task."""
        run = self._run(result)
        seconds = " " * 7 if run.begun is None else f"{time.monotonic() - run.begun:5.1f} s"
        host = self._names.column(printable(result.host.get_name()))
        self._wrapped(title, state, f"  {MARKS[state]} {seconds}  {host}  ", INDENT)

    def _details(self, result: t.Any) -> None:
        run, planned = self._run(result), result.task.check_mode
        plans, verbosity = self._node(result).plans, self._display.verbosity
        lines = details.details(run, result.result, planned, verbosity)
        if planned and not verbosity and any(line.kind == "step" for line in lines):
            plan = (tasks.action(result.task), lines)
            known = plan in plans
            plans.append(plan)
            lines = [text.Line("as planned above", "note")] if known else lines
        for line in self._once(result, lines):
            step = line.kind == "step"
            self._wrapped(line.text, line.kind, INDENT + "- " * step, INDENT + "  " * step)

    def _once(self, result: t.Any, lines: t.List[text.Line]) -> t.List[text.Line]:
        """Return what is below the line of a task, or on which other node the same was shown; with -v always all."""
        host = printable(result.host.get_name())
        first = self._shown_below.setdefault((result.task._uuid, *lines), host)
        if first == host or len(lines) < 2 or self._display.verbosity:
            return lines
        return [text.Line(f"as on {self._names.shown(first)}", "note")]

    def _returned(self, result: t.Any) -> None:
        for line in details.returned(result.result, self._display.verbosity):
            self._below(line.text, line.kind)

    def _reason(self, state: str, result: t.Any) -> None:
        """Show why a task failed, and keep it for the end."""
        why = details.reason(self._run(result), result.result, self._display.verbosity)
        for line in self._once(
            result, [text.Line(line_text, state) for line_text in why.split("\n")]
        ):
            self._below(line.text, line.kind)
        if state in ("failed", "unreachable"):
            self._node(result).failures.append(Failure(self._name(result), why))

    def _warn(self, result: t.Any) -> None:
        for warning in self._new_warnings(result):
            self._below(warning, "warning")
        warnings = self._warnings(result)
        self._warned.update(warnings)
        self._node(result).warnings.update(dict.fromkeys(warnings))
