# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver, which may come up while this waits, and the notification that a service has started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import NvmlError
from .._shared._machine.host import Completed, Host
from .._shared._machine.nvml.real import Nvml, open_nvml
from .._shared._machine.units import properties
from ..tools import logs
from ..tools.start_timeout import READY

# They have GPUs open, or bring NVSwitches up, before a layout is made.
SERVICES: Final = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
POLL_SECONDS: Final = 0.5
ASK_SECONDS: Final = 20.0


class Quiet(Host):
    """The machine, whose programs can't notify the service manager in place of this one."""

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        """As the machine does."""
        return super().run(
            argv, **{**more, "env": {"NOTIFY_SOCKET": "", **(more.get("env") or {})}}
        )


@contextlib.contextmanager
def driver(wait: float, library: str = "") -> Iterator[Nvml]:
    """Open NVML as soon as NVIDIA's own services have begun, or failed to, and the driver is there."""
    # An order of units would do so too, and would make all that comes after this service wait with it.
    deadline = time.monotonic() + wait
    while busy := _starting():
        if time.monotonic() >= deadline:
            logs.warning("not waited for any longer", services=", ".join(busy), seconds=wait)
            break
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + wait
    with contextlib.ExitStack() as stack:
        while True:
            try:
                nvml = stack.enter_context(open_nvml(library))
                break
            except NvmlError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_SECONDS)
        yield nvml


def status_of(work: Callable[[Path], int], config: Path) -> int:
    """Return the exit status of work by a configuration: 1 if it fails or can't be read, which is logged."""
    try:
        return work(config)
    except OSError as error:
        logs.error(f"can't read {config}: {error.strerror}")
    except NodeError as error:
        logs.error(str(error))
    return 1


def ended(status: int) -> int:
    """Notify systemd that the service has started once its work is done. Return the exit status."""
    if status == 0:
        logs.notify(READY)
    return status


def _starting() -> list[str]:
    """Return NVIDIA's services that systemd has a job for, none if there is no systemd."""
    jobs = {
        service: properties(Quiet(), service, "Job", timeout=ASK_SECONDS).get("Job", "")
        for service in SERVICES
    }
    return [unit for unit, job in jobs.items() if job not in ("", "0")]
