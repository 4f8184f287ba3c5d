# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan of a load test: which GPUs it is for, and why others are left out."""

from __future__ import annotations

import difflib
import math
import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.gpu import COMPUTE, COMPUTE_MODES, PROHIBITED
from .._base.steps import IDLE_GPU, Step
from .._repair.case import RepairCases
from .._repair.reset.state import ResetGpu, ResetState
from .._repair.signs import Answer
from .gate import GateState
from .record import Identity, Record, RequiredLevel, reason_to_test
from .result import DCGMI, PASSED, QUICK, STANDARD, TOOLS, UNTESTED, GpuResult
from .verdict import FIGURES, TOOL_FIGURES

TEST = "test_gpus"
ALWAYS, NEVER = "always", "never"
LOAD_TEST = "load test"
MIG = "it is in MIG mode, and whole GPUs are tested: make a layout without MIG devices first"
CLOSED = "its compute mode keeps every process out: set compute_mode to default first"
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}")
HINT = "run gpu.node.repair, or replace the GPU; docs/repair/accept.md says what each fault means"


class AcceptState(t.NamedTuple):
    """The GPUs of a node with their users, by UUID their identity, and the record of earlier tests."""

    node: ResetState = ResetState()
    identities: t.Mapping[str, Identity] = {}
    record: Record = {}
    cases: RepairCases = RepairCases()
    current_time: float = 0.0
    gate: t.Optional[GateState] = None


class ToolSource(t.NamedTuple):
    """Where a tool is: its path on the node, or in a container image. Without a path it is on that of root."""

    path: str = ""
    image: str = ""


class AcceptOptions(t.NamedTuple):
    """What is asked for.

    Attributes:
        floors: The least that figures may be.
        always: Whether to test anew what has passed.
        valid_days: How many days a pass is good for, 0 for any time.
        duration: Seconds of each kernel of arithmetic.
        level: How much to test.
        dcgm_level: The level of dcgmi diag.
    tools: t.Mapping[str, t.Optional[ToolSource]] = {}
    tests: bool = True
    """

    floors: t.Mapping[str, float] = {}
    always: bool = False
    valid_days: int = 0
    duration: int = 10
    level: str = QUICK
    dcgm_level: int = 2
    tools: t.Mapping[str, t.Optional[ToolSource]] = {}
    tests: bool = True

    @property
    def required(self) -> RequiredLevel:
        """How much has to be tested."""
        if self.level != STANDARD:
            return RequiredLevel()
        tools = tuple(name for name in TOOLS if self.tools.get(name, ToolSource()) is not None)
        return RequiredLevel(STANDARD, self.dcgm_level if DCGMI in tools else 0, tools)


def parse_options(params: t.Mapping[str, t.Any]) -> AcceptOptions:
    """Return the options of the module.

    Raises:
        InputError: if a floor is of no figure or no number, a time is negative, or a tool is not known or is nowhere.
    """
    known = [*FIGURES.values(), *TOOL_FIGURES]
    for name, floor in params["floors"].items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            meant = f"; {near[0]} is near" if near else ""
            raise InputError.of("floors", name, f"one of {', '.join(known)}{meant}")
        if (
            isinstance(floor, bool)
            or not isinstance(floor, (int, float))
            or not 0 < floor < math.inf
        ):
            raise InputError.of(f"floors.{name}", floor, "a number greater than 0")
    if not 1 <= params["duration"] <= 3600:
        raise InputError.of("duration", params["duration"], "1 to 3600 seconds")
    if params["valid_for"] < 0:
        raise InputError.of("valid_for", params["valid_for"], "a number of days, not negative")
    level, tools = params["level"], _parse_tools(params["tools"])
    options = AcceptOptions(
        {
            name: float(floor)
            for name, floor in params["floors"].items()
            if level == STANDARD or name not in TOOL_FIGURES
        },
        params["test"] == ALWAYS,
        params["valid_for"],
        params["duration"],
        level,
        int(params["dcgm_level"]),
        tools,
        params["test"] != NEVER,
    )
    if level == STANDARD and not options.required.tools:
        raise InputError.of(
            "tools", params["tools"], "a tool that is not left out, at level standard"
        )
    return options


def _parse_tools(tools: t.Mapping[t.Any, t.Any]) -> t.Dict[str, t.Optional[ToolSource]]:
    sources: t.Dict[str, t.Optional[ToolSource]] = {}
    for name, value in tools.items():
        if name not in TOOLS:
            raise InputError.of("tools", name, f"one of {', '.join(TOOLS)}")
        if isinstance(value, dict):
            sources[name] = _parse_image(name, value)
        elif isinstance(value, str) and (not value or value.startswith("/")):
            sources[name] = ToolSource(value) if value else None
        else:
            expected = "an absolute path, an image, or empty to leave it out"
            raise InputError.of(f"tools.{name}", value, expected)
    return sources


