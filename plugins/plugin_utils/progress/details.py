# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is below a task's line: steps, differences, values, and why it failed."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.readable import would
from ansible_collections.gpu.node.plugins.module_utils._checks.plan.report import ahead

from . import values
from .difference import cut, difference
from .text import Line, shortened

Data = t.Mapping[str, t.Any]
MOST_DIFFERENCE, MOST_VALUES = 40, 60  # lines, without -v and -vvv


class Item(t.NamedTuple):
    """What became of an item of a loop."""

    state: str
    data: Data


@dataclasses.dataclass
class Run:
    """A task on a node, from its start to its end."""

    begun: t.Optional[float] = None
    retries: int = 0
    differs: bool = False  # differences are wanted
    items: t.List[Item] = dataclasses.field(default_factory=list)

    @property
    def calls(self) -> int:
        """How many calls it took of a module."""
        return self.retries + len(
            [item for item in self.items or [Item("", {})] if item.state != "skipped"]
        )

    @property
    def results(self) -> t.List[Data]:
        """Return the results of the items that were not skipped."""
        return [item.data for item in self.items if item.state != "skipped"]


def details(run: Run, data: Data, planned: bool, verbosity: int) -> t.List[Line]:
    """Return what a task did to a node, or where it is ``planned`` would do; with -v what it returned."""
    lines = [Line(f"after {run.retries + 1} attempts", "note")] if run.retries else []
    lines += _changes(run, data, planned, verbosity)
    for item in run.items:
        inner = [*_changes(run, item.data, planned, verbosity), *returned(item.data, verbosity)]
        if inner or verbosity:
            lines += [Line(f"{values.label(item.data)}: {item.state}", item.state), *inner]
    return lines


def returned(data: Data, verbosity: int) -> t.List[Line]:
    """Return the values of a result with -v."""
    loud = data.get("_ansible_verbose_override") and verbosity < 3
    text = values.values(data, everything=verbosity > 2) if verbosity and not loud else ""
    shown = [Line(line, "note") for line in text.split("\n") if text]
    return cut(shown, 0 if verbosity > 2 else MOST_VALUES, "-vvv")


def reason(run: Run, data: Data, verbosity: int) -> str:
    """Return why a task failed, for a loop of each item that did."""
    why = functools.partial(values.reason, traceback=verbosity > 2)
    failed = [item.data for item in run.items if item.state == "failed"]
    return "\n".join(f"{values.label(item)}: {why(item)}" for item in failed) or why(data)


def warnings(run: Run, data: Data, deprecations: bool) -> t.List[str]:
    """Return the warnings of a task and its items, each once."""
    everything = (data, *(item.data for item in run.items))
    messages = [warning for each in everything for warning in values.warnings(each, deprecations)]
    return list(dict.fromkeys(messages))


def _changes(run: Run, data: Data, planned: bool, verbosity: int) -> t.List[Line]:
    if isinstance(data.get("parts"), list):
        return _parts(run, data, planned, verbosity)
    lines = steps(data, planned, full=verbosity > 0)
    if run.differs and data.get("changed") and not values.censored(data):
        differences = difference(_shown(data, lines), 0 if verbosity else MOST_DIFFERENCE)
        lines += [line._replace(text=f"  {line.text}") for line in differences]
    return lines


def _parts(run: Run, data: Data, planned: bool, verbosity: int) -> t.List[Line]:
    """Return what a look has planned: all of it where nothing is done, else what comes next."""
    if not planned:
        names = ", ".join(map(str, data.get("calls") or ()))
        return [Line(f"to do: {names}", "note")] if names else []
    lines = []
    for part in data["parts"]:
        inner = _changes(run, {**part, "changed": True}, planned, verbosity)
        inner += [Line(warning, "warning") for warning in ahead(part)]
        lines += [Line(str(part["name"])), *inner] if inner else []
    return lines


def _shown(data: Data, above: t.Sequence[Line]) -> t.Any:
    """Return the difference of a result, without the steps that are shown ``above`` it."""
    diff = data.get("diff")
    if above and isinstance(diff, dict):
        return {key: value for key, value in diff.items() if key != "prepared"}
    return diff


def steps(data: Data, planned: bool, full: bool) -> t.List[Line]:
    """Return the steps of one of the collection's modules, long lists cut unless in ``full``."""
    lines = []
    for step in data.get("steps") or ():
        if isinstance(step, dict) and "summary" in step:
            summary = str(step["summary"]) if full else shortened(str(step["summary"]))
            lines.append(Line(would(summary) if planned else summary, "step"))
    return lines
