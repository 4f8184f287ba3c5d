# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Set GPUs or a node aside, with a reason, until somebody releases them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quarantine
short_description: Set GPUs or a node aside, with a reason, until somebody releases them
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Keeps in C(/var/lib/gpu-node/quarantine.json) which GPUs nobody gets, or that nobody gets a GPU of the node, with
    the reason, a ticket, who said so, and since when.
  - From that moment on, the device plugin advertises such a GPU, its MIG devices, and its shares as unhealthy, and the
    DRA driver taints them with C(gpu.node/quarantined). Neither is restarted. A container that has the GPU keeps it.
  - It stays so over reboots, upgrades, and other runs of the collection, for as long as the file says so.
  - The quarantine belongs to the GPU, whatever slot it is in. A warning names a GPU that is in another slot, and
    another GPU in its slot.
notes:
  - Slurm and Docker don't ask for the file. There, take the node out of service.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.quarantine
"""

EXAMPLES = r"""
- name: Set a GPU aside
  gpu.node.quarantine:
    gpus: [3]
    reason: XID 79 twice in a week
    ticket: OPS-1234

- name: Set one aside that has fallen off the bus
  gpu.node.quarantine:
    gpus: ["0000:3b:00.0"]
    reason: fell off the bus

- name: Give it back
  gpu.node.quarantine:
    state: absent
    gpus: [GPU-e4abf0db-0482-5b2d-9b46-bef34bc9e8ce]
"""

RETURN = r"""
quarantine:
  description: Everything in quarantine; in check mode everything that would be.
  returned: success
  type: dict
  contains:
    gpus:
      description:
        - By UUID, who set it aside (C(by)), the C(reason), the C(ticket) and C(since) when, with the C(serial) number
          and C(pci) address that it had then.
      type: dict
    node:
      description: The same of the node, without its last two; none where it is not set aside.
      type: dict
gpus:
  description: UUIDs of the GPUs that O(gpus) names.
  returned: success
  type: list
  elements: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.quarantine import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._repair.quarantine.capability import (
    QuarantineCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: QuarantineCapability(Host(), module.params))


if __name__ == "__main__":
    main()
