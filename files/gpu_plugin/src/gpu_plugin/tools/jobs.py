# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd is about to do with other services."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from .._shared._host.api import Host
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
    words = ["systemctl", "show", "--property=Id,Job", *services]
    # It would tell the service manager of its own errors as if they were ours.
    done = Host().run(words, check=False, timeout=ASK_SECONDS, env={"NOTIFY_SOCKET": ""})
    blocks = [dict(_fields(one)) for one in done.out.split("\n\n")] if done.rc == 0 else []
    return [one.get("Id", "") for one in blocks if one.get("Job", "0") not in ("", "0")]


def _fields(block: str) -> list[tuple[str, str]]:
    return [
        (key, value) for key, _equals, value in (line.partition("=") for line in block.split("\n"))
    ]
