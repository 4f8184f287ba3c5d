# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse, before anything is touched, what a bring-up would fail at."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Refuse a bring-up that would fail, before anything is changed
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Checks the variables of this collection's roles as the modules behind them would, and MIG layouts against the GPUs
    on the PCI bus.
  - Checks what the node itself must have, such as a container runtime that is recent enough, a Python, and free space.
  - Refuses a node on which another tool's device plugin or driver container is at work.
  - One message has everything that is wrong with a node, by the names of the variables.
  - Returns what M(gpu.node.gpu_info) does, so that one call is enough. A node without an NVIDIA GPU is not checked.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.common.preflight
attributes:
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Check the variables of the play against the node
  gpu.node.preflight:
    components: [driver, mig]
  register: node

- name: Show its GPUs
  ansible.builtin.debug:
    msg: "{{ node.gpu_info.pci_gpus | map(attribute='address') }}"
"""

RETURN = r"""
gpu_info:
  description: What the node has, as M(gpu.node.gpu_info) tells it.
  returned: success
  type: dict
problems:
  description: What blocks the bring-up.
  returned: failure
  type: list
  elements: dict
  contains:
    variable:
      description: The variable to correct, empty where it is the node.
      type: str
    text:
      description: The value, and what was expected.
      type: str
    hint:
      description: The way out, where there is one to tell.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.capability import (
    PreflightCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.preflight import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.room import Room
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: PreflightCapability(Host(), Room(), module.params, root=os.geteuid() == 0),
    )


if __name__ == "__main__":
    main()
