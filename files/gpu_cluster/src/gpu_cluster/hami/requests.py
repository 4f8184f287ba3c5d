# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a container asks for, as HAMi 2.10 understands it (MutateAdmission, GenerateResourceRequests, Fit). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import GPU, MIG, SHARE
from gpu_plugin.model import quantity

from .annotations import GPU_POLICY, MODE, MUTEX, Annotations, field
from .errors import refused
from .settings import Names, Settings

Json = Mapping[str, Any]
MOST_GPUS: Final = 32  # results of one claim
MOST_MEMORY: Final = 16 << 20  # MiB, which no GPU has: what was written is a number of bytes
ALL: Final = 100
PRIORITY_ENV, CORE_POLICY_ENV = "CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY"
OPT_OUT_ENV: Final = "CUDA_DISABLE_CONTROL"
LOW: Final = 1  # HAMi's priority of who asks for none: 0 is high, 1 low
SAME_ON_BOTH: Final = "Kubernetes wants both to be the same"


@dataclass(frozen=True)
class Request:
    """``count`` devices of a kind (gpu, share or mig), each with so much.

    ``memory`` is in MiB; where it is 0, ``percent`` of the GPU's memory is meant. ``cores`` are percent.
    """

    kind: str
    count: int
    memory: int = 0
    percent: int = ALL
    cores: int = 0
    priority: int = LOW
    core_limit: bool = True


@dataclass(frozen=True)
class Asked:
    """What a container's resources say. ``request`` is None where it gets nothing.

    ``untouched`` is a request for whole GPUs that needs no claim of ours: nodes have them under Kubernetes' own name.
    """

    request: Request | None
    untouched: bool = False
    warnings: tuple[str, ...] = ()


def read(container: Json, where: str, annotations: Annotations, settings: Settings) -> Asked | None:
    """Return what a container asks for, None where it asks for no GPU. Refused: that can't be."""
    amounts = _Amounts(container, where, settings)
    if not amounts.resources:
        return None
    count, bare = amounts.count(), amounts.resources == {settings.names.count}
    if count is None or count == 0:
        ignored = f"{where}: it requests no GPU, as there is no {settings.names.count}"
        return Asked(
            None, untouched=bare, warnings=(ignored,) if any(amounts.values.values()) else ()
        )
    request, warnings = _request(amounts, count, container, where, annotations, settings)
    bound = (
        annotations.choosy
        or (annotations.numa and count > 1)
        or settings.names.count != Names.count
    )
    untouched = bare and request.kind == GPU and not bound
    if count > MOST_GPUS and not untouched:
        raise amounts.refuse(settings.names.count, f"a claim has at most {MOST_GPUS} devices")
    return Asked(request, untouched, tuple(warnings))


class _Amounts:
    """The container's amounts of HAMi's resources. Limits come first, as in HAMi."""

    def __init__(self, container: Json, where: str, settings: Settings) -> None:
        self.names, self.settings, self.where = settings.names, settings, where
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        self.values: dict[str, int] = {}
        self.fields: dict[str, str] = {}
        for name in self.names.all:
            for part, amounts in (("limits", limits), ("requests", requests)):
                if name in amounts:
                    self._add(name, f"{where}.resources.{part}[{name}]", amounts[name])

    @property
    def resources(self) -> set[str]:
        """The names of the resources that are there."""
        return set(self.values)

    def _add(self, name: str, at: str, value: Any) -> None:
        number = quantity.whole(value)
        if number is None or number < 0:
            raise refused(at, value, "expected a whole number, not negative")
        if self.values.setdefault(name, number) != number:
            raise refused(at, value, f"{self.fields[name]} is {self.values[name]}", SAME_ON_BOTH)
        self.fields.setdefault(name, at)

    def refuse(self, name: str, why: str, hint: str = "") -> Exception:
        """Return the error about an amount."""
        return refused(self.fields[name], self.values[name], why, hint)

    def count(self) -> int | None:
        """Return how many GPUs, None where none is asked for."""
        names = self.names
        count = self.values.get(names.count)
        sized = [name for name in (names.memory, names.percent, names.cores) if name in self.values]
        if count is None and sized:
            count = self.settings.default_count
            if not count:
                why = f"{names.count} is not there, and defaultGPUNum is 0"
                raise self.refuse(sized[0], why, f"add {names.count}: 1")
        return count

    def memory(self) -> int:
        """Return the MiB that are asked for, 0 where none are."""
        mebibytes = self.values.get(self.names.memory, 0)
        if mebibytes * self.settings.memory_factor >= MOST_MEMORY:
            why = "it is a number of MiB, and no GPU has 16 TiB"
            raise self.refuse(
                self.names.memory, why, f"write {mebibytes >> 20}, if bytes are meant"
            )
        return mebibytes * self.settings.memory_factor

    def percent(self) -> int:
        """Return the percentage of the memory that is asked for, 0 where none is."""
        percent = self.values.get(self.names.percent, 0)
        if percent > ALL:
            raise self.refuse(self.names.percent, "it is a percentage of a GPU's memory, 0 to 100")
        return percent

    def priority(self, env: Mapping[str, str]) -> int:
        """Return the priority: the resource's, else HAMi's variable in the container."""
        name = self.names.priority
        if name in self.values and self.values[name] not in (0, LOW):
            raise self.refuse(name, "there are two priorities, 0 (high) and 1 (low)")
        if name in self.values:
            return self.values[name]
        return 0 if env.get(PRIORITY_ENV, "") == "0" else LOW


