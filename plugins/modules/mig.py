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
  - Brings the GPUs of a node to a MIG layout with the fewest changes. Instances that fit it stay where they are, and
    busy ones before idle ones.
  - The plan is made from the profiles and placements that each GPU reports, and refused before the first change if
    the GPUs don't allow it. It asks for every placement explicitly and never relies on the order of creation.
  - GPUs are changed one after the other. When a step fails, the GPU gets its previous layout back; after the steps the
    GPU is read again and compared.
  - Never ends a process, never resets a GPU that is not to change, and never reboots.
  - What a GPU was like before its first change is kept in C(/var/lib/gpu-node/mig.json) on the node.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.mig
attributes:
  check_mode:
    details: Where NVML is not there the layout is checked in form only, and RV(nvml_error) says why.
  diff_mode:
    details: Shows the memory grid of each GPU.
seealso:
  - module: gpu.node.gpu_info
"""

EXAMPLES = r"""
- name: Cut the first GPU in three, leave the others alone
  gpu.node.mig:
    config:
      version: v1
      mig-configs:
        one-cut:
          - devices: [0]
            mig-enabled: true
            mig-devices: {1g.10gb: 2, 3g.40gb: 1}

- name: Give all GPUs the balanced layout, once they are idle
  gpu.node.mig:
    selected: all-balanced
    on_busy: wait
    wait_timeout: 3600

- name: Give back the layouts that were there before
  gpu.node.mig:
    state: absent

- name: Different layouts for different products
  gpu.node.mig:
    config:
      - device-filter: H100 80GB HBM3
        devices: all
        mig-enabled: true
        mig-devices: {1g.10gb: 7}
      - device-filter: "0x20B210DE"
        devices: all
        mig-enabled: false
"""

RETURN = r"""
state:
  description: Which state was asked for.
  returned: success
  type: str
selected:
  description: Name of the layout.
  returned: success
  type: str
chosen_by_label:
  description: Name of the layout that the node's label asked for last and got; empty where it chose none.
  returned: success
  type: str
gpus:
  description: The GPUs of the node.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
    uuid:
      description: UUID.
      type: str
    name:
      description: Product name.
      type: str
    pci_bus_id:
      description: PCI address.
      type: str
    mig_capable:
      description: Whether it can be partitioned.
      type: bool
    mig_enabled:
      description: Whether MIG mode is on.
      type: bool
    mig_pending:
      description: Whether MIG mode is on after the next reset.
      type: bool
    before:
      description: The GPU instances that were there.
      type: list
      elements: dict
    instances:
      description: The GPU instances that are there, with profile, start, and size on the memory grid,
        compute instances and UUIDs of the MIG devices.
      type: list
      elements: dict
    kept:
      description: The instances that stay.
      type: list
      elements: dict
    created:
      description: The instances that were created, in check mode those that would be, without UUIDs.
      type: list
      elements: dict
    destroyed:
      description: The instances that were destroyed, in check mode those that would be.
      type: list
      elements: dict
    steps:
      description: What was planned for this GPU.
      type: list
      elements: dict
    picture:
      description: The memory grid in text.
      type: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
blocked_by:
  description: The processes that block the change, with pod, container, or service, and the pods that were given what
    would go.
  returned: always, but on failures for other reasons
  type: list
  elements: str
refused:
  description: Whether RV(blocked_by) is why a run with O(on_busy=fail) would change nothing now, or has changed
    nothing. It is not there on failures for other reasons, which don't depend on what uses the GPUs.
  returned: success, and where GPUs in use are why nothing was done
  type: bool
nvml_available:
  description: Whether the GPUs could be read. In check mode, where they could not, the layout is checked in form.
  returned: success
  type: bool
nvml_error:
  description: Why not, with the next step. A missing driver and a missing nvidia-ml-py are told apart.
  returned: success
  type: str
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
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import MigCapability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: MigCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
