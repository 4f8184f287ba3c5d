# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a report on a node has besides its GPUs and its plan: everything is read, and what can't be is said."""

from __future__ import annotations

import datetime
import os
import time
import typing as t

from ..._accept.machine.accepted import judge_all_gpus, read_gate_report
from ..._accept.record import JudgedGpu, Unaccepted
from ..._base.errors import NodeError
from ..._device_plugin.machine.status import ask
from ..._driver.releases.table import parse
from ..._generated.repair import SPEC as REPAIR
from ..._machine.host import Host
from ..._node.gate import GateReport
from ..._node.machine.facts import os_release
from ..._node.users.allocated import Allocation
from ..._node.users.machine import allocated
from ..._node.users.machine.users import gpu_users, user_of
from ..._repair.machine import observe_node
from ..._repair.machine.cases import CaseFile
from ..validate.machine.driver import pending
from . import acceptance, cases, status

Json = t.Dict[str, t.Any]
WINDOW: int = REPAIR["argument_spec"]["window"]["default"]  # seconds, as a repair reads the log


def overview(host: Host, info: t.Mapping[str, t.Any], releases: t.Any = True) -> Json:
    """Return it, JSON-able.

    ``info`` is what gpu_info has told of the node, ``releases`` the table of the driver's releases as the user gives
    it.

    Raises:
        InputError: if that table is not valid.
    """
    table, gpus = parse(releases, "releases"), info["gpus"]
    allocations: t.Tuple[Allocation, ...] = ()
    unknown = ""
    try:
        allocations = allocated.observe(host)
    except NodeError as error:
        unknown = str(error)
    seen = {gpu_user.pid: gpu_user for gpu_user in gpu_users(host)}
    named = {process["pid"] for gpu in gpus for process in gpu["processes"]} - set(seen)
    users = [*seen.values(), *(user_of(host, pid) for pid in sorted(named))]
    answer = ask(host) if gpus else None
    silent = answer.err.strip() if answer and not answer.out.strip() else ""
    return {
        "host": {"system": os_release(host).get("PRETTY_NAME", ""), "kernel": os.uname().release},
        "driver": status.driver(info["driver"], table, datetime.date.today()),
        **status.daemon(answer.out if answer else "", silent),
        "processes": status.processes(gpus, users),
        "allocations": status.allocations(allocations, gpus),
        "allocations_unknown": unknown,
        "reboot": status.reboots(pending(host), gpus),
        **_cases(host),
        "acceptance": _acceptance(host),
        "kernel_log": _kernel_log(host) if info["driver"] else [],
    }


def _cases(host: Host) -> Json:
    """Return the repairs of the GPUs, or why they are not known."""
    try:
        return {"cases": cases.rows(CaseFile(host).read()), "cases_unknown": ""}
    except NodeError as error:
        return {"cases": [], "cases_unknown": str(error)}


def _acceptance(host: Host) -> Json:
    """Return which GPUs are accepted, or why that is not known."""
    judged: t.Tuple[JudgedGpu, ...] = ()
    unknown, gate = "", GateReport()
    try:
        judged = judge_all_gpus(host)
        gate = read_gate_report(host)
    except NodeError as error:
        unknown = str(error)
    gpus = Unaccepted.from_gpus(judged)
    return {
        "faulty": list(gpus.faulty),
        "untested": list(gpus.untested),
        "unknown": unknown,
        "held": list(gate.held),
        "override": gate.override,
        "gpus": acceptance.rows(judged),
    }


def _kernel_log(host: Host) -> t.List[str]:
    """Return why faults in the kernel's log are not known, with one of the lines that can't be read."""
    moment = time.time()
    return list(observe_node.log(host, moment, moment - WINDOW).warnings)
