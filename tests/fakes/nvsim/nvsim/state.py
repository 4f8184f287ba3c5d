# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the simulated hardware and driver remember, and for how long.

The board survives a reboot; the driver's state is gone when it is unloaded; processes, event sets and
waiting faults live as long as the daemon.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .catalog import Product, product


@dataclass
class Ci:
    """A compute instance."""

    id: int
    profile: int
    start: int
    size: int


@dataclass
class Gi:
    """A GPU instance; the placement counts memory slices."""

    id: int
    profile: int
    start: int
    size: int
    cis: list[Ci] = field(default_factory=list)


@dataclass
class BoardGpu:
    """A GPU on its board."""

    product: str
    uuid: str
    serial: str
    pci: str
    minor: int
    numa: int
    mig_mode: int = 0
    ecc_mode: int = 1  # in the InfoROM, for the next reset or load of the driver
    row_failure: bool = False
    rows: tuple[int, int] = (
        0,
        0,
    )  # replaced for errors that could be corrected, and that could not
    sram_errors: int = 0
    sram_exceeded: bool = False
    unrepairable: bool = False
    power_cap: int = 0  # what a BMC caps its power at, in milliwatts, 0 for nothing
    dead: bool = False  # does not come back from a reset or a boot


@dataclass
class DriverGpu:
    """What a loaded driver knows of a GPU."""

    mig_current: int = 0
    mig_pending: int = 0
    gis: list[Gi] = field(default_factory=list)
    persistence: int = 0
    compute_mode: int = 0
    accounting: int = 0
    power_limit: int = 0  # in milliwatts, 0 for the board's own
    graphics_lock: tuple[int, int] | None = None  # in MHz, from and to
    memory_lock: tuple[int, int] | None = None
    power_profiles: list[int] = field(default_factory=list)  # those that were asked for
    ecc: int = 1
    lost: bool = False
    reset_required: bool = False
    uncorrected: int = 0
    row_pending: bool = False
    channel_pending: bool = False
    tpc_pending: bool = False
    recovery: int = 0  # what the driver asks for
    began: float = field(default_factory=time.time)  # when the driver initialised it


@dataclass
class Driver:
    """A loaded driver."""

    version: str
    flavour: str
    gpus: dict[str, DriverGpu] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


class Gpu:
    """A GPU with its board, its driver state and its product."""

    def __init__(self, index: int, board: BoardGpu, driver: DriverGpu) -> None:
        self.index, self.board, self.driver = index, board, driver
        self.product: Product = product(board.product)

    def mig_devices(self) -> list[tuple[Gi, Ci]]:
        """Return the MIG devices in the order of their indices."""
        gis = sorted(self.driver.gis, key=lambda gi: gi.id)
        return [(gi, ci) for gi in gis for ci in sorted(gi.cis, key=lambda ci: ci.id)]

    def mig_uuid(self, gi: Gi, ci: Ci) -> str:
        """Return a MIG device's UUID, which depends on the GPU and the place alone."""
        name = f"{self.board.uuid}/{gi.id}/{gi.start}/{gi.profile}/{ci.id}/{ci.profile}"
        return f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"


def new_board(key: str, count: int) -> list[BoardGpu]:
    """Return a board with so many GPUs of a product, spread over two NUMA nodes."""
    product(key)
    found = []
    for index in range(count):
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{key}/{index}")
        found.append(
            BoardGpu(
                product=key,
                uuid=f"GPU-{identity}",
                serial=f"16510230{index:05d}",
                pci=f"{index // 13:04x}:{0x18 + 0x11 * (index % 13):02x}:00.0",
                minor=index,
                numa=0 if index < (count + 1) // 2 else 1,
            )
        )
    return found


def write_json(path: Path, value: Any) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1)
    temporary.replace(path)


class Store:
    """The files: board.json in the state folder, driver.json in the run folder."""

    def __init__(self, state: Path, run: Path) -> None:
        self.board_path, self.driver_path = state / "board.json", run / "driver.json"
        self.board: list[BoardGpu] = []
        self.driver: Driver | None = None

    def load(self) -> None:
        """Read what is there."""
        if self.board_path.exists():
            self.board = [
                BoardGpu(**{**one, "rows": tuple(one.get("rows", (0, 0)))})
                for one in json.loads(self.board_path.read_text())["gpus"]
            ]
        if self.driver_path.exists():
            data = json.loads(self.driver_path.read_text())
            gpus = {key: _driver_gpu(one) for key, one in data.pop("gpus").items()}
            self.driver = Driver(**data, gpus=gpus)

    def save(self) -> None:
        """Write both."""
        write_json(self.board_path, {"gpus": [asdict(one) for one in self.board]})
        if self.driver is None:
            self.driver_path.unlink(missing_ok=True)
        else:
            write_json(self.driver_path, asdict(self.driver))

    def load_driver(
        self, version: str, flavour: str, options: Mapping[str, str] | None = None
    ) -> None:
        """Load the driver: MIG mode comes from the InfoROM where the architecture keeps it there."""
        self.driver = Driver(version, flavour, options=dict(options or {}))
        for one in self.on_bus():
            mode = one.mig_mode if product(one.product).mig_mode_in_inforom else 0
            self.driver.gpus[one.uuid] = DriverGpu(
                mig_current=mode, mig_pending=mode, ecc=one.ecc_mode
            )
        self.save()

    def unload_driver(self) -> None:
        """Forget everything that the driver held."""
        self.driver = None
        self.save()

    def on_bus(self) -> list[BoardGpu]:
        """Return the GPUs that are on the bus: one that died is there until a boot looks for it."""
        known = self.driver.gpus if self.driver else {}
        return [one for one in self.board if not one.dead or one.uuid in known]

    def gpus(self) -> list[Gpu]:
        """Return the GPUs in the order of their PCI addresses; the driver must be loaded."""
        driver = self.driver
        if driver is None:
            return []
        boards = sorted(self.on_bus(), key=lambda one: one.pci)
        return [Gpu(index, one, driver.gpus[one.uuid]) for index, one in enumerate(boards)]


def _driver_gpu(data: dict[str, Any]) -> DriverGpu:
    gis = [Gi(**{**gi, "cis": [Ci(**ci) for ci in gi["cis"]]}) for gi in data.pop("gis")]
    for lock in ("graphics_lock", "memory_lock"):
        data[lock] = tuple(data[lock]) if data.get(lock) else None
    return DriverGpu(**data, gis=gis)
