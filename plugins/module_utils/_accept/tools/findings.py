# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The result of another vendor's tool, GPU by GPU: faults, figures, and what it did not measure.

A tool's exit status alone is never a pass. What a tool writes is read strictly, as a broken driver may have had a hand
in it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import typing as t

from ..._base.text import json_data
from ..._base.text.strict import bounded

MOST_DOCUMENTS = 16  # places of an output that are tried as the start of a document
# CUDA's descriptions of errors that a healthy GPU with a matching driver does not have.
HARDWARE_ERRORS = (
    "uncorrectable ECC error",
    "uncorrectable NVLink error",
    "hardware stack error",
    "unspecified launch failure",
    "illegal memory access",
    "illegal instruction",
    "contained error",
)


class ToolRun(t.NamedTuple):
    """How a tool ended, and what it wrote.

    Attributes:
        status: Its exit status, negative for a signal, None if it did not start or was killed.
        output: What it printed, errors among it.
        document: The file that it wrote, empty if there is none.
        problem: Why it did not start or was killed.
    """

    status: t.Optional[int]
    output: str = ""
    document: str = ""
    problem: str = ""


@dataclasses.dataclass
class ToolResult:
    """The result of a tool for several GPUs.

    Attributes:
        title: What the tool is called in texts.
        gpus: The UUIDs of the GPUs, in the order in which the tool sees them.
        version: The tool's version, empty if it is not known.
        faults: The faults by UUID.
        figures: The figures by UUID and name.
        unmeasured: By UUID and test why it was not measured. Such a GPU has not passed.
        left_out: By test why it was left out, which does not keep a GPU from passing.
    """

    title: str
    gpus: t.Tuple[str, ...]
    version: str = ""
    faults: t.Dict[str, t.List[str]] = dataclasses.field(default_factory=dict)
    figures: t.Dict[str, t.Dict[str, float]] = dataclasses.field(default_factory=dict)
    unmeasured: t.Dict[str, t.Dict[str, str]] = dataclasses.field(default_factory=dict)
    left_out: t.Dict[str, str] = dataclasses.field(default_factory=dict)

    def add_fault(self, text: str, *uuids: str) -> None:
        """Add a fault of GPUs, of all of them if none is named."""
        for uuid in uuids or self.gpus:
            faults = self.faults.setdefault(uuid, [])
            line = bounded(f"{self.title}: {text}")
            if line not in faults:
                faults.append(line)

    def add_unmeasured(self, reason: str, test: str = "", *uuids: str) -> None:
        """Add that GPUs, all of them if none is named, did not do a test, or did none if no test is named."""
        for uuid in uuids or self.gpus:
            name = bounded(": ".join(filter(None, (self.title, test))))
            self.unmeasured.setdefault(uuid, {}).setdefault(name, bounded(reason))

    def add_left_out(self, reason: str, test: str) -> None:
        """Add that a test was left out for all GPUs."""
        self.left_out.setdefault(bounded(f"{self.title}: {test}"), bounded(reason))

    def add_figure(self, name: str, value: float, uuid: str) -> None:
        """Add a figure of a GPU, of which the least counts."""
        figures = self.figures.setdefault(uuid, {})
        figures[name] = min(value, figures.get(name, value))

    def passed(self, uuid: str) -> bool:
        """Return whether the tool measured all that it should of a GPU, without a fault."""
        return uuid in self.gpus and not self.faults.get(uuid) and not self.unmeasured.get(uuid)


def reason_of(error: Exception) -> str:
    """Return why an answer can't be judged: the text of a ValueError that a parser has raised on purpose."""
    of_a_library = isinstance(error, (json.JSONDecodeError, UnicodeError))
    on_purpose = isinstance(error, ValueError) and not of_a_library
    return str(error) if on_purpose else json_data.NOT_UNDERSTOOD


def find_documents(text: str) -> t.List[t.Dict[str, t.Any]]:
    """Return the JSON objects of an output that begin at the start of a line, with other lines around them.

    Raises:
        ValueError: if one is longer or nested more deeply than any that a tool writes.
    """
    documents: t.List[t.Dict[str, t.Any]] = []
    decoder, end = json.JSONDecoder(), 0
    for start in itertools.islice(re.finditer(r"^\{", text, re.MULTILINE), MOST_DOCUMENTS):
        if start.start() < end:
            continue
        try:
            _data, end = decoder.raw_decode(text, start.start())
        except RecursionError:
            raise ValueError("its answer is nested too deeply") from None
        except ValueError:
            continue
        documents.append(json_data.loads(text[start.start() : end]))
    return documents


def ending(run: ToolRun, meanings: t.Optional[t.Mapping[int, str]] = None) -> str:
    """Return how a tool ended, with what it wrote at last.

    Args:
        run: The tool's run.
        meanings: What its exit statuses mean, where that is known.
    """
    if run.problem or run.status is None:
        return run.problem or "it did not run"
    kind = f"signal {-run.status}" if run.status < 0 else f"status {run.status}"
    meaning = (meanings or {}).get(run.status, "")
    return ": ".join(filter(None, (f"it ended with {kind}", meaning, last_line(run.output))))


def last_line(output: str) -> str:
    """Return the first line of an output that tells of a failure, or its last line; empty if there is none."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and line[0] != "#"]
    failures = [line for line in lines if "failure" in line or "error" in line.lower()]
    return bounded((failures or lines[-1:] or [""])[0])[:200]


def is_of_hardware(text: str) -> bool:
    """Return whether an error of CUDA is of the GPU, and not of how the tool was built or called."""
    return any(error.lower() in text.lower() for error in HARDWARE_ERRORS)


def is_number(value: object) -> t.TypeGuard[float]:
    """Return whether a value is a number that can have been measured."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:
        return False
