# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""cloud-init, which at a machine's first boot writes sources, installs packages and may upgrade all of them."""

from __future__ import annotations

import re
import time

from ..._base.errors import NodeError
from ..._base.text import json_data
from ..._base.text.shown import cut, printable
from ..._machine.host import Host

# Documented: the result of this boot's run, written once all stages have ended.
RESULT = "/run/cloud-init/result.json"
POLL_SECONDS = 2.0
# Since 23.4 some versions say "degraded running" of a run with warnings.
RUNNING = re.compile(r"(?:degraded )?running")
# Before 24.1, and since. The state stays so if it was installed after the boot.
NOT_STARTED = ("not run", "not started")
BOOTING = ("initializing", "starting")
OURS = re.compile(r"/cloud-(?:init(?:-[a-z]+)?|config|final)\.service(?:/|$)", re.MULTILINE)
VARIABLE = "gpu_nodes_cloud_init_timeout"


def wait(host: Host, timeout: float) -> str:
    """Wait until cloud-init has ended, and return its errors. If it runs this process, it is not waited for.

    Raises:
        NodeError: if it still runs after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not host.exists(RESULT) and host.which("cloud-init"):
        # The exit status does not show whether it runs: 1 and, since 23.4, 2 are for errors and warnings.
        output = host.run(["cloud-init", "status", "--long"], check=False, timeout=60).out
        if not _at_work(host, output) or OURS.search(host.read("/proc/self/cgroup") or ""):
            return ""
        if time.monotonic() >= deadline:
            detail = re.search(r"^detail:\s*(\S.*)$", output, re.MULTILINE)
            raise NodeError(
                f"cloud-init is still at work after {timeout:g} s",
                cause=cut(printable(detail[1])) if detail else "",
                hint="wait until 'cloud-init status --long' on the node says that it has ended, or raise "
                f"cloud_init_timeout ({VARIABLE}), where 0 does not wait",
            )
        time.sleep(POLL_SECONDS)
    return _errors(host.read(RESULT) or "{}")


def _at_work(host: Host, output: str) -> bool:
    match = re.search(r"^status: (.+)$", output, re.MULTILINE)
    state = match[1] if match else ""
    if state in NOT_STARTED:
        return host.run(["systemctl", "is-system-running"], check=False).out.strip() in BOOTING
    return bool(RUNNING.fullmatch(state))


def _errors(result: str) -> str:
    """Return the errors that a run has ended with, in one text."""
    try:
        errors = json_data.loads(result).get("v1", {}).get("errors", ())
        return cut(printable("; ".join(map(str, errors))))
    except (ValueError, AttributeError, TypeError):
        return ""  # another format: nothing is known
