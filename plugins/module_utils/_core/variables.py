# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the roles call the options of their modules, so that an error names what its reader has set."""

from __future__ import annotations

import re
import typing as t

from .errors import NodeError

OPTION = re.compile(r"[a-z_]+(?:\.[a-z_]+)?")


def _of(prefix: str, options: str, **others: str) -> t.Dict[str, str]:
    return {**{one: f"{prefix}_{one}" for one in options.split()}, **others}


ON_ALLOCATED = "gpu_nodes_on_allocated"
STOP_SERVICES = "gpu_nodes_stop_services"
REQUIRE_KUBELET = "gpu_nodes_require_kubelet"
ALLOCATION = "gpu_nodes_allocation"
GPU_COUNT = "validate_gpu_count"
# By module, the variable of each option that its role gives; labels are a part of the device plugin's role.
VARIABLES: t.Mapping[str, t.Mapping[str, str]] = {
    "nvidia_driver": _of(
        "nvidia_driver",
        "state source repository runfile version kernel_modules precompiled prerequisites components adopt hold"
        " hold_kernel update load reload persistence manage_sources secure_boot module_options releases on_busy"
        " wait_timeout lock_timeout",
        on_allocated=ON_ALLOCATED,
        stop_services=STOP_SERVICES,
        gpu_count=GPU_COUNT,
    ),
    "container_toolkit": _of(
        "container_toolkit", "state version parts hold vendor_refresh repository lock_timeout"
    ),
    "container_runtime": _of(
        "container_runtime",
        "state name mode handler handler_path config_path spec_dirs restart backup",
    ),
    "mig": _of(
        "mig",
        "state config selected on_busy wait_timeout reset boot by_label lock_timeout",
        on_allocated=ON_ALLOCATED,
        stop_services=STOP_SERVICES,
    ),
    "cdi": _of("cdi", "state path hooks library_folders driver_root generator capabilities boot"),
    "device_plugin": {
        **_of(
            "device_plugin",
            "state wheelhouse index_url config configs wait_timeout python install_python lock_timeout",
        ),
        "allocation": ALLOCATION,
        **{
            f"dra.{one}": f"gpu_nodes_dra_{one}"
            for one in (
                *("devices", "enforcement", "split_count", "memory_scaling", "oversubscribe"),
                *("hami_core_library", "publish", "kubeconfig"),
            )
        },
        "dra.node_name": "node_labels_node_name",
        **{
            f"labels.{one}": f"node_labels_{one}"
            for one in ("output", "kubeconfig", "node_name", "namespace", "extra", "default_config")
        },
        "labels.events": "device_plugin_node_events",
        "labels.condition": "device_plugin_node_condition",
        "labels.mig_by_label": "mig_by_label",
        "require_kubelet": REQUIRE_KUBELET,
    },
    "dcgm": _of("dcgm", "state version cuda proprietary hold exporter lock_timeout"),
    "validate": _of(
        "validate",
        "gpu_count containers cuda wait_timeout",
        driver_version="nvidia_driver_version",
        driver_source="nvidia_driver_source",
        components="gpu_nodes_components",
        allocation=ALLOCATION,
        require_kubelet=REQUIRE_KUBELET,
    ),
    "bundle": _of(
        "bundle",
        "state path collection pythons architectures webhook images driver_version sha256",
    ),
    "gpu_info": {"cloud_init_timeout": "gpu_nodes_cloud_init_timeout"},
}


def option(module: str, key: str) -> str:
    """Return the option that a key such as config.mig-configs.half[0] is in, empty where it has no variable."""
    found = OPTION.match(key)
    whole = found.group() if found else ""
    known = VARIABLES.get(module, {})
    return next((one for one in (whole, whole.partition(".")[0]) if one in known), "")


def in_variables(module: str, key: str) -> str:
    """Return a key with its option as the role calls it: mig_config.mig-configs.half[0]."""
    found = option(module, key)
    return f"{VARIABLES[module][found]}{key[len(found) :]}" if found else key


def about(module: str, error: NodeError) -> str:
    """Return an error's text, with the variable where it is about an option that has one of another name."""
    key, text = str(error.details.get("key", "")), str(error)
    found = option(module, key)
    return text.replace(f"{key}: ", f"{key} ({VARIABLES[module][found]}): ", 1) if found else text
