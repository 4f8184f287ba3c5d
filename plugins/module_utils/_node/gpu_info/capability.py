# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.gpu_info, which only reads."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError, checked_timeout
from ..._base.gpu import Gpu, NvmlError
from ..._base.steps import Plan, Step
from ..._machine.host import Host
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.settings import persistent
from ..gpu_record import Gpus
from ..machine import cloud_init
from ..machine.facts import gpus, loaded_driver, pci_devices, recorded_gpus
from ..machine.in_service import as_data
from ..machine.quarantine import QuarantineFile, seen
from ..quarantine import EMPTY, data_of, elsewhere
from ..users.allocated import names
from ..users.machine import allocated

Info = t.Dict[str, t.Any]


class GpuInfoCapability:
    """Reads the node; never changes it."""

    name = "gpu_info"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host, self._params = host, params
        self._warnings: t.Tuple[str, ...] = ()
        self._waited = False
        self._set_aside, self._elsewhere = EMPTY, t.cast(t.Tuple[NodeError, ...], ())
        checked_timeout(params["cloud_init_timeout"], "cloud_init_timeout")

    def observe(self) -> Info:
        """Return all information; if a part can't be read, its error is part of it."""
        devices = [dataclasses.asdict(pci_device) for pci_device in pci_devices(self._host)]
        self.wait(self._params["cloud_init_timeout"])
        driver = loaded_driver(self._host)
        info: Info = {
            "pci_devices": devices,
            "pci_gpus": [device for device in devices if device["kind"] == "gpu"],
            "driver": driver._asdict() if driver else None,
            "missing_gpus": list(self.recorded(_addresses(devices)).missing),
            **self._quarantine(),
            "change": as_data(self._host),
            "nvml_available": True,
            "nvml_error": "",
            "gpus": [],
            "lost_gpus": [],
            "allocated": [],
            "allocated_error": "",
        }
        try:
            if self._params["allocated"]:
                info.update(allocated=list(names(allocated.observe(self._host))))
        except NodeError as error:
            info.update(allocated_error=str(error))
        try:
            with open_nvml() as nvml:
                known_gpus, broken = nvml.gpus()
                self._elsewhere = (
                    elsewhere(self._set_aside, seen(nvml).values()) if self._set_aside.gpus else ()
                )
                info.update(
                    library_version=nvml.driver_version(),
                    cuda_version=nvml.cuda_version(),
                    gpus=[_gpu(nvml, gpu) for gpu in known_gpus],
                    lost_gpus=[str(error) for error in broken],
                )
        except NvmlError as error:
            info.update(nvml_available=False, nvml_error=str(error))
        return info

    def _quarantine(self) -> Info:
        """Return the quarantine, and why it can't be read."""
        problem = ""
        try:
            self._set_aside = QuarantineFile(self._host).read()
        except NodeError as error:
            self._set_aside, problem = EMPTY, str(error)
        return {"quarantine": data_of(self._set_aside), "quarantine_error": problem}

    def recorded(self, there: t.Iterable[str]) -> Gpus:
        """Return the GPUs of the node's last bring-up, with the addresses of those that are there."""
        return recorded_gpus(self._host, there, self._params.get("gpu_count", -1))

    def wait(self, seconds: float) -> None:
        """Wait once until cloud-init has ended, if the option asks for it."""
        if not self._waited and self._params["cloud_init_timeout"] and gpus(self._host):
            failed = cloud_init.wait(self._host, seconds)
            self._warnings = (f"cloud-init has ended with errors: {failed}",) if failed else ()
        self._waited = True

    def plan(self, state: Info) -> Plan:
        """Return a plan without steps, with warnings."""
        planned = self.recorded(_addresses(state["pci_gpus"]))
        missing = (f"{planned}. Next step: {planned.next_step}",) if planned.missing else ()
        damaged = (state["quarantine_error"],) if state["quarantine_error"] else ()
        return Plan(warnings=(*self._warnings, *missing, *damaged, *map(str, self._elsewhere)))

    def apply(self, step: Step) -> None:
        """Do nothing: there are no steps."""

    def result(self, state: Info, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the facts under one key."""
        return {"gpu_info": state}


def _gpu(nvml: Nvml, gpu: Gpu) -> Info:
    profiles = {profile.id: profile.name for profile in nvml.gi_profiles(gpu)}
    return {
        **dataclasses.asdict(gpu),
        "compute_capability": ".".join(map(str, gpu.compute_capability)),
        "persistence_mode": persistent(nvml.handle(gpu)),
        "processes": [*map(dataclasses.asdict, nvml.processes(gpu))],
        "mig_profiles": [*map(dataclasses.asdict, nvml.gi_profiles(gpu))],
        "gpu_instances": [
            {**dataclasses.asdict(instance), "profile": profiles.get(instance.profile_id, "")}
            for instance in nvml.gpu_instances(gpu)
        ],
        "mig_devices": [*map(dataclasses.asdict, nvml.mig_devices(gpu))],
    }


def _addresses(devices: t.Iterable[Info]) -> t.Tuple[str, ...]:
    return tuple(device["address"] for device in devices if device["kind"] == "gpu")
