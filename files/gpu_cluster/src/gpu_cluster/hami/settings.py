# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's own configuration: the section ``nvidia`` of its device-config.yaml (2.10 and before). Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.errors import InputError
from gpu_plugin._shared._base.text.config_map import unwrap_hint
from gpu_plugin._shared._base.text.shown import cut, shown
from gpu_plugin.config import plain_yaml
from gpu_plugin.config.strict_yaml import ConfigError, Value, invalid

from .annotations import FALSE, TRUE

LIMITS: Final = plain_yaml.Limits(256 << 10, 20000)  # HAMi's own has 350 lines
SECTION: Final = "nvidia"
MOST_MEMORY: Final = (1 << 31) - 1  # HAMi's numbers have 32 bits
POLICIES: Final = ("default", "force", "disable")
SCHEDULER: Final = "hami-scheduler"  # of pods that were written for HAMi's chart
DEFAULT_SCHEDULER: Final = "default-scheduler"
SCHEDULER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
SCHEDULERS: Final = f"names of schedulers such as {SCHEDULER}, and none of them {DEFAULT_SCHEDULER}"
# What a count alone is where there is a default memory: a GPU of its own (HAMi 2.10), or a share (4paradigm's 2.2.13).
WHOLE, SHARE = COUNT_ALONE = ("whole", "share")
COUNT_ALONE_OPTION: Final = "fractions_count_alone (--count-alone)"
# Keys by the names that HAMi's releases, pages and plugins have given them.
ALIASES: Final = {
    "defaultMem": "defaultMemory",
    "disablecorelimit": "disableCoreLimit",
    "resourceMemoryPercentage": "resourceMemoryPercentageName",
    "resourcePriority": "resourcePriorityName",
}
NODE_SIDE: Final = (
    "belongs to the nodes: gpu-cluster webhook --show-node NAME says how it is written there"
)
WITHOUT_EFFECT: Final = {
    "overwriteEnv": "a container without a claim gets no GPU by CDI, whatever its image's NVIDIA_VISIBLE_DEVICES says",
    "preConfiguredDeviceMemory": "a GPU's memory is what the driver says",
    "deviceCoreScaling": "the cores of a GPU are 100",
    "libCudaLogLevel": "it is a setting of HAMi-core in the container: set its variable LIBCUDA_LOG_LEVEL there",
    "runtimeClassName": "CDI needs no runtime class, and pods keep the one that they name",
    "enableNumaTopology": "the annotation nvidia.com/numa-bind asks for GPUs of one NUMA node",
    "migProfileAllowlist": "each profile of the driver may be used",
}


@dataclass(frozen=True)
class Names:
    """The names of the extended resources."""

    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    percent: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"

    @property
    def all(self) -> tuple[str, ...]:
        """All names."""
        return (self.count, self.memory, self.percent, self.cores, self.priority)


@dataclass(frozen=True)
class Settings:
    """The defaults of containers: memory in MiB (0 is all), cores in percent.

    ``split_count`` and ``memory_scaling`` are those of nodes. Pods of ``schedulers`` become the default one's.
    ``count_alone`` is one of COUNT_ALONE. ``notes`` are warnings about the file, and ``node_notes`` those of them that
    are about values of the nodes.
    """

    names: Names = field(default_factory=Names)
    default_memory: int = 0
    default_cores: int = 0
    default_count: int = 1
    memory_factor: int = 1
    core_limit: bool = True
    split_count: int | None = None
    memory_scaling: float | None = None
    schedulers: tuple[str, ...] = (SCHEDULER,)
    count_alone: str = WHOLE
    notes: tuple[str, ...] = field(default=(), compare=False)
    node_notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def shares_counts(self) -> bool:
        """Whether a count alone is a request for shares of the default memory."""
        return self.count_alone == SHARE and self.default_memory > 0


def configured(
    settings: Settings, *, schedulers: str = SCHEDULER, count_alone: str = WHOLE
) -> Settings:
    """Return the settings of a configuration with the webhook's own.

    Args:
        settings: The settings of the configuration.
        schedulers: Names of schedulers with commas between them.
        count_alone: One of COUNT_ALONE.

    Raises:
        InputError: if a value is not valid.
    """
    if count_alone not in COUNT_ALONE:
        raise InputError.of("--count-alone", count_alone, " or ".join(COUNT_ALONE))
    names = tuple(dict.fromkeys(name.strip() for name in schedulers.split(",")))
    if not are_schedulers(names):
        raise InputError.of("--hami-scheduler", schedulers, SCHEDULERS)
    chosen = replace(settings, schedulers=names, count_alone=count_alone)
    return replace(chosen, notes=(*settings.notes, *_count_notes(chosen)))


def are_schedulers(names: Sequence[str]) -> bool:
    """Return whether pods of these schedulers can become the default one's."""
    fit = all(SCHEDULER_NAME.fullmatch(name) for name in names)
    return bool(names) and fit and DEFAULT_SCHEDULER not in names


def _count_notes(settings: Settings) -> Iterator[str]:
    """Yield a warning if a count alone may get something else than expected."""
    amount, name = settings.default_memory, settings.names.count
    if settings.count_alone == SHARE and not amount:
        yield (
            f"{COUNT_ALONE_OPTION} {SHARE} has no effect: without a defaultMemory a container with {name} alone"
            " gets a whole GPU"
        )
    elif settings.count_alone == WHOLE and amount:
        yield (
            f"defaultMemory is {amount}, and a container with {name} alone gets a whole GPU all the same,"
            f" as with HAMi 2.10: set {COUNT_ALONE_OPTION} to {SHARE} for {amount} MiB,"
            " as with 4paradigm's scheduler"
        )


