# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Partition GPUs with MIG."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mig
short_description: Partition GPUs with MIG
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Brings the GPUs of a node to a MIG layout with the fewest changes. Instances that fit it stay where they are.
  - The plan is made from what each GPU reports, and refused before the first change when it cannot be carried out.
  - When a step fails, the GPU gets its previous layout back.
options:
  config:
    description:
      - A mig-parted configuration, version C(v1).
      - Besides indices, C(devices) takes UUIDs and PCI addresses.
    type: dict
  selected:
    description:
      - The layout to apply. May be left out where O(config) has exactly one.
      - Without O(config), V(all-disabled), V(all-balanced) or V(all-) with a profile of the GPUs.
    type: str
    default: ""
requirements:
  - nvidia-ml-py on the node; C(/opt/gpu-node), made by M(gpu.node.device_plugin), has it.
extends_documentation_fragment:
  - gpu.node.attributes
attributes:
  check_mode:
    support: full
    details: On a node without a driver the layout is checked in form only.
  diff_mode:
    support: full
    details: Shows the memory grid of each GPU.
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
"""

EXAMPLES = r"""
- name: Cut the first GPU in three, leave the others whole
  gpu.node.mig:
    config:
      version: v1
      mig-configs:
        one-cut:
          - devices: [0]
            mig-enabled: true
            mig-devices: {1g.10gb: 2, 3g.40gb: 1}

- name: Give all GPUs the balanced layout
  gpu.node.mig:
    selected: all-balanced
"""

RETURN = r"""
selected:
  description: Name of the layout.
  returned: success
  type: str
gpus:
  description: The GPUs with their instances.
  returned: success
  type: list
  elements: dict
kept:
  description: How many instances stay where they are.
  returned: success
  type: int
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
reboot_required:
  description: Whether a change waits for a reset or a reboot.
  returned: success
  type: bool
reboot_reasons:
  description: The changes that wait.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._host.real import LocalHost
from ansible_collections.gpu.node.plugins.module_utils._module.interpreter import ensure_importable
from ansible_collections.gpu.node.plugins.module_utils._module.mig import SPEC, MigCapability
from ansible_collections.gpu.node.plugins.module_utils._module.run import run_capability


def main() -> None:
    """Run the module."""
    ensure_importable("pynvml")
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module, lambda: MigCapability(LocalHost(), module.params, check_mode=module.check_mode)
    )


if __name__ == "__main__":
    main()
