# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Persistence mode of GPUs: a daemon that runs need not have turned it on, so the GPUs are asked."""

from __future__ import annotations

import typing as t

from ..._base.knowledge import Absent, Knowledge, Known, Unknown
from ..._base.services.driver import SERVICE
from ..._base.steps import Step

ACTION = "persistence_mode"
OPTION = "--no-persistence-mode"  # with which the units of some packages start the daemon, such as Ubuntu's
DROP_IN = f"/etc/systemd/system/{SERVICE}.d/gpu-node.conf"
# Without a shell, older releases of systemd want the program's path. What fails here keeps no daemon from running.
TEXT = f"""\
# Written by gpu.node.nvidia_driver, as the unit starts the daemon with {OPTION}.
[Service]
ExecStartPost=-/bin/sh -c "exec nvidia-smi -pm 1"
"""


class Persistence(t.NamedTuple):
    """The GPUs whose persistence mode is off, by UUID with their names, and whether the daemon's drop-in is missing.

    Absent: nobody was asked, as the daemon does not run or the rules of gpu.node.settings decide, which ``by_rules``
    says. ``lost_user`` is the user that the unit starts the daemon for, if there is none of that name.
    """

    off: Knowledge[t.Mapping[str, str]] = Absent()
    lacks_drop_in: bool = False
    lost_user: str = ""
    by_rules: bool = False


NOT_ASKED = Persistence()


def plan(persistence: Persistence, *, has_drop_in: bool) -> t.List[Step]:
    """Return the step that turns persistence mode on, now and at each start of the daemon, or leaves that to rules."""
    if persistence.by_rules:
        return [give_back()] if has_drop_in else []
    off = persistence.off.value if isinstance(persistence.off, Known) else {}
    parts = [f"turn persistence mode on of {', '.join(off.values())}"] if off else []
    if persistence.lacks_drop_in:
        parts.append(
            f"turn persistence mode on at each start of {SERVICE}, whose unit has {OPTION}: write {DROP_IN}"
        )
    return [Step(ACTION, "; ".join(parts), {"gpus": tuple(off)})] if parts else []


def give_back() -> Step:
    """Return the step that leaves persistence mode to the daemon's unit."""
    return Step(ACTION, f"remove {DROP_IN}", {"remove": True})


def warnings(persistence: Persistence) -> t.Tuple[str, ...]:
    """Return why persistence modes are not known, and what keeps the daemon from its next start."""
    messages = []
    if isinstance(persistence.off, Unknown):
        messages.append(
            f"{SERVICE} runs, and whether persistence mode is on is not known: {persistence.off.reason}. Next step: see"
            " nvidia-smi -q, and run again; or set persistence to false"
        )
    if persistence.lost_user:
        messages.append(
            f"{SERVICE} starts as the user {persistence.lost_user}, which does not exist any more: it does not start"
            " after the next boot. Next step: reinstall the package of nvidia-persistenced, which makes the user"
        )
    return tuple(messages)
