# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Set what GPUs want of their host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host
short_description: Set what GPUs want of their host
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Sets what GPUs want of their host besides the driver. What no option asks for is left alone.
  - What is added, and what there was before, is kept in C(/var/lib/gpu-node/host.json), and comes back where an option
    no longer asks for it, or with O(state=absent).
  - The kernel command line is written as its boot loader wants it - by a drop-in of GRUB and C(update-grub) on Debian
    and Ubuntu, by C(grubby) in the RHEL family, by C(pbl) on SUSE, by C(/etc/kernel/cmdline) and C(kernel-install) for
    systemd-boot. It is added to, never replaced. A node that boots some other way is refused, unless it was booted
    with what is asked for.
  - ACS, huge pages, governor, and NUMA balancing hold at once. C(gpu-host.service) sets them again at each boot.
  - Nothing is rebooted. RV(reboot_required) tells that a reboot is needed, and the playbook C(gpu.node.reboot) takes it
    up.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.host
seealso:
  - module: gpu.node.settings
"""

EXAMPLES = r"""
- name: Let GPUs and NICs reach each other without translation
  gpu.node.host:
    iommu: pt

- name: Switch ACS off above GPUs and NICs, and reserve 8 GiB in huge pages
  gpu.node.host:
    acs: disabled
    hugepages: {2M: 4096}

- name: Let programs of containers, jobs, and sessions register all memory with NICs
  gpu.node.host:
    memlock: unlimited

- name: Give back what there was before
  gpu.node.host:
    state: absent
"""

RETURN = r"""
state:
  description: Which state was asked for.
  returned: success
  type: str
iommu:
  description: The IOMMU.
  returned: success
  type: dict
  contains:
    wanted:
      description: What is asked for, empty where nothing is.
      type: str
    in_force:
      description:
        - What the kernel does - V(pt), V(on) where it translates what a GPU reaches, V(off), or V(unknown).
      type: str
    loader:
      description: The boot loader whose command line is written, empty where it is not known or not asked for.
      type: str
values:
  description: The values of the kernel that are asked for or were set, by their files, and ACS by bridges' addresses.
  returned: success
  type: dict
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
restart_required:
  description: The services that still run with a lower limit than O(memlock), which they get at their next start.
  returned: success
  type: list
  elements: str
reboot_required:
  description: Whether something waits for a reboot.
  returned: success
  type: bool
reboot_reasons:
  description: What waits.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.host import SPEC
from ansible_collections.gpu.node.plugins.module_utils._host.capability import HostCapability
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: HostCapability(Host(), module.params),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
