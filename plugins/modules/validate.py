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
  - Reads the driver, the GPUs, what container runtimes make of them and what the device plugin and the kubelet report,
    and fails where something of it does not do its work.
  - All checks are made, and a failure names each that does not hold, with its cause and the next step. What is not set
    up on the node is skipped, with the reason.
  - A container is started by each runtime that is set up for CDI, and is gone with all that belongs to it when the
    module ends. No image is pulled. Nothing else on the node is touched.
seealso:
  - module: gpu.node.gpu_info
  - module: gpu.node.device_plugin
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.validate
attributes:
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Check a node that must have eight GPUs
  gpu.node.validate:
    gpu_count: 8

- name: Check without failing
  gpu.node.validate:
    fail: false
  register: node

- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ node.checks | rejectattr('holds') | map(attribute='cause') }}"

- name: Check a node for Slurm, which has no device plugin
  gpu.node.validate:
    components: [driver, mig]
    driver_version: "580"
"""

RETURN = r"""
checks:
  description:
    - All checks, in their order. docs/operations/validation.md of the collection lists them with causes and next steps.
    - The list has the same names on each node, but for those that begin with the name of a container runtime.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: What is checked.
      type: str
      sample: driver
    state:
      description: V(passed), V(failed), V(warning), or V(skipped).
      type: str
      sample: failed
    holds:
      description: Whether nothing is wrong; false for V(failed) alone.
      type: bool
    cause:
      description: Why it fails or is a warning, or why it was skipped; empty where it passed.
      type: str
      sample: "NVML failed while starting NVML: the NVIDIA driver is not loaded"
    next_step:
      description: What to do about it; empty if nothing is wrong.
      type: str
      sample: run gpu.node.gpu_nodes
failed_checks:
  description: The names of the checks that fail.
  returned: always
  type: list
  elements: str
  sample: [driver, GPUs]
failure:
  description: A line for each check that fails, empty where none does.
  returned: always
  type: str
  sample: "labels: nothing keeps the node's labels up to date. Next step: see the log of gpu-node-labels.service"
summary:
  description: Whether the node is ready, and what it has.
  returned: always
  type: str
  sample: ready, 4 GPUs, 16 MIG devices, 16 devices advertised
lines:
  description: The names of the checks, a line for each state, with the reasons of those that were skipped.
  returned: always
  type: list
  elements: str
  sample: ["passed: driver, GPUs", "skipped: MIG (no MIG layout is declared)"]
seconds:
  description: How long the checks took.
  returned: always
  type: float
  sample: 2.4
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.capability import (
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.validate import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.bounded import BoundedHost
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: ValidateCapability(BoundedHost(), module.params))


if __name__ == "__main__":
    main()
