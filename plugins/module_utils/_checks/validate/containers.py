# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers make of the GPUs: NVML in one of each runtime, and a kernel that adds two vectors."""

from __future__ import annotations

import typing as t

from ..._base.text.json_data import rows, table_in
from ..._base.text.shown import cut
from .check import Check, judged, skipped

CUDA = "CUDA"


class Answer(t.NamedTuple):
    """What the program said that asks the driver, in a container or beside one.

    ``problem`` is why NVML does not answer it, ``uuids`` the GPUs that it sees; ``cuda`` says how the sum of two
    vectors went: None where it was not tried, for the reason in ``untried``, and empty where it came out right.
    ``unknown`` is why the program was not started.
    """

    uuids: t.Tuple[str, ...] = ()
    problem: str = ""
    cuda: t.Optional[str] = None
    untried: str = ""
    unknown: str = ""


def answer(out: str, err: str, rc: int) -> Answer:
    """Read what the program printed; where it printed nothing, say what the runtime said instead."""
    lines = [line for line in out.splitlines() if line.startswith("{")]
    told = table_in(lines[-1] if lines else "")
    if not told:
        said = [line for line in (*out.splitlines(), *err.splitlines()) if line.strip()]
        return Answer(problem=cut(said[-1].strip()) if said else f"it ended with status {rc}")
    cuda = told.get("cuda")
    return Answer(
        tuple(map(str, rows(told.get("uuids")))),
        cut(str(told.get("problem") or "")),
        cut(cuda) if isinstance(cuda, str) else None,
        str(told.get("untried") or ""),
    )


def container(runtime: str, found: Answer, gpus: t.Sequence[str]) -> Check:
    """Check that a runtime's container was started, and that NVML in it has all GPUs of the node."""
    name = f"{runtime}: container"
    if found.unknown:
        return skipped(name, found.unknown)
    step = f"see the log of {runtime}; the role gpu.node.cdi regenerates the specification"
    if found.problem:
        return judged(name, f"a container does not open the GPUs: {found.problem}", step)
    missing = sorted(set(gpus) - set(found.uuids))
    words = f"a container with all GPUs does not see {', '.join(missing)}" if missing else ""
    return judged(name, words, step)


def cuda(found: t.Mapping[str, Answer], unknown: str) -> Check:
    """Check that a kernel ran, by the answers from where it may have; ``unknown`` says why it was not tried."""
    for where, one in found.items():
        if one.cuda is not None:
            words = f"the sum of two vectors failed {where}: {one.cuda}" if one.cuda else ""
            return judged(CUDA, words, "see the kernel's log for XIDs (journalctl -k -g Xid)")
    untried = [one.untried for one in found.values()][-1:]
    return skipped(CUDA, "".join(untried) or unknown or "it was not tried")
