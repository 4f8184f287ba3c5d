# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What roles call the options of their modules, written by make options from options/."""

from __future__ import annotations

import typing as t

# By module, the options that its role gives, under what their variables begin with, or a whole variable;
# whole.part is an option of an option.
NAMED: t.Mapping[str, t.Mapping[str, str]] = {
    "accept": {
        "accept_": "gpus test duration level tools dcgm_level valid_for floors fail on_busy wait_timeout lock_timeout "
        "scope override",
        "gpu_nodes_": "on_allocated stop_services gate",
    },
    "bundle": {
        "bundle_": "state path collection pythons architectures webhook images driver_version sha256",
    },
    "cdi": {"cdi_": "state path hooks library_folders driver_root generator capabilities boot"},
    "gpu_info": {"gpu_nodes_": "cloud_init_timeout"},
    "drain": {
        "gpu_nodes_node_name": "node",
        "gpu_nodes_": "kubeconfig context wait_for_jobs",
        "gpu_nodes_drain_": "reason pods bare_pods emptydir grace_period timeout retries",
    },
    "validate_pods": {
        "gpu_nodes_node_name": "node",
        "gpu_nodes_": "kubeconfig context",
        "gpu_nodes_pod_": "image command namespace timeout",
    },
    "container_runtime": {
        "container_runtime_": "state name mode handler handler_path config_path spec_dirs restart backup",
    },
    "container_toolkit": {
        "container_toolkit_": "state version parts hold vendor_refresh repository lock_timeout",
    },
    "dcgm": {"dcgm_": "state version cuda proprietary hold exporter lock_timeout"},
    "device_plugin": {
        "device_plugin_": "state wheelhouse index_url python install_python config configs wait_timeout lock_timeout",
        "node_labels_": "labels.output labels.kubeconfig labels.node_name labels.namespace labels.extra "
        "labels.default_config dra.node_name",
        "device_plugin_node_": "labels.events labels.condition",
        "mig_by_label": "labels.mig_by_label",
        "gpu_nodes_dra_": "dra.devices dra.enforcement dra.split_count dra.memory_scaling dra.oversubscribe "
        "dra.publish dra.kubeconfig dra.hami_core_library dra.hami_core_sha256",
        "gpu_nodes_": "allocation require_kubelet",
    },
    "host": {"host_": "state iommu acs hugepages governor numa_balancing memlock lock_timeout"},
    "mig": {
        "mig_": "state config selected on_busy wait_timeout reset boot by_label lock_timeout",
        "gpu_nodes_": "on_allocated stop_services",
    },
    "nvidia_driver": {
        "nvidia_driver_": "state source repository runfile version kernel_modules precompiled prerequisites "
        "components adopt hold hold_kernel update load reload on_busy wait_timeout persistence "
        "manage_sources secure_boot module_options lock_timeout releases",
        "validate_": "gpu_count",
        "gpu_nodes_": "on_allocated stop_services",
    },
    "quarantine": {"quarantine_": "gpus node reason ticket"},
    "repair": {"repair_": "reboot window xids", "validate_": "gpu_count"},
    "settings": {"settings_": "state rules boot lock_timeout"},
    "validate": {
        "validate_": "gpu_count containers cuda wait_timeout",
        "nvidia_": "driver_version driver_source",
        "gpu_nodes_": "components allocation require_kubelet",
        "container_runtime_name": "runtime",
    },
}
# The options that roles leave out where their variable is empty.
OMITTED: t.Mapping[str, t.Sequence[str]] = {
    "container_runtime": ["config_path"],
    "container_toolkit": ["repository"],
    "dcgm": ["exporter"],
    "device_plugin": ["wheelhouse", "index_url", "python", "config"],
    "mig": ["config", "selected"],
    "nvidia_driver": ["repository", "runfile"],
}
# By variable, the default of the role where its module has another.
DEFAULTS: t.Mapping[str, t.Any] = {
    "bundle_path": "",
    "bundle_collection": "",
    "gpu_nodes_pod_image": "",
    "container_toolkit_state": "unmanaged",
    "dcgm_state": "unmanaged",
    "device_plugin_config": {
        "version": "v1",
        "flags": {
            "migStrategy": "mixed",
            "plugin": {"deviceListStrategy": ["cdi-annotations", "cdi-cri"]},
        },
    },
}
VARIABLES: t.Mapping[str, t.Mapping[str, str]] = {
    module: {
        option: f"{name}{option.rpartition('.')[2]}" if name.endswith("_") else name
        for name, options in named.items()
        for option in options.split()
    }
    for module, named in NAMED.items()
}
