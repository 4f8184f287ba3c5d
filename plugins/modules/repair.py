# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say what is wrong with the GPUs of a node, and keep how far their repair is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repair
short_description: Say what is wrong with the GPUs of a node, and record how far their repair is
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Reads the driver's report on each GPU (its recovery action, row remapping, SRAM, the NVLink fabric), and XIDs and
    SXIDs in the kernel's log since the last reset.
  - Reads also which GPUs are not on the bus any more, the fabric manager, the kind of machine, and earlier attempts.
    The result is one verdict for each GPU.
  - Keeps a case for each GPU that is repaired, and a lease, in C(/var/lib/gpu-node/repair.json). Of two runs at a
    time, one has the node.
  - Resets nothing itself. The playbook C(gpu.node.repair) calls this, M(gpu.node.gpu_evidence),
    M(gpu.node.quarantine), and M(gpu.node.gpu_reset) in their order.
  - Signs from before the last start of the node or its driver start nothing. Nothing starts either if the node's clock
    was set back to before what its repairs have written down.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.repair
"""

EXAMPLES = r"""
- name: See what is wrong with the GPUs
  gpu.node.repair:
  register: found

- name: Show what a repair would do
  ansible.builtin.debug:
    msg: "{{ found.lines }}"
"""

RETURN = r"""
next:
  description:
    - What comes next for the node, C(nothing), C(close), C(wait), C(prove), C(reset), or C(reboot); the strongest of
      what comes next for its GPUs.
  returned: where the node is read
  type: str
  sample: reset
work:
  description: What a repair does with the node, with GPUs by their UUIDs.
  returned: where the node is read
  type: dict
  contains:
    next:
      description: The same as RV(next).
      type: str
    works:
      description: Whether anything is done with the node itself.
      type: bool
    cordon:
      description: Whether the node is cordoned.
      type: bool
    together:
      description: Whether several GPUs are reset by one command.
      type: bool
    cases:
      description: GPUs of which a case is kept.
      type: list
      elements: str
    new:
      description: Those of them that have none yet.
      type: list
      elements: str
    fence:
      description: GPUs to be set aside.
      type: list
      elements: str
    reset:
      description: GPUs to be reset.
      type: list
      elements: str
    with_them:
      description: GPUs that are reset with them.
      type: list
      elements: str
    reboot:
      description: GPUs that a reboot is for.
      type: list
      elements: str
    prove:
      description: GPUs that may be given back once they are proved.
      type: list
      elements: str
    close:
      description: GPUs whose case ends, as they are gone.
      type: list
      elements: str
    evict:
      description: Pods that have what is reset, as namespace/name.
      type: list
      elements: str
gpus:
  description:
    - Each GPU with its C(verdict), the C(reasons), what comes C(next), the C(next_step) for a person, and its pods.
  returned: where the node is read
  type: list
  elements: dict
lines:
  description: The same in words, for GPUs and a node of which there is something to tell.
  returned: where the node is read
  type: list
  elements: str
problem:
  description: Why the GPUs can't be judged, such as that no driver is loaded; empty where they are.
  returned: where the node is read
  type: str
refused:
  description: Why nothing may be begun here, such as that the node's clock was set back; empty where it may.
  returned: where the node is read
  type: str
held:
  description: Which run has the node's repair, in words; empty where none has, or where its lease is over.
  returned: where the node is read
  type: str
change:
  description: The change of the node in service that has begun and has not ended, as M(gpu.node.gpu_info) tells it.
  returned: where the node is read
  type: dict
in_repair:
  description: The GPUs with an open case.
  returned: success
  type: list
  elements: str
cases:
  description: The cases by the GPUs' UUIDs, with stage, verdict, reasons, evidence, and attempts.
  returned: success
  type: dict
lease:
  description: Which run has the node's repair, and since when; empty where none has.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.repair import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.bounded import BoundedHost
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._repair.capability import RepairCapability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: RepairCapability(BoundedHost(), module.params))


if __name__ == "__main__":
    main()
