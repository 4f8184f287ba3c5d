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
  - The plan is made from the profiles and placements that each GPU reports, and refused before the first change when
    it cannot be carried out. It asks for every placement explicitly and never relies on the order of creation.
  - GPUs are changed one after the other. When a step fails, the GPU gets its previous layout back; after the steps the
    GPU is read again and compared.
  - Never ends a process, never resets a GPU that is not to change, and never reboots.
  - What a GPU was like before its first change is kept in C(/var/lib/gpu-node/mig.json) on the node.
options:
  state:
    description:
      - V(absent) gives each GPU back the MIG mode and the instances, at their places, that it had before the first
        change, and removes what makes a layout again at boot. O(config) and O(selected) are not looked at.
      - A GPU that was never changed is left alone. So is one on which somebody else has made instances since, with a
        warning that names them.
    type: str
    choices: [present, absent]
    default: present
    version_added: 0.2.0
  config:
    description:
      - A mig-parted configuration, version C(v1); its C(mig-configs) alone; or one list of entries.
      - Besides indices, C(devices) takes UUIDs and PCI addresses, and C(device-filter) takes product names.
      - Where several entries match a GPU, the last one counts. A GPU that no entry matches is left alone.
      - A profile with a C(c) part, such as C(1c.3g.40gb), is a compute instance. As many as fit share a GPU instance.
    type: raw
  selected:
    description:
      - The layout to apply. May be left out where O(config) has exactly one.
      - Also V(all-disabled), V(all-balanced) or V(all-) with a profile of the GPUs, with or without O(config).
        In such a name a point may stand for the plus of a profile, as in V(all-1g.10gb.me).
    type: str
    default: ""
  on_busy:
    description:
      - What to do about a GPU where a process is in the way, or a pod that was given what would go.
      - V(fail) changes nothing on any GPU. V(skip) leaves out the GPUs concerned, with a warning.
        V(wait) waits for O(wait_timeout) before the first change, and then fails.
      - There is no going on under a process, as M(gpu.node.nvidia_driver) has it. The driver destroys nothing that a
        process is on.
      - In check mode the plan for idle GPUs is returned with V(fail) and V(wait), with RV(blocked_by) and RV(refused).
        A layout that cannot be made at all fails there as well.
    type: str
    choices: [fail, skip, wait]
    default: fail
  reset:
    description:
      - Whether to reset a GPU whose MIG mode waits for it, once no process is on it. No other GPU is reset.
      - With V(never) the return value RV(reboot_required) says so.
    type: str
    choices: [never, when_idle]
    default: never
  boot:
    description:
      - Whether C(gpu-mig.service) makes the layout again at boot, before the kubelet and whatever else uses GPUs.
        No GPU keeps its instances over a reboot, and Hopper and later lose MIG mode as well.
      - V(false) removes the unit and its file.
    type: bool
    default: true
  by_label:
    description:
      - Whether the node's label C(nvidia.com/mig.config) may name another layout of O(config), as with NVIDIA's
        mig-manager. Whoever may label the node chooses then, of these layouts and no others, and only GPUs that the
        layout names are changed. Needs O(boot), and the labels of M(gpu.node.device_plugin).
      - What the label chose counts instead of O(selected), here and at boot, as long as the label is there. It is
        made once nothing is in use that would go, and C(nvidia.com/mig.config.state) says how it went.
      - O(selected) may be empty with several layouts; then nothing is changed before a label asks.
    type: bool
    default: false
  lock_timeout:
    description: Seconds to wait for another run on the same node.
    type: int
    default: 60
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.in_use
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
      description: The GPU instances that are there, with profile, start and size on the memory grid,
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
  description: The processes that are in the way, with pod, container or service, and the pods that were given what
    would go.
  returned: always, but on failures for other reasons
  type: list
  elements: str
refused:
  description: Whether RV(blocked_by) is why a run with O(on_busy=fail) would change nothing now, or has changed
    nothing. It is not there on failures for other reasons, which are the same whoever uses the GPUs.
  returned: success, and where GPUs in use are why nothing was done
  type: bool
nvml_available:
  description: Whether the GPUs could be looked at. In check mode, where they could not, the layout is checked in form.
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
from ansible_collections.gpu.node.plugins.module_utils._capability.mig.capability import (
    SPEC,
    MigCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._capability.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._host.api import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module, lambda: MigCapability(Host(), module.params, check_mode=module.check_mode)
    )


if __name__ == "__main__":
    main()
