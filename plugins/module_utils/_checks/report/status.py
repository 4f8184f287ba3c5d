# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's state beside its GPUs, for a report: the driver's support, who has what, faults, labels, pending reboots."""

from __future__ import annotations

import datetime
import re
import typing as t

from ..._base.text import json_data
from ..._device_plugin.resources import HEALTHY, count
from ..._driver.branches import Version
from ..._driver.releases import standing
from ..._driver.releases.table import Table
from ..validate.check import because

Json = t.Dict[str, t.Any]
XID = re.compile(r"\bXID (\d{1,5})\b", re.IGNORECASE)
FAULT = ("gpu", "index", "gi", "ci", "kind", "reason", "since", "way_back", "clearable")
NO_ANSWER: Json = {"state": "", "problem": "", "registration_problem": "", "resources": {}}


def driver(
    loaded: t.Optional[t.Mapping[str, t.Any]], table: t.Optional[Table], today: datetime.date
) -> Json:
    """Return the loaded driver's support and the bulletins about it as gpu.node.nvidia_driver does.

    It is empty where no driver is loaded; ``support`` and ``security`` are without a table.
    """
    if not loaded:
        return {}
    version = Version(str(loaded["version"]))
    return {
        "version": version,
        "type": loaded.get("kind", ""),
        "support": standing.support(version, table, today) if table else {},
        "security": standing.security(version, table) if table else {},
        "releases": standing.age(table, today) if table else {},
    }


def daemon(text: str, problem: str = "") -> Json:
    """Read the answer of ``gpu-plugin status --json``; what can't be read of it is empty.

    ``problem`` is why there is none. Times are in seconds since 1970.
    """
    try:
        told = _table(json_data.loads(text))
    except ValueError:
        told = {}
    labels, mig = _table(told.get("labels")), _table(told.get("mig_boot"))
    return {
        "daemon": {
            "state": _text(told.get("state")),
            "problem": _text(told.get("problem")) or problem,
            "registration_problem": _text(told.get("registration_problem")),
            "resources": {
                name: _resource(_table(one)) for name, one in _table(told.get("resources")).items()
            },
        },
        "faults": [_fault(_table(one)) for one in _list(told.get("health"))],
        "labels": {
            "state": _text(labels.get("state")),
            "problem": _text(labels.get("problem")),
            "labels": {key: str(one) for key, one in _table(labels.get("labels")).items()},
        },
        "mig_boot": {"state": _text(mig.get("state")), "problems": _list(mig.get("problems"))},
        "unreadable": [str(one) for one in _list(told.get("unreadable"))],
    }


def _resource(told: Json) -> Json:
    return {
        "devices": count(told),
        "healthy": count(told, HEALTHY),
        "registered": told.get("registered") is True,
    }


def _fault(told: Json) -> Json:
    found = {key: told.get(key) for key in FAULT}
    named = XID.search(_text(found["reason"]))
    return {**found, "xid": int(named[1]) if named else None}


def reboots(
    packages: t.Optional[t.Sequence[str]], gpus: t.Iterable[t.Mapping[str, t.Any]]
) -> t.List[str]:
    """Return why the node waits for a reboot, or a GPU for a reset.

    ``packages`` are those for which the distribution asks for one, None where it does not.
    """
    found = []
    if packages is not None:
        found.append(f"the distribution asks for it{because([', '.join(packages)])}")
    for gpu in gpus:
        if gpu["mig_current"] != gpu["mig_pending"]:
            mode = "on" if gpu["mig_pending"] else "off"
            found.append(
                f"GPU {gpu['index']}: MIG mode {mode} waits for a reset of the GPU or a reboot"
            )
    return found


def _table(value: t.Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> t.List[t.Any]:
    return value if isinstance(value, list) else []


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""
