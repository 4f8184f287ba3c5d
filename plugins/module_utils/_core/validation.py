# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a node works as a GPU node: named checks, each with its cause and next step where it does not hold."""

from __future__ import annotations

import dataclasses
import typing as t

from .gpu import Gpu
from .text import json_data

SERVING, FAILED, FAILING, UNHEALTHY = "serving", "failed", "failing", "Unhealthy"
NAMED = 4  # as many unhealthy devices are named as fit into a message


class Check(t.NamedTuple):
    """One thing that must be so on a node; cause and next step are empty where it is."""

    name: str
    holds: bool
    cause: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.cause.rstrip('.')}. Next step: {self.next_step}"


@dataclasses.dataclass(frozen=True)
class Daemon:
    """What the device plugin says of itself and of what runs beside it; no ``cdi_devices`` where nothing keeps them."""

    state: str = ""
    problem: str = ""
    unregistered: t.Tuple[str, ...] = ()
    registration_problem: str = ""
    unhealthy: t.Tuple[str, ...] = ()
    mig_uuids: t.Tuple[str, ...] = ()
    mig_boot_state: str = ""
    mig_boot_problems: t.Tuple[str, ...] = ()
    labels_state: str = ""
    labels_problem: str = ""
    cdi_path: str = ""
    cdi_failed: bool = False
    cdi_devices: t.Optional[t.Tuple[str, ...]] = None
    cdi_missing: t.Tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Daemon:
        """Read the answer of ``gpu-plugin status --json``, also one of another version or cut short."""
        try:
            report = _table(json_data.loads(text))
        except ValueError:
            report = {}
        boot, labels, cdi = (_table(report.get(name)) for name in ("mig_boot", "labels", "cdi"))
        return cls(
            state=_text(report.get("state")),
            problem=_text(report.get("problem")),
            unregistered=tuple(_unregistered(_table(report.get("resources")))),
            registration_problem=_text(report.get("registration_problem")),
            unhealthy=tuple(_unhealthy(_table(report.get("resources")))),
            mig_uuids=_texts(report.get("mig_uuids")),
            mig_boot_state=_text(boot.get("state")),
            mig_boot_problems=_texts(boot.get("problems")),
            labels_state=_text(labels.get("state")),
            labels_problem=_text(labels.get("problem")),
            cdi_path=_text(cdi.get("path")),
            cdi_failed=bool(cdi.get("failed")),
            cdi_devices=_texts(cdi.get("devices")) if cdi else None,
            cdi_missing=_texts(cdi.get("missing")),
        )


@dataclasses.dataclass(frozen=True)
class Node:
    """A node as it was found; ``driver_problem`` says why NVML does not answer, empty where it does."""

    pci_gpus: int
    driver_problem: str = ""
    gpus: t.Tuple[Gpu, ...] = ()
    lost_gpus: t.Tuple[str, ...] = ()
    mig_uuids: t.Tuple[str, ...] = ()
    daemon: Daemon = Daemon()


def checks(node: Node, gpu_count: int = -1) -> t.List[Check]:
    """Return all checks of a node that must have so many GPUs; -1 takes the number of GPUs on its PCI bus."""
    wanted = gpu_count if gpu_count >= 0 else node.pci_gpus
    daemon = node.daemon
    # A GPU in MIG mode is there by its MIG devices only.
    devices = [one.uuid for one in node.gpus if not one.mig_current] + list(node.mig_uuids)
    # Devices are described by their UUIDs, and once more by their index.
    described = [name for name in daemon.cdi_devices or () if name.startswith(("GPU-", "MIG-"))]
    more = f"and {len(daemon.unhealthy) - NAMED} more" if daemon.unhealthy[NAMED:] else ""
    found = [
        Check("driver", not node.driver_problem, node.driver_problem, "run gpu.node.gpu_nodes"),
        Check(
            "GPUs",
            len(node.gpus) == wanted,
            f"{len(node.gpus)} of {wanted} GPUs answer{_because(node.lost_gpus)}",
            "see the kernel's log for the missing ones",
        ),
        Check(
            "device plugin",
            daemon.state == SERVING,
            f"the device plugin is not serving ({daemon.problem or 'it does not run'})",
            "see the log of gpu-device-plugin.service",
        ),
        Check(
            "registration",
            not daemon.registration_problem,
            f"the kubelet does not know of {', '.join(daemon.unregistered) or 'all resources'}"
            f"{_because([daemon.registration_problem])}",
            "see the log of gpu-device-plugin.service",
        ),
        Check(
            "MIG at boot",
            daemon.mig_boot_state != FAILED,
            f"gpu-mig.service failed at boot{_because(daemon.mig_boot_problems)}",
            "fix the cause, then run the playbook gpu.node.mig",
        ),
        Check(
            "devices",
            sorted(daemon.mig_uuids) == sorted(node.mig_uuids),
            "the device plugin does not know the MIG devices that the GPUs have",
            "restart gpu-device-plugin",
        ),
        Check(
            "CDI",
            not daemon.cdi_failed,
            "gpu-cdi.service failed: the specification is not kept up to date",
            "see the log of gpu-cdi.service, fix the cause, then run the role gpu.node.cdi",
        ),
        Check(
            "CDI devices",
            daemon.cdi_devices is None or sorted(described) == sorted(devices),
            f"{daemon.cdi_path} does not describe the devices that the GPUs have",
            "run the role gpu.node.cdi",
        ),
        Check(
            "CDI files",
            not daemon.cdi_missing,
            f"{daemon.cdi_path} mounts files that are gone ({', '.join(daemon.cdi_missing)})",
            "run the role gpu.node.cdi",
        ),
        Check(
            "labels",
            daemon.labels_state != FAILING,
            f"the node's labels are not kept up to date{_because([daemon.labels_problem])}",
            "see the log of gpu-node-labels.service",
        ),
        Check(
            "health",
            not daemon.unhealthy,
            f"the device plugin reports unhealthy devices{_because([*daemon.unhealthy[:NAMED], more])}",
            "see 'gpu-plugin status' on the node",
        ),
    ]
    return [Check(one.name, True) if one.holds else one for one in found]


def message(found: t.Sequence[Check]) -> str:
    """Return what to say of the checks that do not hold, a line for each; empty where all hold."""
    bad = [str(one) for one in found if not one.holds]
    if len(bad) < 2:
        return "".join(bad)
    return "\n".join([f"{len(bad)} of {len(found)} checks fail", *bad])


def _because(reasons: t.Sequence[str]) -> str:
    text = "; ".join(filter(None, reasons))
    return f" ({text})" if text else ""


def _unregistered(resources: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    return (name for name, one in resources.items() if _table(one).get("registered") is False)


def _unhealthy(resources: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for resource, report in resources.items():
        problems = _table(_table(report).get("problems"))
        for device, health in _table(_table(report).get("devices")).items():
            if health == UNHEALTHY:
                problem = _text(problems.get(device))
                yield f"{resource} {device}: {problem}" if problem else f"{resource} {device}"


def _table(value: t.Any) -> t.Dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: t.Any) -> t.Tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