def _request(
    amounts: _Amounts,
    count: int,
    container: Json,
    where: str,
    annotations: Annotations,
    settings: Settings,
) -> tuple[Request, list[str]]:
    env = _literals(container)
    warnings = []
    if env.get(OPT_OUT_ENV) == "true":
        text = f"{where}.env[{OPT_OUT_ENV}] is HAMi-core's; other enforcements keep their limits"
        warnings.append(text)
    memory, percent = amounts.memory(), amounts.percent()
    if memory and percent:
        warnings.append(
            f"{amounts.fields[settings.names.percent]} is left out, as {settings.names.memory} is there"
        )
    cores = _cores(amounts, percent, settings, warnings)
    kind = MIG if annotations.only == MIG else GPU if cores == ALL else SHARE
    if not memory and not percent and kind != GPU:
        memory = settings.default_memory
    limited = settings.core_limit and env.get(CORE_POLICY_ENV) != "disable"
    asked = (
        count,
        memory,
        ALL if memory else percent or ALL,
        cores,
        amounts.priority(env),
        limited,
    )
    request = Request(kind, *asked)
    _check(amounts, request, annotations, settings)
    if request.kind == GPU and memory:
        warnings.append(
            f"{where} gets whole GPUs, so that {memory} MiB is the least that they have, not a limit"
        )
    if request.kind == GPU and settings.names.priority in amounts.values:
        warnings.append(f"{amounts.fields[settings.names.priority]} has no effect on whole GPUs")
    return request, warnings


def _cores(amounts: _Amounts, percent: int, settings: Settings, warnings: list[str]) -> int:
    """Return the cores.

    100 are a whole GPU, as is all of its memory without cores. A count alone is a whole GPU too, unless it is a share
    of the default memory.
    """
    names, names_there = settings.names, amounts.resources
    if names.cores in names_there:
        cores = amounts.values[names.cores]
        if cores > ALL:
            warnings.append(
                f"{amounts.fields[names.cores]}: {cores} is taken as {ALL}, which is a whole GPU"
            )
        return min(cores, ALL)
    alone = names.memory not in names_there and not settings.shares_counts
    whole = percent == ALL if names.percent in names_there else alone
    return ALL if whole else settings.default_cores


def _check(
    amounts: _Amounts, request: Request, annotations: Annotations, settings: Settings
) -> None:
    if request.kind == MIG and not request.memory:
        hint = f"add {settings.names.memory}, the MiB that a MIG device has at least"
        raise refused(field(MODE), MIG, f"{amounts.where} says no {settings.names.memory}", hint)
    if annotations.mutex and request.kind != GPU:
        hint = f"ask for whole GPUs with {settings.names.cores}: {ALL}, which nobody else gets a share of"
        why = "kube-scheduler can't keep a share on a GPU that nobody else uses"
        raise refused(field(GPU_POLICY), MUTEX, why, hint)


def _literals(container: Json) -> dict[str, str]:
    env = container.get("env") or ()
    pairs = (
        (variable.get("name"), variable.get("value"))
        for variable in env
        if isinstance(variable, Mapping)
    )
    return {str(name): value for name, value in pairs if isinstance(value, str)}
