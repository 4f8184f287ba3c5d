# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of a bring-up in their order, and which of them a change of another may concern."""

from __future__ import annotations

import typing as t

ENVIRONMENT = "environment"
REBOOT, RESTART = "reboot_required", "restart_required"
HOLD = "hold"  # the step that puts packages on hold: they stay what they are
Answer = t.Mapping[str, t.Any]


class Part(t.NamedTuple):
    """A part: its name, the module that makes it, the tags that choose it, and the parts that it is behind.

    Its plan may depend on their changes. ``ends`` names what its role ends, where its plan waits for that.
    """

    name: str
    module: str
    tags: t.Tuple[str, ...]
    behind: t.Tuple[str, ...] = ()
    ends: t.Tuple[str, ...] = ()


PARTS: t.Tuple[Part, ...] = (
    # What runs from it, or imports what is in it.
    Part(ENVIRONMENT, "device_plugin", ("mig", "settings", "cdi", "device_plugin", "labels")),
    # What a service starts with is written before another part restarts it.
    Part("host", "host", ("host",)),
    Part("driver", "nvidia_driver", ("driver",), ends=(REBOOT,)),
    Part("toolkit", "container_toolkit", ("toolkit",)),
    # A mode of the runtime needs the toolkit's program.
    Part("runtime", "container_runtime", ("runtime",), ("toolkit",), (RESTART,)),
    # They ask NVML, by the driver's library and the environment's pynvml.
    Part("mig", "mig", ("mig",), (ENVIRONMENT, "driver"), (REBOOT,)),
    # A switch of MIG mode resets its GPU, which loses what was set.
    Part("settings", "settings", ("settings",), (ENVIRONMENT, "driver", "mig")),
    # It lists the driver's files and the MIG devices, and may be nvidia-ctk's.
    Part("cdi", "cdi", ("cdi",), (ENVIRONMENT, "driver", "toolkit", "mig")),
    # What it waits for is that the daemon serves the devices that there are.
    Part(
        "device_plugin",
        "device_plugin",
        ("device_plugin", "labels"),
        (ENVIRONMENT, "driver", "toolkit", "mig"),
    ),
    # Its packages follow the driver's version.
    Part("dcgm", "dcgm", ("dcgm",), ("driver",)),
    # It tests what all others have made.
    Part("accept", "accept", ("accept",), (ENVIRONMENT, "driver", "mig", "settings")),
)
BY_NAME: t.Mapping[str, Part] = {part.name: part for part in PARTS}
# By what a user calls a component of the bring-up, its module.
MODULES: t.Mapping[str, str] = {
    **{tag: part.module for part in PARTS if part.name != ENVIRONMENT for tag in part.tags},
    "validate": "validate",
}


def chosen(tags: t.Iterable[str], run: t.Collection[str], skip: t.Collection[str]) -> bool:
    """Return whether the tags of a run choose what has these tags, as Ansible chooses tasks."""
    return not {*tags, "all", "tagged"}.isdisjoint(run) and set(tags).isdisjoint(skip)


def is_open(part: Answer) -> bool:
    """Return whether a run has something to do, to refuse or to end by what is planned of a part itself."""
    left = ("steps", "error", "later", *BY_NAME[part["name"]].ends)
    return any(part[field] for field in left) or bool(part["result"].get("reload_required"))


def called(parts: t.Iterable[Answer]) -> t.List[str]:
    """Return the names of parts whose modules a run has to call, of parts that say what their plans wait for."""
    return [part["name"] for part in parts if is_open(part)]


def once(parts: t.Iterable[Answer]) -> t.List[t.Dict[str, t.Any]]:
    """Return parts without steps that a part before, of the same module, has done by then."""
    answers: t.List[t.Any] = []
    result = []
    for part in parts:
        result.append({**part, "steps": [step for step in part["steps"] if step not in answers]})
        answers += part["steps"] if part["name"] == ENVIRONMENT else []
    return result


def with_later(parts: t.Iterable[Answer]) -> t.List[t.Dict[str, t.Any]]:
    """Return parts that say what their plans wait for, where that is the change of another part."""
    result: t.List[t.Dict[str, t.Any]] = []
    changing: t.Set[str] = set()
    for part in parts:
        late = part["later"]
        before = [name for name in BY_NAME[part["name"]].behind if name in changing]
        if before and not late and not part["error"].get("stays"):
            late = f"{' and '.join(before)} {'has' if len(before) == 1 else 'have'} changed"
        result.append({**part, "later": late})
        felt = [step for step in part["steps"] if step["action"] != HOLD]
        if is_open({**result[-1], "steps": felt}):
            changing.add(part["name"])
    return result
