# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables as the operator has declared them, whatever nodes have answered."""

from __future__ import annotations

import copy
import multiprocessing
import typing as t

from ansible.errors import AnsibleError
from ansible.vars.hostvars import HostVars

Variables = t.Dict[str, t.Any]

# What tasks on the controller read: paths, names of hosts and of nodes, images, hooks, and limits.
OPTIONS = (
    *("gpu_nodes_kubeconfig", "gpu_nodes_context", "gpu_nodes_node_name"),
    *("gpu_nodes_drain_pods", "gpu_nodes_drain_reason", "gpu_nodes_drain_bare_pods"),
    "gpu_nodes_failure",
    *("gpu_nodes_drain_emptydir", "gpu_nodes_drain_grace_period", "gpu_nodes_drain_timeout"),
    *("gpu_nodes_drain_retries", "gpu_nodes_wait_for_jobs"),
    *("gpu_nodes_pod_image", "gpu_nodes_pod_command", "gpu_nodes_pod_namespace"),
    "gpu_nodes_pod_timeout",
    *("gpu_nodes_slurm_controller", "gpu_nodes_slurm_node_name", "gpu_nodes_slurm_timeout"),
    *("gpu_nodes_hooks_before", "gpu_nodes_hooks_after", "gpu_nodes_hooks_failed"),
    *("mig_hooks_before", "mig_hooks_after"),
    *("nvidia_driver_hooks_before", "nvidia_driver_hooks_after"),
    *("gpu_nodes_serial", "mig_serial", "nvidia_driver_serial"),
    *("gpu_nodes_max_unavailable", "gpu_nodes_max_fail_percentage", "repair_max_unavailable"),
    *("gpu_nodes_take_over", "gpu_nodes_take_over_after", "gpu_nodes_hosts"),
    *("gpu_nodes_reboot_timeout", "mig_reboot_timeout", "nvidia_driver_reboot_timeout"),
    *("nvidia_driver_releases", "device_plugin_wheelhouse", "repair_evidence_folder"),
    *("report_html_path", "report_json_path", "report_title"),
    *("validate_junit_path", "validate_json_path"),
    *("fractions_state", "fractions_webhook", "fractions_image", "fractions_certificates"),
    *("fractions_api_servers", "fractions_extended_resource", "fractions_node_policy"),
    *("fractions_device_config", "fractions_hami_schedulers", "fractions_count_alone"),
    "fractions_force",
)
# What the collection's own playbooks give their tasks on the controller.
PARAMETERS = (
    *("__in_service_plan", "__in_service_prepare", "__in_service_apply", "__in_service_finish"),
    "__in_service_change",
    *("__slurm_owner", "__slurm_waits", "__common_kubeconfig", "__device_plugin_package"),
    *("ansible_limit", "inventory_dir", "inventory_hostname", "inventory_hostname_short"),
)
NAMES = (*OPTIONS, *PARAMETERS)


class Unreadable(t.NamedTuple):
    """A variable that can't be rendered without facts, and a sentence that says so."""

    name: str
    text: str


class _NoFacts:
    """A cache of facts in which no node has any."""

    def get(self, _host: str) -> Variables:
        return {}


def hostname(task_vars: t.Mapping[str, t.Any]) -> str:
    """Return the name in the inventory of the host that a task is for.

    A fact may be called ``inventory_hostname``, too. The worker that runs the task knows for whom it does.
    """
    host = getattr(multiprocessing.current_process(), "_host", None)
    return str(host.name if host else task_vars["inventory_hostname"])


def declared_variables(task: t.Any, task_vars: t.Mapping[str, t.Any]) -> Variables:
    """Return the variables of a task without facts, also in ``hostvars``.

    Facts are what nodes say of themselves, and each module's answer may have some. Ansible makes variables of them
    that outrank the inventory, group variables and the defaults of roles.
    """
    manager = copy.copy(task.get_variable_manager())
    manager._fact_cache = _NoFacts()
    HostVars(manager._inventory, manager, task.get_loader())
    variables: Variables = manager.get_vars(
        play=task.get_play(),
        host=manager._inventory.get_host(hostname(task_vars)),
        task=task,
        _hosts=task_vars.get("ansible_play_batch"),
        _hosts_all=task_vars.get("ansible_play_hosts_all"),
    )
    # Where lookups look for files; the executor sets it after the variables were read.
    return {**variables, "ansible_search_path": task_vars.get("ansible_search_path", [])}


def pinned_options(hostvars: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """Return what M(gpu.node.pin_options) has pinned for a host, nothing if it has not run."""
    options: t.Mapping[str, t.Any] = hostvars.get("__pinned", {}).get("options", {})
    return options


def read_options(
    task: t.Any, templar: t.Any, task_vars: t.Mapping[str, t.Any]
) -> t.Tuple[Variables, t.List[Unreadable]]:
    """Return the values of the options that are declared, and those options that can't be rendered without facts."""
    declared = declared_variables(task, task_vars)
    without_facts = templar.copy_with_new_env(available_variables=declared)
    options: Variables = {}
    unreadable = []
    for name in NAMES:
        if name in declared:
            try:
                options[name] = without_facts.template(declared[name])
            except AnsibleError as error:
                text = f"{name}: it can't be read: {str(error).rstrip('.')}"
                unreadable.append(Unreadable(name, text))
    return options, unreadable


def pin(
    task: t.Any, templar: t.Any, task_vars: t.Mapping[str, t.Any]
) -> t.Tuple[Variables, t.List[Unreadable]]:
    """Return a task's variables with these options as they are declared, and those that can't be rendered."""
    options, unreadable = read_options(task, templar, task_vars)
    variables = {name: value for name, value in task_vars.items() if name not in NAMES}
    return {**variables, **options}, unreadable
