# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/validate.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/validate.yml."""

    DOCUMENTATION = r"""
options:
  gpu_count:
    description:
      - How many GPUs the node must have. V(-1) takes the number of GPUs on its PCI bus, and reports those that it had
        at its last bring-up as missing.
    type: int
    default: -1
  containers: {description: Whether containers are started., type: bool, default: true}
  cuda:
    description:
      - Whether two vectors are added on a GPU or MIG device that no process and no pod has, in a container if the node
        has a runtime. If all are in use, the check is skipped.
      - Where MPS shares a device, whether a client with a share that no pod has works within the share's limits.
    type: bool
    default: true
  wait_timeout:
    description:
      - How many seconds to check again if everything that fails may still be under way, such as a registration with the
        kubelet.
    type: int
    default: 15
  driver_version:
    description: The driver version that must be loaded, or its branch, such as V(580); by default any.
    type: str
    default: ""
  driver_source:
    description: Where the driver comes from, as the option O(gpu.node.nvidia_driver#module:source).
    type: str
    default: ""
  components:
    description:
      - The components that the node must have. Checks of others are skipped.
      - An empty list, or one with all of them, stands for the components that are set up on the node.
    type: list
    elements: str
    choices: [host, driver, runtime, toolkit, mig, settings, cdi, device_plugin, labels, dcgm, accept, validate]
    default: []
  runtime:
    description:
      - The container runtime that must read the CDI specification if O(components) names V(runtime), as the option
        O(gpu.node.container_runtime#module:name). Another one need not, unless gpu.node has set it up.
    type: str
    default: auto
  allocation:
    description:
      - What must give out the node's GPUs, as the option O(gpu.node.device_plugin#module:allocation). By default either
        may.
    type: str
    choices: ["", device_plugin, dra, both]
    default: ""
  require_kubelet:
    description: Whether it is an error that no kubelet has registered the GPUs yet. Without it, that is a warning.
    type: bool
    default: false
  change:
    description:
      - The change of a node in service that this validation belongs to, by its playbook's name. If another change has
        begun on the node and has not ended, a check fails.
    type: str
    default: ""
  set_aside_may_be_missing:
    description:
      - Whether a GPU in quarantine that does not answer, or is not on the PCI bus any more, is a warning. A repair
        proves the other GPUs of the node so. Without it, a check fails.
    type: bool
    default: false
  fail:
    description: Whether the module fails if a check fails. With V(false), RV(failed_checks) names the checks.
    type: bool
    default: true
"""