def parse(text: str, source: str, *, needed: bool = False) -> Settings:
    """Return the settings of NVIDIA's GPUs in HAMi's device-config.yaml.

    Raises:
        ConfigError: if it is not valid, or is ``needed`` and has none.
    """
    section = _section(text, source, needed)
    reader = _Reader(section, source)
    names = Names(
        reader.name("resourceCountName", Names.count),
        reader.name("resourceMemoryName", Names.memory),
        reader.name("resourceMemoryPercentageName", Names.percent),
        reader.name("resourceCoreName", Names.cores),
        reader.name("resourcePriorityName", Names.priority),
    )
    if len(set(names.all)) < len(names.all):
        raise ConfigError(
            f"{source}: {SECTION}: two resources have one name", cause=shown(names.all)
        )
    policy = reader.one_of("gpuCorePolicy", POLICIES)
    disabled = reader.flag("disableCoreLimit")
    return Settings(
        names,
        reader.whole("defaultMemory", 0, MOST_MEMORY, 0),
        reader.whole("defaultCores", 0, 100, 0),
        reader.whole("defaultGPUNum", 0, 32, 1),
        reader.whole("memoryFactor", 0, MOST_MEMORY, 1) or 1,
        core_limit=not disabled and policy != "disable",
        split_count=reader.whole("deviceSplitCount", 1, 1000, 0) or None,
        memory_scaling=reader.scaling("deviceMemoryScaling"),
        notes=tuple(note for note, _of_nodes in reader.notes()),
        node_notes=tuple(note for note, of_nodes in reader.notes() if of_nodes),
    )


def _section(text: str, source: str, needed: bool) -> Mapping[str, Any]:
    """Return NVIDIA's section; other vendors' are ignored."""
    try:
        data = plain_yaml.load(text, LIMITS)
    except yaml.YAMLError as error:
        cause = cut(str(getattr(error, "problem", None) or error))
        raise ConfigError(f"{source}: not valid YAML", cause=cause) from error
    if data is None and not needed:
        return {}
    if hint := unwrap_hint(data):
        raise ConfigError(f"{source}: not HAMi's device-config.yaml", hint=hint)
    if not isinstance(data, dict) or (needed and SECTION not in data):
        refusal = invalid(source, data, f"a mapping with a section {SECTION}")
        refusal.details["missing"] = SECTION
        raise refusal
    section = data.get(SECTION)
    if section is None:
        return {}
    if not isinstance(section, dict) or not all(isinstance(key, str) for key in section):
        raise invalid(f"{source}: {SECTION}", section, "a mapping")
    return section


class _Reader:
    def __init__(self, section: Mapping[str, Any], source: str) -> None:
        self._known = set(WITHOUT_EFFECT)
        self._values: dict[str, Value] = {}
        for key, value in section.items():
            name, at = ALIASES.get(key, key), f"{SECTION}.{key}"
            if name in self._values:
                cause = f"{name} is there as well"
                raise ConfigError(f"{source}: {at}: given twice", cause=cause)
            self._values[name] = Value(at, value, source)

    def _take(self, key: str) -> Value | None:
        self._known.add(key)
        value = self._values.get(key)
        return value if value and value.data is not None else None

    def name(self, key: str, default: str) -> str:
        value = self._take(key)
        if value is None or value.data == "":
            return default
        if not isinstance(value.data, str) or not _is_resource(value.data):
            raise value.invalid("the name of an extended resource such as nvidia.com/gpu")
        return value.data

    def whole(self, key: str, least: int, most: int, default: int) -> int:
        value = self._take(key)
        return value.whole(most, least=least) if value else default

    def flag(self, key: str) -> bool:
        value = self._take(key)
        if value and isinstance(value.data, str) and value.data in TRUE + FALSE:
            return value.data in TRUE  # as in values of 4paradigm's chart
        return bool(value and value.flag())

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self._take(key)
        return value.one_of(allowed) if value and value.data else allowed[0]

    def scaling(self, key: str) -> float | None:
        value = self._take(key)
        return value.factor() if value else None

    def notes(self) -> Iterator[tuple[str, bool]]:
        """Yield warnings of keys without effect here, or with another than expected, and whether nodes have them."""
        for key, value in self._values.items():
            at = f"{value.where}: {SECTION}"
            if key in ("deviceSplitCount", "deviceMemoryScaling") and value.data is not None:
                yield f"{at}.{key} {NODE_SIDE}", True
            elif key in WITHOUT_EFFECT and _asks(value.data):
                yield f"{at}.{key} has no effect: {WITHOUT_EFFECT[key]}", False
            elif key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                yield f"{at}.{cut(key)} is not known and has no effect{hint}", False


def _asks(value: Any) -> bool:
    """Return whether a value asks for something: it is not off, none, or the factor or level 1."""
    if isinstance(value, str) and value in FALSE:
        return False
    return bool(value) and (isinstance(value, bool) or value != 1)


def _is_resource(name: str) -> bool:
    prefix, slash, last = name.rpartition("/")
    letters = f"{prefix}{last}".replace("-", "").replace(".", "").replace("_", "")
    return (
        bool(slash and prefix and last)
        and letters.isascii()
        and letters.isalnum()
        and len(name) < 254
    )
