# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that a node works as a GPU node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate
short_description: Check that a node works as a GPU node
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Reads the GPUs and what the device plugin reports of itself, and fails where the driver, a GPU or the device plugin
    does not do its work. Changes nothing.
  - All checks are made, and a failure names each that does not hold, with its cause and the next step.
options:
  gpu_count:
    description: How many GPUs the node must have; V(-1) takes the number of GPUs on its PCI bus.
    type: int
    default: -1
  fail:
    description: Whether the module fails where a check does not hold. With V(false), RV(failed_checks) names them.
    type: bool
    default: true
seealso:
  - module: gpu.node.gpu_info
  - module: gpu.node.device_plugin
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
attributes:
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Check a node that must have eight GPUs
  gpu.node.validate:
    gpu_count: 8

- name: Look without failing
  gpu.node.validate:
    fail: false
  register: node

- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ node.checks | rejectattr('holds') | map(attribute='cause') }}"
"""

RETURN = r"""
checks:
  description: All checks, in their order.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description:
        - What is checked. C(driver), that NVML answers; C(GPUs), that all answer; C(device plugin), that it serves;
          C(MIG at boot), that the layout was made; C(devices), that the device plugin knows the MIG devices.
        - C(CDI), that the specification is kept up to date; C(CDI devices), that it describes the GPUs and MIG devices;
          C(CDI files), that the files in it are there.
        - C(labels), that the node's labels are kept up to date; C(health), that no device is unhealthy.
      type: str
      sample: driver
    holds:
      description: Whether it is so.
      type: bool
    cause:
      description: Why it is not; empty where it is.
      type: str
      sample: "NVML failed while starting NVML: the NVIDIA driver is not loaded"
    next_step:
      description: What to do about it; empty where it holds.
      type: str
      sample: run gpu.node.gpu_nodes
failed_checks:
  description: The names of the checks that do not hold.
  returned: always
  type: list
  elements: str
  sample: [driver, GPUs]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._capability.run import (
    ensure_importable,
    run_capability,
)
from ansible_collections.gpu.node.plugins.module_utils._capability.validate import (
    SPEC,
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._host.api import Host


def main() -> None:
    """Run the module."""
    ensure_importable("pynvml")
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: ValidateCapability(Host(), module.params))


if __name__ == "__main__":
    main()
