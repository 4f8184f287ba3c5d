# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the daemon does at the moment, for its status file, its metrics and systemd."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .. import __version__
from .._shared._node.quarantine import data_of
from ..advertise.decide import Advertised
from ..config.reload import InForce
from ..driver.watch import GpuWatch
from ..kubelet.manager import Manager
from ..observer import Observer
from ..tools import logs
from ..tools.chores import Chore
from ..tools.process import Last

if TYPE_CHECKING:
    from .endpoint import Endpoint, Page


def state(
    configuration: InForce,
    gpus: GpuWatch,
    advertised: Advertised,
    kubelet: Manager,
    vanished: Sequence[Mapping[str, str]],
    mps: Mapping[str, Any],
    chores: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return it as JSON can hold it; the file has the process besides. ``chores`` are their errors.

    A resource's devices are by UUID: of thousands of shares of a few GPUs there would be too much to read.
    ``health`` has an entry for each GPU or MIG instance that is unhealthy, whatever it is advertised as; ``verdicts``
    say what is to be done about GPUs, by UUID.
    """
    inventory, refusal, registered = gpus.inventory, advertised.refusal, kubelet.registered()
    absent = inventory.absent
    return {
        "version": __version__,
        "config_sha256": configuration.digest,
        "config_problem": configuration.problem or None,
        "config_fallback": configuration.fallback,
        "driver_version": None if absent else inventory.driver_version,
        "state": "waiting_for_driver" if absent else "refused" if refusal else "serving",
        "problem": absent or (str(refusal) if refusal else None),
        "resources": {
            name: {
                "devices": those.health,
                "problems": those.problems,
                "causes": those.causes,
                "shares": those.shares,
                "registered": registered.get(name, False),
            }
            for name, those in advertised.resources.items()
        },
        "registration_problem": kubelet.problem(),
        "vanished": vanished,
        "mps": mps,
        "chores": chores,
        "quarantine": data_of(inventory.quarantine),
        "health": [asdict(one) for one in gpus.unhealthy()],
        "verdicts": gpus.verdicts(),
        "devices": [
            {"uuid": uuid, "index": index, "reason": reason}
            for those in advertised.resources.values()
            for (uuid, index), reason in those.reasons.items()
        ],
        "settings": [asdict(setting) for setting in gpus.settings],
        "slow": sorted(inventory.slow),
        "unreadable": [str(stranger) for stranger in inventory.strangers],
        "gpu_uuids": [view.gpu.uuid for view in inventory.gpus],
        "gpu_indices": [str(view.gpu.index) for view in inventory.gpus],
        "mig_uuids": inventory.mig_uuids,
    }


def summary(problem: str | None, advertised: Advertised) -> str:
    """Return a state in words: its problem, or how much is served."""
    found = advertised.resources.values()
    return problem or f"serving: {sum(map(len, found))} devices of {len(found)} resources"


def daemons_pages(
    observer: Observer, last: Last, mps_root: Callable[[], str]
) -> Mapping[str, Page]:
    """Return the daemon's pages: the observer's numbers, its last state, and the MPS daemons below ``mps_root``."""
    from .pages import pages  # the client is loaded where it is wanted

    return pages(observer, last, mps_root)


class Telemetry:
    """Serves ``pages``, which are made when they are first wanted.

    ``chore`` is to be run with the configuration's address again and again; without one it serves nowhere.
    """

    def __init__(self, pages: Callable[[], Mapping[str, Page]]) -> None:
        self._pages = pages
        self._address: tuple[str, int] | None = None
        self._server: Endpoint | None = None
        self.chore = Chore("metrics", "no metrics are served, trying again", self._serve)

    def _serve(self, address: tuple[str, int] | None) -> None:
        """Be at this address from now on. OSError: it can't be had, and later calls try again."""
        if address != self._address:
            self.stop()
            self._address = address
        if address is None or self._server is not None:
            return
        from .endpoint import Endpoint  # HTTP is loaded where it is wanted

        self._server = Endpoint(address, self._pages())
        serving = threading.Thread(target=self._server.serve, name="metrics", daemon=True)
        serving.start()
        host, port = address
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        logs.info("metrics are served", address=shown)

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.end()
            self._server = None
