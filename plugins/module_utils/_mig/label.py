# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A MIG layout by the node's label: the request, the answer to it, and the units of the service.

The process that labels the node writes the request into a file. That starts a service which may change GPUs, and which
writes its answer into a file of its own. The values of the state are those of NVIDIA's mig-manager
(pkg/mig/reconfigure of mig-parted 0.15), except ``rebooting``: nothing is rebooted because of a label.
"""

from __future__ import annotations

import json
import re
import typing as t

from .._base.boot import LOOKS_AT_CONTAINERS, PROGRAM, SANDBOX, unit_file
from .._base.errors import InputError, readable
from .._base.services.mig import UNIT as BOOT_UNIT
from .._base.steps import Step
from .._base.text import json_data
from .._base.text.shown import cut, shown
from .boot import CONFIG
from .config import MOST_NAMES, Declared, names

LABEL, STATE_LABEL = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PENDING, SUCCESS, FAILED = STATES = "pending", "success", "failed"
UNIT, PATH_UNIT = "gpu-mig-label.service", "gpu-mig-label.path"
# In a folder of its own: changes of other files in the folder make systemd lose a change that it has not seen yet.
ASKED = "/run/gpu-node/mig-label/asked.json"
ANSWER = "/run/gpu-node/mig-label.json"
# What the label asked for last and got, for the next boot and the next run of gpu.node.mig.
CHOSEN = "/var/lib/gpu-mig-label/chosen"
LEFT = (CHOSEN.rpartition("/")[0], ANSWER, ASKED.rpartition("/")[0])
NAME = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")  # a label's value
HINT = "run gpu.node.mig again, which writes it"

# It waits until GPUs are idle, which may take days. A driver that hangs is given up after a quarter of an hour.
UNIT_TEXT = f"""\
# Written by gpu.node.mig.
[Unit]
Description=Partition NVIDIA GPUs as a label of the node asks (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After={BOOT_UNIT}
ConditionPathExists={CONFIG}
ConditionPathExists={ASKED}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={PROGRAM} mig-label
Restart=on-failure
RestartSec=10
WatchdogSec=900
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
StateDirectory=gpu-mig-label gpu-node

{SANDBOX}{LOOKS_AT_CONTAINERS}"""
PATH_TEXT = f"""\
# Written by gpu.node.mig.
[Unit]
Description=Notice that a label of the node asks for a MIG layout (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node

[Path]
PathChanged={ASKED}

[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: UNIT_TEXT, PATH_UNIT: PATH_TEXT}


class Request(t.NamedTuple):
    """A request for the layout of this name in the file with this digest; an empty name withdraws the choice."""

    name: str
    digest: str

    def dump(self) -> str:
        """Return the request as text."""
        return json.dumps(self._asdict(), sort_keys=True) + "\n"

    @classmethod
    def load(cls, text: str, path: str) -> Request:
        """Return the request from its text.

        Raises:
            NodeError: if it is damaged.
        """
        with readable(path, "change the label, so that it is written again"):
            return cls.of(json_data.loads(text))

    @classmethod
    def of(cls, data: t.Mapping[str, t.Any]) -> Request:
        """Return the request from JSON.

        Raises:
            ValueError: if it is invalid; or LookupError or TypeError.
        """
        name, digest = data["name"], data["digest"]
        if not isinstance(digest, str) or not NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} can't be the value of a label")
        return cls(name, digest)


class Answer(t.NamedTuple):
    """The state of a request; ``alive`` is whether its service still works on it."""

    asked: t.Optional[Request]
    state: str
    reason: str = ""
    alive: bool = False

    @classmethod
    def of(cls, data: t.Mapping[str, t.Any], *, alive: bool) -> Answer:
        """Return the answer from the service's file, which may be of another version."""
        try:
            asked: t.Optional[Request] = Request.of(data["asked"])
        except (ValueError, LookupError, TypeError):
            asked = None
        state = data.get("state")
        known = state if isinstance(state, str) and state in STATES else ""
        return cls(asked, known, str(data.get("reason") or ""), alive)


class Decision(t.NamedTuple):
    """The value of the state's label, with the reason, and the request to write, if any."""

    state: str = ""
    reason: str = ""
    request: t.Optional[Request] = None


def decide(
    label: str,
    declared: t.Optional[Declared],
    digest: str,
    answer: t.Optional[Answer],
    *,
    chosen: bool,
) -> Decision:
    """Decide what follows from a label's value; ``chosen`` is whether an earlier choice is remembered.

    Only names that the node's file has are requested.
    """
    if not label:
        due = chosen or (answer is not None and answer.asked is not None)
        return Decision(request=Request("", digest) if due else None)
    if declared is None:
        return Decision(FAILED, f"mig_by_label is not set in {CONFIG}, {HINT}")
    reason = refusal(declared, label)
    if reason:
        return Decision(FAILED, reason)
    request = Request(label, digest)
    if answer is None or answer.asked != request or not answer.state:
        return Decision(PENDING, "it has been asked for", request)
    return Decision(answer.state, answer.reason, request)


def answered(decision: Decision, answer: t.Optional[Answer]) -> bool:
    """Return whether the service works on the request, or has answered it."""
    if decision.request is None:
        return True
    if answer is None or answer.asked != decision.request:
        return False
    return answer.alive or answer.state != PENDING


def refusal(declared: Declared, name: str) -> str:
    """Return why a layout can't be selected by its name, empty if it can."""
    known = [name for name in names(declared.config) if NAME.fullmatch(name)]
    if name in known:
        return ""
    have = cut(", ".join(sorted(known)), MOST_NAMES) or "none"
    return f"mig_config has no layout {shown(name)}: it has {have}"


def warnings(declared: Declared, chosen: str) -> t.List[str]:
    """Return warnings that the label chose a layout, which counts, or is not there any more."""
    default = declared.selection().label
    gone = refusal(declared, chosen)
    if gone:
        counts = f"{default} counts" if default else "nothing is changed"
        return [f"mig: {gone}; the node's label {LABEL} chose it, and {counts} instead"]
    if chosen != default:
        over = f", which counts and not {default}" if default else ""
        return [f"mig: the node's label {LABEL} chose {chosen}{over}"]
    return []


def check(declared: Declared, *, boot: bool) -> None:
    """Check that a label can choose from the declared layouts.

    Raises:
        InputError: if there are none with names, or no file for the next boot is written.
    """
    if not names(declared.config):
        expected = "layouts by their names (mig_config), of which the label names one"
        raise InputError.of("by_label", True, f"false, or {expected}")
    if not boot:
        expected = "false, or boot (mig_boot) true: labels choose from the file that it writes"
        raise InputError.of("by_label", True, expected)


class Units(t.NamedTuple):
    """The units on the node: their texts, and systemd's properties of the path unit."""

    texts: t.Mapping[str, t.Optional[str]] = {}
    path: t.Mapping[str, str] = {}


def plan(units: Units, *, desired: bool) -> t.List[Step]:
    """Return the steps that write the units, or remove them."""
    if not desired:
        if {*units.texts.values()} <= {None}:
            return []
        params = {
            "disable": ["--now", PATH_UNIT, UNIT],
            "remove": [*map(unit_file, TEXTS), *LEFT],
            "systemctl": [["daemon-reload"]],
        }
        summary = f"remove {', '.join(TEXTS)}, and what the label chose"
        return [Step("boot_remove", summary, params)]
    steps = [
        Step(
            "boot_unit",
            f"write {unit_file(unit)}",
            {"write": {unit_file(unit): text}, "systemctl": [["daemon-reload"]]},
        )
        for unit, text in TEXTS.items()
        if units.texts.get(unit) != text
    ]
    state = (units.path.get("UnitFileState"), units.path.get("ActiveState"))
    if steps or state != ("enabled", "active"):
        calls = {"systemctl": [["enable", PATH_UNIT], ["restart", PATH_UNIT]]}
        steps.append(Step("boot_enable", f"enable and start {PATH_UNIT}", calls))
    return steps
