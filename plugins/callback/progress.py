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
    or in check mode would take.
  - Ends with a line for each node that says what changed and how many module calls it took.
requirements:
  - set as stdout callback in the configuration
"""

import collections
import re
import time
import typing as t

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpu.node.plugins.module_utils._core.text.shown import printable

CONTROLLER_ACTIONS = (
    "add_host",
    "assert",
    "debug",
    "fail",
    "group_by",
    "include_role",
    "include_tasks",
    "include_vars",
    "import_role",
    "import_tasks",
    "meta",
    "set_fact",
    "validate_argument_spec",
)
MARKS = {"ok": "=", "changed": "+", "failed": "!", "unreachable": "!", "message": "i"}
COLORS = {
    "ok": constants.COLOR_OK,
    "changed": constants.COLOR_CHANGED,
    "failed": constants.COLOR_ERROR,
    "unreachable": constants.COLOR_UNREACHABLE,
    "message": constants.COLOR_VERBOSE,
}


class CallbackModule(CallbackBase):
    """The display."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpu.node.progress"

    def __init__(self, display: t.Any = None, options: t.Any = None) -> None:
        super().__init__(display=display, options=options)
        self._begun = time.monotonic()
        self._started: t.Dict[t.Tuple[str, str], float] = {}
        self._calls: t.Dict[str, int] = collections.defaultdict(int)

    # --- what Ansible calls ---

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        """Show the play's name."""
        check = " (check mode: nothing is changed)" if play.check_mode else ""
        self._display.display(f"\n{play.get_name()}{check}")

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        """Note when a task began on a host."""
        self._started[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Show a task that ended well."""
        data, action = result._result, result._task.action.rsplit(".", 1)[-1]
        self._count(result, action)
        if action == "debug" and data.get("msg"):
            self._line("message", result, str(data["msg"]))
            return
        if action in CONTROLLER_ACTIONS:
            return
        self._line("changed" if data.get("changed") else "ok", result)
        self._steps(result, data)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Show a failure with its reason."""
        self._count(result, result._task.action.rsplit(".", 1)[-1])
        self._line("failed", result)
        data = result._result
        self._steps(result, data)
        if not data.get("results"):
            self._reason(data)

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        """Show why an item of a loop failed."""
        self._reason(result._result)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Show a host that does not answer."""
        self._line("unreachable", result)
        self._reason(result._result)

    def v2_on_file_diff(self, result: t.Any) -> None:
        """Show what a task changes, when that was asked for."""
        # What Ansible makes of it has colours of its own.
        diff = _printable(result._result.get("diff"))
        if diff and result._result.get("changed"):
            text = self._get_diff(diff)
            if text:
                self._display.display(
                    "".join(f"        {line}\n" for line in text.rstrip().splitlines()).rstrip()
                )

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Say that there is nothing to do."""
        self._display.display("  no host matches", color=constants.COLOR_SKIP)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Show a line for each host."""
        self._display.display("")
        for host in sorted(stats.processed):
            one = stats.summarize(host)
            bad = one["failures"] or one["unreachable"]
            color = COLORS["failed" if bad else "changed" if one["changed"] else "ok"]
            words = f"changed={one['changed']} ok={one['ok']} failed={one['failures']}"
            words += f" unreachable={one['unreachable']} module calls={self._calls[host]}"
            self._display.display(f"  {host}: {words}", color=color)
        self._display.display(f"  {time.monotonic() - self._begun:.1f} s in all")

    # --- how it looks ---

    def _count(self, result: t.Any, action: str) -> None:
        if action not in CONTROLLER_ACTIONS:
            self._calls[result._host.get_name()] += 1

    def _line(self, state: str, result: t.Any, text: str = "") -> None:
        host = result._host.get_name()
        begun = self._started.get((host, result._task._uuid))
        seconds = f"{time.monotonic() - begun:5.1f} s" if begun is not None else " " * 7
        name = text or result._task.get_name().split(" : ", 1)[-1]
        words = printable(f"{host}  {name}")
        self._display.display(f"  {MARKS[state]} {seconds}  {words}", color=COLORS[state])

    def _steps(self, result: t.Any, data: t.Mapping[str, t.Any]) -> None:
        for step in data.get("steps") or ():
            if isinstance(step, dict) and "summary" in step:
                summary = printable(str(step["summary"]))
                if result._task.check_mode:
                    summary = _would(summary)
                self._display.display(f"               - {summary}")

    def _reason(self, data: t.Mapping[str, t.Any]) -> None:
        text = str(data.get("msg", "no reason given")).strip("\n")
        for line in printable(text, keep="\n").split("\n"):
            self._display.display(f"               {line}", color=constants.COLOR_ERROR)


def _would(summary: str) -> str:
    """Return a step as check mode says it: "GPU 6: would destroy 1g", not "would GPU 6: destroy 1g"."""
    named = re.match(r"(?:GPU \d+|/\S+): ", summary)
    subject = named.group() if named else ""
    return f"{subject}would {summary[len(subject) :]}"


def _printable(value: t.Any) -> t.Any:
    """Return a diff with all of its texts as a terminal may be shown them."""
    if isinstance(value, dict):
        return {key: _printable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(one) for one in value]
    return printable(value, keep="\n\t") if isinstance(value, str) else value
