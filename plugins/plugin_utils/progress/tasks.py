# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible's tasks are to the display."""

from __future__ import annotations

import re
import typing as t

# They run on the controller and take no module call.
CONTROLLER = (
    *("add_host", "assert", "debug", "fail", "group_by", "include_role", "include_tasks"),
    *("include_vars", "import_role", "import_tasks", "meta", "pin_options", "set_fact"),
    "validate_argument_spec",
)


def action(task: t.Any) -> str:
    """Return the name of a task's action without its collection."""
    return str(task.action).rsplit(".", 1)[-1]


def short(name: str) -> str:
    """Return a task's name without its role: "Partition the GPUs", not "gpu.node.mig : Partition the GPUs"."""
    return re.sub(r"^[\w.-]+ : ", "", name)


def asks(task: t.Any) -> bool:
    """Return whether a task speaks with the user."""
    return action(task) == "pause" or bool(task.debugger)


def hosts(play: t.Any) -> t.Tuple[t.List[str], t.List[str]]:
    """Return the names of a play's hosts and of those of its batch; none where Ansible can't say it yet."""
    try:
        known = play.get_variable_manager().get_vars(play=play)
    except Exception:  # a variable that can't be read is an error of the play, not of its display
        return [], []
    return list(known.get("ansible_play_hosts_all", ())), list(known.get("ansible_play_batch", ()))


def rescued(task: t.Any) -> bool:
    """Return whether the failure of a task leads to a rescue: the task is in a block that has one."""
    below, above = task, getattr(task, "_parent", None)
    while above is not None:
        if getattr(above, "rescue", None) and _holds(above.block, below):
            return True
        below, above = above, getattr(above, "_parent", None)
    return False


def _holds(tasks: t.Iterable[t.Any], searched: t.Any) -> bool:
    return any(task._uuid == searched._uuid for task in tasks)
