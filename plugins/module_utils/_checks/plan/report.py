# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is planned for all parts, as lines for a reader, and what of it a check has to refuse."""

from __future__ import annotations

import typing as t

from ..._base.text.readable import would
from ..parts import Answer


def lines(parts: t.Iterable[Answer]) -> t.List[str]:
    """Return a line for each step, with what it waits for, and for each part that would be refused."""
    result = []
    for part in parts:
        phrases = [would(step["summary"]) for step in part["steps"]]
        result += [f"{part['name']}: {phrase}" for phrase in (*phrases, *ahead(part))]
    return result


def ahead(part: Answer) -> t.Iterator[str]:
    """Yield what stands before a part: a refusal, another part, a reboot."""
    if part["error"]:
        yield f"would be refused as it is now: {part['error']['msg']}"
    if part["result"].get("refused"):
        yield f"would be refused, since GPUs are in use by {', '.join(part['blocked_by'])}"
    if part["later"]:
        yield f"known once {part['later']}"
    yield from (f"reboot required: {reboot_reason}" for reboot_reason in part["reboot_reasons"])


def refused(parts: t.Iterable[Answer], *, check_mode: bool) -> t.List[str]:
    """Return why a run would fail, whatever it changes before: an error that nothing else may take away.

    What newer package lists may take away a check refuses, and no run, which fetches them.
    """
    errors = (part["error"] for part in parts if part["error"] and not part["later"])
    return [error["msg"] for error in errors if check_mode or not error["until"]]


def differences(parts: t.Iterable[Answer]) -> t.List[t.Dict[str, str]]:
    """Return the differences of all parts as Ansible shows several, each under its part's name."""
    shown = ((part["name"], part["diff"]) for part in parts if part["diff"])
    return [{"before_header": name, "after_header": name, **diff} for name, diff in shown]
