# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reset GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_reset
short_description: Reset GPUs
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Resets GPUs by C(nvidia-smi --gpu-reset), without a reboot of the node.
  - Before the first change it is known whether this kind of machine can reset these GPUs, which others go with them,
    whether a reset can help, and who has them. A machine that no rule knows is refused.
  - What is known to hold GPUs open makes way and comes back, in reverse order, also after a failure. These are
    the services of this collection that advertise GPUs, DCGM that M(gpu.node.dcgm) manages, the services of
    O(stop_services), MPS servers without clients, the kernel module C(nvidia_drm) where nobody uses it, and persistence
    mode of these GPUs. A run that was killed leaves that to the next one, whatever GPUs that is for.
  - After the reset the GPUs are asked again. One that does not come back is an error.
  - Ends no other process, takes no GPU from a pod, and never reboots.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.gpu_reset
attributes:
  check_mode:
    details: Says which GPUs would be reset, what would be stopped, and in RV(blocked_by) who has them.
  diff_mode:
    details: Shows of each GPU what it asks for, and what it has that a reset takes.
  idempotent:
    support: partial
    details: >-
      A reset is an action. With O(reset=when_needed) a GPU that asks for none is left alone, also by a second run.
seealso:
  - module: gpu.node.mig
  - module: gpu.node.settings
"""

EXAMPLES = r"""
- name: Reset the GPUs for which the driver asks for it
  gpu.node.gpu_reset:
    gpus: [all]

- name: Reset one GPU whatever it says, once nobody uses it
  gpu.node.gpu_reset:
    gpus: [GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f]
    reset: always
    on_busy: wait
    wait_timeout: 3600

- name: Reset all GPUs with their NVSwitches, after a fatal SXid
  gpu.node.gpu_reset:
    gpus: [all]
    reset: always
    together: true
    stop_services: [nvsm.service]
"""

RETURN = r"""
reset:
  description:
    - The UUIDs of the GPUs that were reset and came back. Where a run failed and it is not there, no reset was tried.
  returned: success, and where a reset was tried and failed
  type: list
  elements: str
not_reset:
  description: The UUIDs of those that did not come back.
  returned: where one did not
  type: list
  elements: str
together:
  description: The UUIDs of the GPUs that the reset would take too.
  returned: where O(together=false) is why nothing was done
  type: list
  elements: str
lost:
  description:
    - By UUID, what a GPU had before its reset and has no more, C(mig_devices), C(compute_mode), C(power_limit) in
      watts, C(accounting), or C(persistence). A GPU that lost nothing is not there. NVML does not report locked clocks.
    - M(gpu.node.mig) makes MIG instances again, M(gpu.node.settings) sets the rest.
  returned: success
  type: dict
gpus:
  description: The GPUs of O(gpus).
  returned: success
  type: list
  elements: dict
  contains:
    uuid:
      description: UUID, or the PCI address where the driver does not tell it.
      type: str
    index:
      description: NVML's index, none where it does not tell.
      type: int
    pci_bus_id:
      description: PCI address.
      type: str
    serial:
      description: Serial number, empty where there is none.
      type: str
    asked_for:
      description: What the GPU and the driver asked for before, in words.
      type: list
      elements: str
    asks_for:
      description: What they ask for now.
      type: list
      elements: str
    rule:
      description: How this kind of machine resets the GPU.
      type: str
    used_by:
      description: What had the GPU when the module wanted to reset it.
      type: list
      elements: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
blocked_by:
  description: >-
    The processes that have one of the GPUs, with pod, container, or service, and the pods that were given one.
  returned: always, but on failures for other reasons
  type: list
  elements: str
refused:
  description: >-
    Whether RV(blocked_by) is why a run with O(on_busy=fail) would change nothing now, or has changed nothing.
  returned: success, and where GPUs in use are why nothing was done
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_reset import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._repair.reset.capability import (
    GpuResetCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: GpuResetCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
