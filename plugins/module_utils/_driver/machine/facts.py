# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The facts that are read from a node before its package manager is asked."""

from __future__ import annotations

import datetime
import typing as t

from ..._base import distributions
from ..._base.packages.apt import HEADER
from ..._base.packages.repository import Repository
from ..._machine.packages.apt_sources import OWN_SOURCES
from ..._node.machine import facts as node_facts
from ..branches import Version
from ..facts import Driver, DriverState, History, Loaded, Machine, Software
from ..module_options.declared import Options
from ..sources.runfile import UNINSTALLER
from .kernel import dkms, modules, signing_key
from .sources import Node, known_repository


def _observe_machine(node: Node, release: t.Mapping[str, str]) -> Machine:
    """Return what the node is; ``release`` are the fields of its os-release."""
    host, kernel = node.host, node.kernel
    devices = node_facts.pci_devices(host)
    distribution = release.get("ID", "unknown")
    gpus = tuple((gpu.address, gpu.architecture) for gpu in devices if gpu.kind == "gpu")
    bridged = bool(gpus) and bool(node_facts.bridges(host))
    return Machine(
        traits=node.family.traits,
        distribution=distribution,
        codename=distributions.release(release),
        title=release.get("PRETTY_NAME", distribution),
        kernel=kernel,
        # A link that leads nowhere: in the RHEL family it comes with the kernel, not with its headers.
        headers=host.status(f"/lib/modules/{kernel}/build") is not None,
        own_kernel=host.exists(f"/lib/modules/{kernel}"),
        gpus=gpus,
        nvswitch=bridged or any(device.kind == "nvswitch" for device in devices),
        bridged=bridged,
        signing_key=signing_key(host),
        today=datetime.date.today(),
    )


def observe_node(
    node: Node,
    release: t.Mapping[str, str],
    repository: t.Optional[Repository],
    options: Options,
) -> DriverState:
    """Return what is known before the package manager is asked.

    Args:
        node: The node.
        release: The fields of its os-release.
        repository: The desired repository.
        options: The desired options of kernel modules.
    """
    host, past = node.host, history(node)
    record, driver = past.record, node_facts.loaded_driver(host)
    sources = host.read(OWN_SOURCES)
    foreign = not record.sources and not (sources or HEADER).startswith(HEADER)
    return DriverState(
        machine=_observe_machine(node, release),
        software=Software(
            own_sources=None if foreign else sources,
            foreign_sources=OWN_SOURCES if foreign else "",
            repository=known_repository(node, repository),
            nvidia_installer=host.exists(UNINSTALLER),
        ),
        loaded=Loaded(
            driver=Driver(Version(driver.version), driver.module_type) if driver else None,
            load=node_facts.driver_load(host),
            nouveau=host.exists("/sys/module/nouveau"),
            libraries=tuple(map(Version, node_facts.library_versions(host))),
            firmware=node_facts.firmware_versions(host, node.kernel),
            modules=modules(host, options, added=record.modprobe, spared=record.initramfs),
            dkms=dkms(host),
            reload_note=node.reload_note,
        ),
        history=past,
    )


def history(node: Node) -> History:
    """Return what earlier runs have recorded, and what this run has done so far."""
    return History(
        record=node.added.record,
        undone=node.undone,
        refreshed=node.refreshed,
        previewed=node.previewed,
        refresh_note=node.refresh_note,
    )
