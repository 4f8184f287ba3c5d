# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A table of what was found on the machines, in Markdown: ``table.py FOLDER``, with machines.json and tests.xml in it.

Machines are numbered as the user named them: their addresses are nobody else's business.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Json = Mapping[str, Any]
HEAD = ("", "System", "Kernel", "Driver", "GPUs", "Container runtimes", "Checks", "Tests", "Result")


class Case(NamedTuple):
    """A test on a machine; ``state`` is passed, failed or skipped."""

    machine: str
    name: str
    state: str
    reason: str


class Machine(NamedTuple):
    """What a machine answered to each module; nothing where it did not."""

    system: Json
    gpus: Json
    runtimes: Json
    checks: Sequence[Json]


def cases(path: Path) -> Iterator[Case]:
    """Yield the tests of a JUnit file; none where there is no file, as the run ended before them."""
    if not path.exists():
        return
    for one in ET.parse(path).getroot().iter("testcase"):
        name, machine = re.fullmatch(
            r"([^[]*)(?:\[ansible://([^]]*)\])?.*", one.get("name", "")
        ).groups()  # type: ignore[union-attr]
        found = next(
            (tag for tag in ("failure", "error", "skipped") if one.find(tag) is not None), ""
        )
        node = one.find(found) if found else None
        reason = "" if node is None else (node.get("message") or "").split("\n")[0]
        state = {"": "passed", "skipped": "skipped"}.get(found, "failed")
        yield Case(machine or "", name, state, reason.removeprefix("Skipped: "))


def system(facts: Json) -> tuple[str, str]:
    """Return a system and its kernel."""
    if not facts:
        return "does not answer", ""
    name = f"{facts['ansible_distribution']} {facts['ansible_distribution_version']}"
    return f"{name}, {facts['ansible_architecture']}", facts["ansible_kernel"]


def driver(info: Json) -> str:
    """Return the driver's version, the type of its modules, and the CUDA that it serves."""
    loaded = info.get("driver")
    if not loaded:
        return "not loaded"
    cuda = f", CUDA {info['cuda_version']}" if info.get("cuda_version") else ""
    return f"{loaded['version']} ({loaded['module_type']}){cuda}"


def gpus(info: Json) -> str:
    """Return the models and how many of each, and how many are partitioned."""
    found = info.get("gpus", [])
    models = Counter(one["name"] for one in found)
    parts = sum(bool(one.get("gpu_instances")) for one in found)
    said = [f"{count} x {name}" for name, count in models.items()]
    return ", ".join([*said, *([f"MIG on {parts}"] if parts else [])]) or "none answers"


def counted(states: Sequence[str]) -> str:
    """Return how often each state is there."""
    found = Counter(states)
    named = ("passed", "warning", "failed", "skipped")
    return ", ".join(f"{found[one]} {one}" for one in named if found[one]) or "not run"


def result(machine: Machine, tests: Sequence[Case]) -> str:
    """Return the verdict."""
    states = [one["state"] for one in machine.checks] + [one.state for one in tests]
    if "failed" in states:
        return "failed"
    return "passed" if machine.checks and tests else "not finished"


def row(number: int, machine: Machine, tests: Sequence[Case]) -> list[str]:
    """Return a machine's row."""
    name, kernel = system(machine.system)
    runtimes = [f"{one['name']} {one['version']}" for one in machine.runtimes.get("runtimes", [])]
    checks = counted([one["state"] for one in machine.checks])
    seen = (driver(machine.gpus), gpus(machine.gpus), ", ".join(runtimes) or "none")
    done = (checks, counted([one.state for one in tests]), result(machine, tests))
    return [str(number), name, kernel, *seen, *done]


def notes(number: int, machine: Machine, tests: Sequence[Case]) -> Iterator[str]:
    """Yield what did not pass, with the reason."""
    for check in machine.checks:
        if check["state"] != "passed":
            yield f"{number}: check {check['name']} {check['state']}: {check['cause']}"
    same: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        if test.state != "passed":
            same.setdefault((test.state, test.reason), []).append(test.name)
    for (state, reason), names in same.items():
        yield f"{number}: {', '.join(names)} {state}: {reason}"


def cell(text: str) -> str:
    """Return a text as a cell, which has one line and no bars."""
    return " ".join(text.split()).replace("|", "\\|")


def table(machines: Mapping[str, Machine], tests: Sequence[Case]) -> str:
    """Return the table and what did not pass."""
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(["---"] * len(HEAD)) + " |"]
    more = []
    for number, (name, machine) in enumerate(machines.items(), 1):
        own = [one for one in tests if one.machine == name]
        lines.append("| " + " | ".join(map(cell, row(number, machine, own))) + " |")
        more += [f"- {cell(one)}" for one in notes(number, machine, own)]
    return "\n".join([*lines, *(["", *more] if more else [])])


def read(answers: Json) -> dict[str, Machine]:
    """Return the machines of what the playbook kept."""
    found = zip(
        answers["system"], answers["gpus"], answers["runtimes"], answers["checks"], strict=True
    )
    return {
        name: Machine(
            one.get("ansible_facts", {}), two.get("gpu_info", {}), three, four.get("checks", [])
        )
        for name, (one, two, three, four) in zip(answers["names"], found, strict=True)
    }


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    answers = json.loads((folder / "machines.json").read_text())
    print(table(read(answers), list(cases(folder / "tests.xml"))))


if __name__ == "__main__":
    main()
