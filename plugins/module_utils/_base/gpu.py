# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs as plain values, PCI devices, device nodes and settings, and the error of NVML."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .errors import NodeError

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 3, 4, 6, 9
TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 10, 12, 13, 15
RESET_REQUIRED, VERSION_MISMATCH, IN_USE, INSUFFICIENT_RESOURCES = 16, 18, 19, 23
UNKNOWN_ERROR = 999
MISSING = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26)  # of a struct's version, and deprecated
DEFAULT, PROHIBITED, EXCLUSIVE_PROCESS = 0, 2, 3  # compute modes
NO_BINDINGS = -1  # ours: NVML itself has not been asked

# pynvml's own texts come from the library, which may be the thing that is missing.
MESSAGES = {
    -1: "this Python has no pynvml (nvidia-ml-py)",
    1: "NVML is not initialised",
    2: "an argument is invalid",
    3: "not supported by this GPU or driver",
    4: "not permitted",
    6: "not found",
    9: "the NVIDIA driver is not loaded",
    10: "timed out",
    12: "libnvidia-ml.so.1 is not installed",
    13: "this driver does not have the function",
    15: "the GPU has fallen off the bus",
    16: "the GPU needs a reset",
    18: "the library and the loaded kernel module have different versions",
    19: "in use by another process",
    23: "not enough resources left on the GPU",
    999: "unknown error inside the driver",
}


class NvmlError(NodeError):
    """NVML answered a call with an error; ``code`` is NVML's."""

    def __init__(self, code: int, doing: str, *, gpu_index: t.Optional[int] = None) -> None:
        cause = MESSAGES.get(code, f"NVML error {code}")
        super().__init__(f"NVML failed while {doing}", cause=cause, nvml_code=code)
        self.code = code
        self.gpu_index = gpu_index


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU. Memory is in bytes; ``pci_subsystem_id`` holds the subsystem's device and vendor."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str
    minor: int
    memory_total: int
    compute_capability: t.Tuple[int, int]
    mig_capable: bool
    mig_current: bool
    mig_pending: bool
    pci_device_id: int
    pci_subsystem_id: int = 0


@dataclasses.dataclass(frozen=True)
class MigDevice:
    """A MIG device: one compute instance of a GPU instance. Memory is in bytes.

    ``slices`` are the compute slices that it has, and those that its GPU can have.
    """

    uuid: str
    gpu_uuid: str
    gpu_index: int
    mig_index: int
    gi_id: int
    ci_id: int
    profile: str
    memory_total: int
    slices: t.Tuple[int, int] = (1, 1)


class GpuDevices(t.NamedTuple):
    """A GPU with its MIG devices, none outside of MIG mode, or the error if they can't be read."""

    gpu: Gpu
    migs: t.Tuple[MigDevice, ...] = ()
    error: t.Optional[Exception] = None


class Inventory(t.NamedTuple):
    """The driver's version, the GPUs that answer, and an error for each other one."""

    driver_version: str
    gpus: t.Tuple[GpuDevices, ...]
    broken: t.Tuple[NvmlError, ...]


class Firmware(t.NamedTuple):
    """The versions of a GPU's firmware and its board's part number, each empty where the GPU has none."""

    vbios: str = ""
    inforom: str = ""
    board: str = ""


