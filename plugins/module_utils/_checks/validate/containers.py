# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers make of the GPUs: NVML in one of each runtime, and a kernel that adds two vectors."""

from __future__ import annotations

import typing as t

from ..._base.text import json_data
from ..._base.text.shown import cut
from .check import Check, judged, skipped

CUDA = "CUDA"


class Answer(t.NamedTuple):
    """What the program said that asks the driver, in a container or beside one.

    ``problem`` is why NVML does not answer it, ``uuids`` the GPUs that it sees; ``cuda`` says how the sum of two
    vectors went: None where it was not tried, for the reason in ``untried``, and empty where it came out right.
    """

    uuids: t.Tuple[str, ...] = ()
    problem: str = ""
    cuda: t.Optional[str] = None
    untried: str = ""


class Container(t.NamedTuple):
    """What came of a container of a runtime, or why none was started."""

    runtime: str
    answer: Answer = Answer()
    unknown: str = ""


def answer(out: str, err: str, rc: int) -> Answer:
    """Read what the program printed; where it printed nothing, say what the runtime said instead."""
    lines = [line for line in out.splitlines() if line.startswith("{")]
    try:
        told = json_data.loads(lines[-1]) if lines else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        said = [line for line in (*out.splitlines(), *err.splitlines()) if line.strip()]
        return Answer(problem=cut(said[-1].strip()) if said else f"it ended with status {rc}")
    cuda = told.get("cuda")
    uuids = told.get("uuids")
    return Answer(
        tuple(map(str, uuids)) if isinstance(uuids, list) else (),
        cut(str(told.get("problem") or "")),
        cut(cuda) if isinstance(cuda, str) else None,
        str(told.get("untried") or ""),
    )


def container(one: Container, gpus: t.Sequence[str]) -> Check:
    """Check that a container was started, and that NVML in it has all GPUs of the node."""
    name = f"{one.runtime}: container"
    if one.unknown:
        return skipped(name, one.unknown)
    step = f"see the log of {one.runtime}; the role gpu.node.cdi regenerates the specification"
    if one.answer.problem:
        return judged(name, f"a container does not open the GPUs: {one.answer.problem}", step)
    missing = sorted(set(gpus) - set(one.answer.uuids))
    words = f"a container with all GPUs does not see {', '.join(missing)}" if missing else ""
    return judged(name, words, step)


def cuda(found: t.Optional[Answer], where: str, unknown: str) -> Check:
    """Check that a kernel ran; ``where`` says in what, ``unknown`` why it was not tried."""
    if found is None or found.cuda is None:
        return skipped(CUDA, (found and found.untried) or unknown or "it was not tried")
    words = f"the sum of two vectors failed {where}: {found.cuda}" if found.cuda else ""
    return judged(CUDA, words, "see the kernel's log for XIDs (journalctl -k -g Xid)")
