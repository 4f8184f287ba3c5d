# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report the GPUs of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Report the GPUs of a node
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Reads NVIDIA's devices on the PCI bus, the loaded driver, through NVML the GPUs with their MIG layout and
    processes, and if asked for it, from the kubelet which pods have been given which of them.
  - Works on a bare node too. The result says what can't be read there, which is not an error.
  - Can wait for a node's first boot to be over, so that what comes after it finds the node as it stays.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.common.gpu_info
attributes:
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Read the GPUs
  gpu.node.gpu_info:
  register: node

- name: Show them
  ansible.builtin.debug:
    msg: "{{ node.gpu_info.gpus | map(attribute='name') }}"
"""

RETURN = r"""
gpu_info:
  description: What the node has.
  returned: always
  type: dict
  contains:
    pci_devices:
      description: NVIDIA's devices on the PCI bus.
      type: list
      elements: dict
    pci_gpus:
      description: Those of them that are GPUs, with address, device id and architecture.
      type: list
      elements: dict
    driver:
      description: Version and type (open or proprietary) of the loaded kernel module, none where none is loaded.
      returned: where one is loaded
      type: dict
    change:
      description:
        - The change of a node in service that has begun and has not ended, empty where there is none. The playbook that
          makes it in C(change), the run's controller in C(host), C(user), C(machine), C(pid), and C(process), when it
          has C(begun), in UTC, why it has C(failed), and the marker's SHA-256 in C(digest).
        - A marker of an earlier version has C(change) alone.
      type: dict
    quarantine:
      description:
        - What is in quarantine, as RV(gpu.node.quarantine#module:quarantine) tells it.
      type: dict
    quarantine_error:
      description: Why that is not known, empty where it is.
      type: str
    nvml_available:
      description: Whether NVML answered.
      type: bool
    nvml_error:
      description: Why it did not.
      type: str
    library_version:
      description: Version of the user-space library.
      returned: where NVML answers
      type: str
    cuda_version:
      description: Newest CUDA version that the driver serves.
      returned: where NVML answers
      type: str
    gpus:
      description:
        - The GPUs that answer, with memory in bytes, persistence mode, MIG mode, profiles, instances, devices, and
          processes.
      type: list
      elements: dict
    lost_gpus:
      description: An error for each GPU that does not answer.
      type: list
      elements: str
    missing_gpus:
      description: PCI addresses of GPUs that the node had at its last bring-up, where it has fewer now.
      type: list
      elements: str
    allocated:
      description: What the kubelet has given to pods of the GPUs, with pod, container, and device, if asked for.
      type: list
      elements: str
    allocated_error:
      description: Why that is not known, empty where it is.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_info import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_info.capability import (
    GpuInfoCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: GpuInfoCapability(Host(), module.params))


if __name__ == "__main__":
    main()