class LoadReading(t.NamedTuple):
    """What a GPU tells while it works, each None where it does not tell.

    Attributes:
        reasons: Why its clocks are lower than they could be, a mask of nvmlClocksEventReason constants.
        link: Generation and width of its PCIe link.
        best_link: Those that the GPU and its slot are able to.
        temperature: In degrees Celsius.
    """

    reasons: t.Optional[int] = None
    link: t.Optional[t.Tuple[int, int]] = None
    best_link: t.Optional[t.Tuple[int, int]] = None
    temperature: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class GiProfile:
    """A GPU instance profile, as the GPU itself reports it; placements are (start, size)."""

    id: int
    enum: int
    name: str
    slices: int
    max_count: int
    memory_mb: int
    placements: t.Tuple[t.Tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class ComputeInstance:
    """A compute instance: its id, how many compute slices it has, and the first of them."""

    id: int
    slices: int
    start: int = 0


@dataclasses.dataclass(frozen=True)
class GpuInstance:
    """A GPU instance and where it stands on the memory grid."""

    id: int
    profile_id: int
    start: int
    size: int
    cis: t.Tuple[ComputeInstance, ...] = ()


@dataclasses.dataclass(frozen=True)
class Process:
    """A process on a GPU; the ids of instances are None on a whole GPU.

    ``where`` describes its pod, container or service, empty if that is not known.
    """

    pid: int
    name: str
    gpu_uuid: str
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None
    where: str = ""

    def __str__(self) -> str:
        parts = filter(None, (self.name or "unknown", self.where))
        return f"process {self.pid} ({', '.join(parts)})"


class Rows(t.NamedTuple):
    """Numbers of remapped memory rows, by their errors, and whether a remapping waits for a reset or has failed."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class Fabric(t.NamedTuple):
    """A GPU's NVLink fabric: NVML's numbers of its state, of the state's error, and of its health's mask."""

    state: int
    status: int = 0
    health: int = 0


@dataclasses.dataclass(frozen=True)
class FaultSigns:
    """The signs of faults that a GPU and its driver report; None for those that are not supported.

    Attributes:
        recovery: NVML's number for the recovery action that the driver asks for.
        rows: Its remapped memory rows.
        sram_exceeded: Whether there are more errors in SRAM than NVIDIA allows.
        repair_pending: Whether channels or TPCs are repaired at the next reset.
        unrepairable: Whether some memory can't be repaired.
        fabric: Its NVLink fabric.
    """

    recovery: t.Optional[int] = None
    rows: t.Optional[Rows] = None
    sram_exceeded: t.Optional[bool] = None
    repair_pending: t.Optional[bool] = None
    unrepairable: t.Optional[bool] = None
    fabric: t.Optional[Fabric] = None


NOTHING_TOLD = FaultSigns()


@dataclasses.dataclass(frozen=True)
class Condition:
    """A GPU's condition; None for values that it does not report.

    Attributes:
        signs: The signs of its faults.
        uncorrected: The number of uncorrectable memory errors since the last reset or load of the driver.
        energy: The energy that it has used since the driver initialised it, in millijoules.
        persistent: Whether it stays initialised while no process uses it.
        compute_mode: NVML's number of its compute mode.
    """

    signs: FaultSigns = NOTHING_TOLD
    uncorrected: t.Optional[int] = None
    energy: t.Optional[int] = None
    persistent: t.Optional[bool] = None
    compute_mode: t.Optional[int] = None


# The settings of a GPU, by their names in options.
PERSISTENCE, POWER, ECC, COMPUTE = "persistence", "power_limit", "ecc", "compute_mode"
GPU_CLOCKS, MEMORY_CLOCKS, ACCOUNTING = "gpu_clocks", "memory_clocks", "accounting"
POWER_PROFILES = "power_profiles"
CLOCKS = (GPU_CLOCKS, MEMORY_CLOCKS)
# In the order in which they are set: persistence mode, which keeps the others, comes first.
NAMES = (PERSISTENCE, POWER, POWER_PROFILES, *CLOCKS, ECC, COMPUTE, ACCOUNTING)
COMPUTE_MODES: t.Mapping[str, int] = {"default": 0, "prohibited": 2, "exclusive_process": 3}
# By NVML's numbers; a board has some of them.
PROFILES = (
    *("max_p", "max_q", "compute", "memory_bound", "network", "balanced", "llm_inference"),
    *("llm_training", "rbm", "dcpcie", "hmma_sparse", "hmma_dense", "sync_balanced", "hpc", "mig"),
    *("max_q_1", "network_bound", "high_throughput_inference", "medium_throughput_inference"),
    *("low_latency_inference", "training", "inference", "max_q_2", "max_q_3"),
    "low_priority_background",
)
MOST_PROFILES = 255
UNNAMED = re.compile(r"profile_([1-9][0-9]{1,2})")  # of a board that is newer than these names
Range = t.Tuple[int, int]
Profiles = t.Tuple[str, ...]
Value = t.Union[bool, int, str, Range, Profiles, None]


def profile_name(number: int) -> str:
    """Return the name of a power profile."""
    return PROFILES[number] if number < len(PROFILES) else f"profile_{number}"


def profile_number(name: object) -> t.Optional[int]:
    """Return NVML's number of a power profile, None if there is none with this name."""
    if name in PROFILES:
        return PROFILES.index(str(name))
    match = UNNAMED.fullmatch(name) if isinstance(name, str) else None
    number = int(match[1]) if match else MOST_PROFILES
    return number if len(PROFILES) <= number < MOST_PROFILES else None


class SettingsTold(t.NamedTuple):
    """The settings of a GPU that NVML reports. Power is in milliwatts, clocks are in MHz.

    Attributes:
        now: The settings that the GPU has, except clocks, whose lock NVML does not report.
        power: The limits that the board allows.
        power_default: The board's default limit.
        clocks: The clocks that it can run at.
        running: The clocks that it runs at.
        ecc_next: The ECC mode after the next reset.
        energy: The energy that it has used since it was initialised, in millijoules.
        profiles: The board's power profiles, each with those that it conflicts with.
        enforced: The enforced power limit and power profiles.
        failed: Why settings could not be read.
    """

    present: t.Mapping[str, Value]
    power: Range = (0, 0)
    power_default: int = 0
    clocks: t.Mapping[str, Range] = {}
    running: t.Mapping[str, int] = {}
    ecc_next: t.Optional[bool] = None
    energy: t.Optional[int] = None
    profiles: t.Mapping[str, Profiles] = {}
    enforced: t.Mapping[str, Value] = {}
    failed: t.Mapping[str, str] = {}


def product_key(name: str) -> str:
    """Return a product name for comparisons, without the vendor that NVIDIA's tools sometimes put before it."""
    return name.strip().lower().replace("nvidia ", "", 1)


class Links(t.NamedTuple):
    """A GPU's NVLinks that are up: to switches, and to other GPUs by their PCI address."""

    switch: int
    peers: t.Dict[str, int]


CONTROL_NODES = tuple(
    f"/dev/nvidia{suffix}" for suffix in ("ctl", "-uvm", "-uvm-tools", "-modeset")
)
CAPS_FOLDER = "/dev/nvidia-caps"
MINOR = re.compile("[0-9]{1,9}")
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"


def parse_minors(text: str) -> t.Dict[str, int]:
    """Read the driver's list of capabilities: lines such as ``gpu0/gi1/ci0/access 13``."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and MINOR.fullmatch(pair[1])}


def gpu_nodes(gpu: Gpu) -> t.Tuple[str, ...]:
    """Return the nodes of a whole GPU."""
    return (f"/dev/nvidia{gpu.minor}",)


def mig_nodes(gpu: Gpu, device: MigDevice, minors: t.Mapping[str, int]) -> t.Tuple[str, ...]:
    """Return the nodes of a MIG device: the GPU's, and the capabilities of its two instances."""
    instance = f"gpu{gpu.minor}/gi{device.gi_id}"
    names = (f"{instance}/access", f"{instance}/ci{device.ci_id}/access")
    missing = [name for name in names if name not in minors]
    if missing:
        cause = f"the driver does not list {missing[0]}"
        raise NodeError(f"MIG device {device.uuid} has no capability nodes", cause=cause)
    return (*gpu_nodes(gpu), *(f"{CAPS_FOLDER}/nvidia-cap{minors[name]}" for name in names))


NVIDIA = 0x10DE
DISPLAY, BRIDGE_OTHER = 0x03, 0x0680
HEXADECIMAL = re.compile(r"(0x)?[0-9a-fA-F]{1,8}\n?")
NODE = re.compile(r"-?[0-9]{1,6}\n?")
# The ids of one architecture lie in blocks; the blocks follow the public PCI id list.
BLOCKS: t.Tuple[t.Tuple[int, int, str], ...] = (
    (0x0FC0, 0x12BF, "kepler"),
    (0x1340, 0x17FF, "maxwell"),
    (0x15F0, 0x15FF, "pascal"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2080, 0x20FF, "ampere"),
    (0x2180, 0x21FF, "turing"),
    (0x2200, 0x22FF, "ampere"),
    (0x2300, 0x23FF, "hopper"),
    (0x2400, 0x25FF, "ampere"),
    (0x2680, 0x28FF, "ada"),
    (0x2900, 0x2FFF, "blackwell"),
    (0x3180, 0x32FF, "blackwell"),
)


@dataclasses.dataclass(frozen=True)
class PciDevice:
    """A PCI device of NVIDIA's; ``kind`` is gpu, nvswitch or other."""

    address: str
    device_id: int
    pci_class: int
    numa_node: t.Optional[int]
    kind: str
    architecture: str


def nvidia_device(address: str, files: t.Mapping[str, t.Optional[str]]) -> t.Optional[PciDevice]:
    """Return the device that sysfs files (vendor, device, class, numa_node) describe, None if it is not NVIDIA's."""
    if _number(files.get("vendor")) != NVIDIA:
        return None
    device_id, pci_class = _number(files.get("device")) or 0, _number(files.get("class")) or 0
    numa = files.get("numa_node") or ""
    node = int(numa) if NODE.fullmatch(numa) and int(numa) >= 0 else None
    kind = "other"
    if pci_class >> 16 == DISPLAY:
        kind = "gpu"
    elif pci_class >> 8 == BRIDGE_OTHER:
        kind = "nvswitch"
    known = architecture(device_id) if kind == "gpu" else ""
    return PciDevice(address, device_id, pci_class, node, kind, known)


def architecture(device_id: int) -> str:
    """Return the name of the architecture with a PCI device id, in lower case; empty if it is not known."""
    # Blocks may lie within each other: the smallest that holds the id counts.
    blocks = [(last - first, name) for first, last, name in BLOCKS if first <= device_id <= last]
    return min(blocks)[1] if blocks else ""


def _number(value: t.Optional[str]) -> t.Optional[int]:
    return int(value, 16) if value and HEXADECIMAL.fullmatch(value) else None