def _parse_image(name: str, value: t.Mapping[t.Any, t.Any]) -> ToolSource:
    image, path = value.get("image"), value.get("path", "")
    if not set(value) <= {"image", "path"} or not isinstance(image, str):
        raise InputError.of(f"tools.{name}", value, "an image, and its path in it if you like")
    if not IMAGE.fullmatch(image):
        expected = "the name of an image, such as registry.example.org/gpu-tests:1"
        raise InputError.of(f"tools.{name}.image", image, expected)
    if not isinstance(path, str) or (path and not path.startswith("/")):
        expected = "an absolute path, or empty for what is on the image's path"
        raise InputError.of(f"tools.{name}.path", path, expected)
    return ToolSource(path, image)


def reason(state: AcceptState, gpu: ResetGpu, options: AcceptOptions) -> str:
    """Return why a GPU has to be tested, empty if it was accepted as it is."""
    return reason_to_test(
        state.record.get(gpu.uuid),
        state.identities.get(gpu.uuid, Identity()),
        repaired_at=state.cases.reset_at(gpu.uuid),
        current_time=state.current_time,
        valid_days=options.valid_days,
        floors=options.floors,
        required=options.required,
    )


def refusal(gpu: ResetGpu) -> str:
    """Return why a GPU can't be tested whoever uses it, empty if it can be."""
    if gpu.signs.answer is not Answer.YES or gpu.devices is None:
        return f"NVML's answer for it: {gpu.signs.answer.value}"
    if gpu.devices.gpu.mig_current or gpu.devices.gpu.mig_pending:
        return MIG
    mode = str(gpu.reported.present.get(COMPUTE))
    return CLOSED if COMPUTE_MODES.get(mode) == PROHIBITED else ""


def due_gpus(
    state: AcceptState,
    chosen: t.Iterable[ResetGpu],
    options: AcceptOptions,
    tested: t.Container[str],
) -> t.List[ResetGpu]:
    """Return the GPUs to test of those that are chosen; ``tested`` are those that this run has tested."""
    return [
        gpu
        for gpu in chosen
        if gpu.uuid not in tested
        and not refusal(gpu)
        and (options.always or reason(state, gpu, options))
    ]


def test_step(gpus: t.Sequence[ResetGpu], options: AcceptOptions) -> Step:
    """Return the step that tests GPUs, of which each is idle."""
    names = ", ".join(map(str, gpus))
    params = {"gpus": [gpu.uuid for gpu in gpus]}
    tools = ", ".join(TOOLS[name] for name in options.required.tools)
    then = f", then by {tools}" if tools else ""
    summary = f"test {names} under load, {2 * options.duration} s of arithmetic{then}"
    return Step(TEST, summary, params, (IDLE_GPU,))


def parse_cpus(text: t.Optional[str]) -> t.Tuple[int, ...]:
    """Return the CPUs of a list as the kernel writes it, such as ``0-3,8``, empty if there is none."""
    cpus: t.List[int] = []
    for part in (text or "").strip().split(","):
        first, _dash, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            cpus += range(int(first), min(int(last or first), int(first) + 4096) + 1)
    return tuple(cpus)


def describe(
    state: AcceptState, gpu: ResetGpu, options: AcceptOptions, result: t.Optional[GpuResult]
) -> t.Dict[str, t.Any]:
    """Return a GPU as the module answers; ``result`` is that of this run, None if it has not tested the GPU."""
    pending, shown = reason(state, gpu, options), result or state.record.get(gpu.uuid)
    if shown is None or (result is None and pending):
        shown = GpuResult(UNTESTED, unmeasured={LOAD_TEST: refusal(gpu) or pending})
    identity = state.identities.get(gpu.uuid, Identity())
    return {
        "uuid": gpu.uuid,
        "index": gpu.number,
        "pci_bus_id": gpu.pci,
        "serial": gpu.serial,
        "product": gpu.devices.gpu.name if gpu.devices else "",
        "board": identity.board,
        "driver": identity.driver,
        "verdict": shown.verdict,
        "figures": dict(shown.figures),
        "faults": list(shown.faults),
        "not_measured": dict(shown.unmeasured),
        "level": shown.level if shown.verdict != UNTESTED else "",
        "tools": dict(shown.tools),
    }


def refuse_unaccepted(
    rows: t.Sequence[t.Mapping[str, t.Any]], gate: t.Mapping[str, t.Any], *, untested: bool
) -> None:
    """Fail where a GPU has not passed, or with ``untested`` where it was not tested.

    The error has the GPUs and the ``gate`` as the module answers.

    Raises:
        NodeError: if one has not; its cause has the faults of each.
    """
    allowed = (PASSED,) if untested else (PASSED, UNTESTED)
    bad = [row for row in rows if row["verdict"] not in allowed]
    if not bad:
        return
    causes = [f"GPU {row['uuid']}: {'; '.join(row['faults'] or _missing(row))}" for row in bad]
    raise NodeError(
        f"{len(bad)} of {len(rows)} GPUs are not accepted",
        cause="\n".join(causes),
        hint=HINT,
        gpus=list(rows),
        gate=gate,
    )


def _missing(row: t.Mapping[str, t.Any]) -> t.List[str]:
    """Return texts for what was not measured, one for each reason."""
    names: t.Dict[str, t.List[str]] = {}
    for name, reason_text in row["not_measured"].items():
        names.setdefault(reason_text, []).append(name)
    return [f"not measured: {', '.join(parts)} ({why})" for why, parts in names.items()]
