# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The answers of the device plugin that reach a container, by the releases of kubelet and container runtime.

A kubelet drops a field of Allocate's answer that it does not know, and a runtime a field of the container's
configuration: the container starts without the GPU.
"""

from __future__ import annotations

import typing as t

from ..dra.versions import Version
from ..dra.versions import text as shown
from ..errors import InputError

KUBELET = "kubelet"
BY_FIELD = "cdi-cri"  # as devices of claims reach a container, too
NEVER: Version = (9999, 0, 0)
# The first release of each program that passes a strategy's answer on. Other strategies are as old as the API, and the
# mode cdi refuses a containerd or CRI-O without CDI. Sources: kubernetes/enhancements#4009 (on by default since 1.29),
# containerd/containerd#8519, cri-o/cri-o#6944, and Mirantis/cri-dockerd#522, which no release up to 0.4.3 has.
FLOORS: t.Mapping[str, t.Mapping[str, Version]] = {
    "cdi-annotations": {"cri-dockerd": NEVER},
    BY_FIELD: {
        KUBELET: (1, 29, 0),
        "containerd": (1, 7, 2),
        "cri-o": (1, 28, 0),
        "cri-dockerd": (0, 4, 4),
    },
}
BY_HANDLER = (
    "set deviceListStrategy: [envvar] there and container_runtime_mode: runtime_class, with NVIDIA's runtime on the "
    "node"
)


class Obstacle(t.NamedTuple):
    """A program that does not pass a strategy's answer on."""

    strategy: str
    program: str
    version: Version

    def __str__(self) -> str:
        floor = FLOORS[self.strategy][self.program]
        text = f"{self.program} {shown(self.version)} drops the answer of {self.strategy}"
        return text if floor == NEVER else f"{text}, which {shown(floor)} and later pass on"


def depend_on(strategies: t.Iterable[str], programs: t.Collection[str]) -> bool:
    """Return whether these programs, if they are old, can keep the answers of all strategies from a container."""
    return all(set(programs).intersection(FLOORS.get(name, ())) for name in strategies)


def obstacles(
    strategies: t.Iterable[str], versions: t.Mapping[str, Version]
) -> t.Tuple[Obstacle, ...]:
    """Return why each strategy's answer does not reach a container, nothing if one of them does.

    Args:
        strategies: Those of deviceListStrategy.
        versions: The releases of the programs that an answer goes through, as far as they are known.
    """
    known = [_obstacle(name, versions) for name in strategies]
    return tuple(filter(None, known)) if all(known) else ()


def _obstacle(strategy: str, versions: t.Mapping[str, Version]) -> t.Optional[Obstacle]:
    for program, floor in FLOORS.get(strategy, {}).items():
        if versions.get(program, NEVER) < floor:
            return Obstacle(strategy, program, versions[program])
    return None


def refusal(
    variable: str, strategies: t.Sequence[str], versions: t.Mapping[str, Version]
) -> t.Optional[InputError]:
    """Return the error of a configuration if no strategy's answer reaches a container, None if one does."""
    dropped = obstacles(strategies, versions)
    if not dropped:
        return None
    causes = f"{', and '.join(map(str, dropped))}, so pods would start without a GPU"
    expected = f"one that reaches the node's containers: {causes}"
    error = InputError.of(f"{variable}: flags.plugin.deviceListStrategy", [*strategies], expected)
    suited = [name for name in FLOORS if _obstacle(name, versions) is None]
    instead = f"set deviceListStrategy: [{', '.join(suited)}] there" if suited else BY_HANDLER
    releases = {
        obstacle.program: FLOORS[obstacle.strategy][obstacle.program] for obstacle in dropped
    }
    newer = [f"{program} {shown(floor)}" for program, floor in releases.items() if floor != NEVER]
    hint = f"{instead}, or upgrade to {' and '.join(newer)}" if newer else instead
    return InputError(error.message, cause=error.cause, hint=hint, key=variable)
