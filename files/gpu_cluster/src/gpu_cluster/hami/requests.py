# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The request of a container, as HAMi 2.10 understands it (MutateAdmission, GenerateResourceRequests, Fit). Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
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
LOW: Final = 1  # HAMi's default priority: 0 is high, 1 low
SAME_ON_BOTH: Final = "Kubernetes wants both to be the same"
DOMAIN: Final = "nvidia.com/"
MOST_RESOURCES: Final = 32  # of a container that are looked at for misspelt names
LONGEST_NAME: Final = 100  # characters, of a resource in a message


@dataclass(frozen=True)
class Request:
    """``count`` devices of a kind (gpu, share or mig), each with so much.

    ``memory`` is in MiB; if it is 0, ``percent`` of the GPU's memory is meant. ``cores`` are percent.
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
    """The resources of a container. ``request`` is None if it gets nothing.

    ``untouched`` is a request for whole GPUs that needs no claim of ours: nodes have them under Kubernetes' own name.
    """

    request: Request | None
    untouched: bool = False
    warnings: tuple[str, ...] = ()


def read(container: Json, where: str, annotations: Annotations, settings: Settings) -> Asked | None:
    """Return the request of a container, None if it asks for no GPU.

    Raises:
        Refused: if no node can have what it asks for.
    """
    amounts = _Amounts(container, where, settings)
    if not amounts.resources:
        return None
    count, bare = amounts.count(), amounts.resources == {settings.names.count}
    if count is None or count == 0:
        ignored = f"{where}: it requests no GPU, as there is no {settings.names.count}"
        warnings = (ignored,) if any(amounts.values.values()) else ()
        return Asked(None, untouched=bare, warnings=warnings)
    request, notes = _request(amounts, count, container, where, annotations, settings)
    by_type = annotations.use_types or annotations.avoid_types
    by_uuid = annotations.use_uuids or annotations.avoid_uuids
    needs_claim = by_type or by_uuid or (annotations.numa and count > 1)
    needs_claim = needs_claim or settings.names.count != Names.count
    untouched = bare and request.kind == GPU and not needs_claim
    if count > MOST_GPUS and not untouched:
        raise amounts.refuse(settings.names.count, f"a claim has at most {MOST_GPUS} devices")
    return Asked(request, untouched, tuple(notes))


def warn_of_unread(container: Json, where: str, names: Names) -> Iterator[str]:
    """Yield a warning for each resource whose name is almost one of HAMi's, such as nvidia.com/cores.

    The count is left out, as device plugins have names such as nvidia.com/gpu.shared.
    """
    keys = {
        names.memory: "resourceMemoryName",
        names.percent: "resourceMemoryPercentageName",
        names.cores: "resourceCoreName",
        names.priority: "resourcePriorityName",
    }
    resources = container.get("resources") or {}
    seen = {*names.all}
    for part in ("limits", "requests"):
        for resource in islice(resources.get(part) or (), MOST_RESOURCES):
            known = resource in seen or not resource.startswith(DOMAIN)
            if known or len(resource) > LONGEST_NAME:
                continue
            seen.add(resource)
            for nearest in difflib.get_close_matches(resource, keys, 1, 0.85):
                yield (
                    f"{where}.resources.{part}[{resource}] is not read, and the pod waits for a node that has it:"
                    f" write {nearest}, or set {keys[nearest]} to {resource} in HAMi's configuration"
                )


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
        """Return the number of GPUs, None if the container asks for none."""
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
        """Return the requested memory in MiB, 0 if there is none."""
        mebibytes = self.values.get(self.names.memory, 0)
        if mebibytes * self.settings.memory_factor >= MOST_MEMORY:
            why = "it is a number of MiB, and no GPU has 16 TiB"
            hint = f"write {mebibytes >> 20}, if bytes are meant"
            raise self.refuse(self.names.memory, why, hint)
        return mebibytes * self.settings.memory_factor

    def percent(self) -> int:
        """Return the requested percentage of the memory, 0 if there is none."""
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
        return 0 if env.get(PRIORITY_ENV) == "0" else LOW


def _request(
    amounts: _Amounts,
    count: int,
    container: Json,
    where: str,
    annotations: Annotations,
    settings: Settings,
) -> tuple[Request, list[str]]:
    env = {
        str(variable.get("name")): variable["value"]
        for variable in container.get("env") or ()
        if isinstance(variable, Mapping) and isinstance(variable.get("value"), str)
    }
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
    percent = ALL if memory else percent or ALL
    request = Request(kind, count, memory, percent, cores, amounts.priority(env), limited)
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
