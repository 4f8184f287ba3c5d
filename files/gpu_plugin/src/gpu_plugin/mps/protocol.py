# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The protocol of nvidia-cuda-mps-control: commands, and the meaning of its answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut, shown
from ..model.mps.settings import Bounds

# The daemon sees one device only. A UUID here is taken without a word and without effect.
DEVICE: Final = 0
SERVERS: Final = "get_server_list"
THREADS: Final = "active_thread_percentage"
MEMORY: Final = "device_pinned_mem_limit"
# Tells at once whether the daemon lives and keeps its defaults.
POLL: Final = f"{SERVERS}\nget_default_{THREADS}\nget_default_{MEMORY} {DEVICE}"
LONGEST_EVENT: Final = 500  # a client's command is in the log as it gave it
SIZE: Final = re.compile(r"([0-9]{1,12})([MG])")
NUMBER: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?")
FAULT: Final = "FAULT"  # what a server's status is then; else it is ACTIVE or INITIALIZING
PID: Final = re.compile(r"[0-9]{1,10}")
UNKNOWN: Final = "Unknown command"
REFUSALS: Final = (UNKNOWN, "Invalid", "Insufficient", "Not enough privilege")
CHATTER: Final = re.compile(
    r"Starting control daemon using socket .*|To connect CUDA applications to this daemon.*|"
    r"Accepting connection\.\.\.|NEW UI|UI closed|Cmd:get_\S+( [0-9]+)?|[0-9. ]*|[0-9]+[MG]"
)
STAMP: Final = re.compile(r"\[[-0-9]+ [:.0-9]+ +\w+ +[0-9]+\] ?")


class ControlError(NodeError):
    """The control daemon did not answer, or not as expected."""


class Silent(ControlError):
    """The control daemon runs and does not answer. Its clients know nothing of that."""


class LimitNotTaken(ControlError):
    """A limit that was read back is not the one that was set."""


@dataclass(frozen=True)
class Setting:
    """A limit: what sets it, what asks for it, and the answer that is expected."""

    name: str
    set: str
    get: str
    asked: str


def settings(bounds: Bounds, server: int = 0) -> Iterator[Setting]:
    """Return what has to be set before the first client, or of a server that has begun with it."""
    kind, of = ("", f" {server}") if server else ("default_", "")
    size, memory = f"{bounds.memory_mib}M", f"{kind}{MEMORY}{of} {DEVICE}"
    yield Setting(f"{kind}{MEMORY}", f"set_{memory} {size}", f"get_{memory}", size)
    threads, name = f"{bounds.threads:.1f}", f"{kind}{THREADS}{of}"
    yield Setting(f"{kind}{THREADS}", f"set_{name} {threads}", f"get_{name}", threads)


def poll(server: int) -> str:
    """Return the question for a server's clients and limits, which polled() reads."""
    return f"get_client_list {server}\nget_{THREADS} {server}\nget_{MEMORY} {server} {DEVICE}"


def check(setting: Setting, answer: str) -> str:
    """Return what was read back.

    Raises:
        LimitNotTaken: if it is not what was asked for.
    """
    result = answer.strip()
    if not _confirms(setting, result):
        raise LimitNotTaken(
            f"{setting.name} was not taken",
            cause=f"{setting.asked} was asked for, {cut(result) or 'nothing'} was read back",
        )
    return result


def _confirms(setting: Setting, text: str) -> bool:
    if setting.name.endswith(THREADS):
        return NUMBER.fullmatch(text) is not None and abs(float(text) - float(setting.asked)) < 0.05
    size, mib = SIZE.fullmatch(text), int(setting.asked.rstrip("M"))
    # From 1 GiB on the program reports whole GiB, whatever it holds: 1500M reads as 1G.
    return size is not None and int(size[1]) == (mib // 1024 if size[2] == "G" else mib)


def question(command: str) -> str:
    """Return a command with a question behind it that always has an answer: see answer()."""
    return f"{command}\nget_default_{THREADS}\n"


def answer(output: str) -> str | None:
    """Return the answer to a question(); None when it was lost.

    The program answers one who asks at a time. Two at once cut each other off, with status 0 or 1.
    """
    lines = output.splitlines()
    try:
        float(lines.pop())
    except (IndexError, ValueError):
        return None
    return "".join(f"{line}\n" for line in lines)


def lost(output: str, problem: str) -> ControlError:
    """Return the error of an output that has no answer to a question(), time and again.

    A newer program may say more than this one: its daemon lives, and is not to be taken for dead.
    """
    if output.strip():
        return ControlError(
            "the control daemon's answer is not understood", cause=shown(output.strip())
        )
    return Silent("the control daemon does not answer", cause=problem)


def refusal(answer: str) -> str:
    """Return the program's complaint; it ends with status 0 even then."""
    return cut(next((line for line in answer.splitlines() if line.startswith(REFUSALS)), ""))


def polled(output: str, bounds: Bounds | None) -> tuple[tuple[int, ...], bool]:
    """Return the processes, and whether the limits are still those that were set, if these are known.

    The answer to POLL has the servers and the defaults, that to poll() the clients and limits of a server.
    """
    lines = output.split()
    # Without a memory limit the program says nothing, and the last line is the threads.
    has_memory = bool(lines) and SIZE.fullmatch(lines[-1]) is not None
    memory = lines.pop() if has_memory else ""
    threads = lines.pop() if lines else ""
    holds = bounds is not None and all(map(_confirms, settings(bounds), (memory, threads)))
    return pids("\n".join(lines)), holds


def pids(answer: str) -> tuple[int, ...]:
    """Return the process ids in an answer."""
    lines = answer.split()
    if not all(PID.fullmatch(line) for line in lines):
        raise ControlError("no process ids in the answer", cause=shown(answer.strip()))
    return tuple(map(int, lines))


def faulted(server: int, clients: Sequence[int]) -> str:
    """Return the problem of a server that a client's fatal fault has ended for all its clients."""
    holders = ", ".join(map(str, clients)) or "those that it still has"
    return f"its MPS server {server} had a fatal fault, and takes nobody until these clients have ended: {holders}"


def gone(answer: str) -> bool:
    """Return whether a server ended between the question for servers and that for its clients."""
    return answer.startswith("Server ") and answer.rstrip().endswith("not found")


def event(line: str) -> str:
    """Return the event in a line of the program's log, empty for the traces of our own commands."""
    text = STAMP.sub("", line.strip())
    return "" if CHATTER.fullmatch(text) else cut(text, LONGEST_EVENT)
