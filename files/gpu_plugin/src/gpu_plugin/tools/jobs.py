# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd is about to do with other services."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from .._shared._machine.host import Host, properties
from . import logs

POLL_SECONDS: Final = 0.5
ASK_SECONDS: Final = 20.0


def settle(services: Sequence[str], seconds: float) -> None:
    """Wait until none of the services is being started any more, or for so many seconds.

    An order of units would do so too, and would have all that comes after this wait with it.
    """
    deadline = time.monotonic() + seconds
    while busy := _pending(services):
        if time.monotonic() >= deadline:
            logs.warning("not waited for any longer", services=", ".join(busy), seconds=seconds)
            return
        time.sleep(POLL_SECONDS)


def _pending(services: Sequence[str]) -> list[str]:
    """Return those that systemd has a job for; none where there is no systemd."""
    # systemctl would tell the service manager of its own errors as if they were ours.
    quiet = {"NOTIFY_SOCKET": ""}
    jobs = {
        one: properties(Host(), one, "Job", env=quiet, timeout=ASK_SECONDS).get("Job", "")
        for one in services
    }
    return [one for one, job in jobs.items() if job not in ("", "0")]
