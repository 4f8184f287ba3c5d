# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Units of systemd, and their messages in the journal if they don't start."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.text.masking import masked_text
from .host import Host

LINES = 15
STARTS = frozenset({"start", "restart", "reload", "stop", "--now"})
EMFILE = "Too many open files"  # also where no inotify instance is left, which a path unit takes
INSTANCES = "fs.inotify.max_user_instances"
ENOUGH = 1024  # such as nodes with a hundred containers have


def systemctl(host: Host, *args: str, advice: str = "") -> None:
    """Run systemctl; the unit is the last argument.

    Raises:
        NodeError: if it fails, with the journal as its cause, since systemctl says only that it failed.
    """
    try:
        host.run(["systemctl", *args])
    except NodeError as error:
        if not STARTS.isdisjoint(args):
            error.cause = read_journal(host, args[-1]) or error.cause
            error.hint = hint(host, args[-1], error.cause, advice)
        raise


def failure(host: Host, unit: str, problem: str) -> NodeError:
    """Return the error about a unit that does not work, with its last lines in the journal."""
    logged, silent = read_journal(host, unit), "it has logged nothing"
    return NodeError(problem, cause=logged or silent, hint=hint(host, unit, logged))


def read_journal(host: Host, unit: str) -> str:
    """Return the last lines of a unit in the journal, in which systemd writes about it too."""
    command = ["journalctl", "--unit", unit, "--lines", str(LINES), "--no-pager", "--output", "cat"]
    return masked_text(host.run(command, check=False).out.strip())


def hint(host: Host, unit: str, logged: str, advice: str = "") -> str:
    """Return the next step by what a unit has logged."""
    if EMFILE not in logged:
        return f"see 'journalctl -u {unit}'{f', {advice}' if advice else ' on the node, then run again'}"
    most = int(host.read(f"/proc/sys/{INSTANCES.replace('.', '/')}") or 0)
    return (
        f"see whether the node's inotify instances are used up, of which a user may have {most}: sysctl --write"
        f" {INSTANCES}={max(ENOUGH, 2 * most)}, keep that in a file of /etc/sysctl.d, and run again"
    )


def properties(host: Host, unit: str, *names: str, **options: t.Any) -> t.Dict[str, str]:
    """Return properties of a unit by name, none if systemd does not answer; ``options`` are those of Host.run."""
    return properties_of(host, [unit], *names, **options)[unit]


def properties_of(
    host: Host, units: t.Sequence[str], *names: str, **options: t.Any
) -> t.Dict[str, t.Dict[str, str]]:
    """Return properties of units by name. systemd is asked once, and answers with a paragraph for each."""
    argv = ["systemctl", "show", *units, f"--property={','.join(names)}"]
    answers = iter(host.run(argv, check=False, **options).out.split("\n\n"))
    lines = {unit: next(answers, "").splitlines() for unit in units}
    return {
        unit: dict(line.split("=", 1) for line in rows if "=" in line)
        for unit, rows in lines.items()
    }
