# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observe a node once, and plan every component of its bring-up."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Observe a node once, and plan every component of its bring-up
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Refuses what M(gpu.node.preflight) does. Then plans each component of the bring-up in one process, as its own module
    does, against the variables of this collection's roles.
  - Changes nothing. It never reports a change; RV(drift) names the components that are not as declared.
  - Answers what M(gpu.node.gpu_info) does. A node without an NVIDIA GPU is not planned.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.common.plan
"""

EXAMPLES = r"""
- name: Plan what the play declares
  gpu.node.plan:
  register: node

- name: Fail where the node has drifted
  ansible.builtin.fail:
    msg: "{{ node.lines | join('; ') }}"
  when: node.drift | length > 0
"""

RETURN = r"""
gpu_info:
  description: What the node has, as M(gpu.node.gpu_info) tells it.
  returned: success
  type: dict
drift:
  description: The names of the components that have steps.
  returned: success
  type: list
  elements: str
  sample: [mig]
calls:
  description:
    - The names of the components whose modules a run has to call, those that have something to do, to wait for or to
      refuse, and those that a change of one before them may concern.
  returned: success
  type: list
  elements: str
  sample: [mig, cdi, device_plugin]
parts:
  description: The components that are wanted, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: >-
        The component, one of V(environment), V(driver), V(toolkit), V(runtime), V(mig), V(cdi), V(device_plugin), and
        V(dcgm). The environment is that of the device plugin, which MIG and CDI need as well.
      type: str
    steps:
      description: What would be done, each with its action, a summary and what it takes from the node.
      type: list
      elements: dict
    warnings:
      description: What the module would warn of.
      type: list
      elements: str
    reboot_required:
      description: Whether the node needs a reboot.
      type: bool
    reboot_reasons:
      description: Why.
      type: list
      elements: str
    restart_required:
      description: Units that need a restart.
      type: list
      elements: str
    blocked_by:
      description: Who blocks it.
      type: list
      elements: str
    error:
      description:
        - Why the module would refuse as the node is now, with C(msg), C(cause), and C(hint), and in C(until) what a run
          does before that may take it away.
      type: dict
    later:
      description: What has to come before, where the plan can only be known once it has; else empty.
      type: str
    diff:
      description: What would change, in diff mode, with before, after, and prepared.
      type: dict
    result:
      description: What else the module answers.
      type: dict
lines:
  description: All of it in words, a line for each step.
  returned: success
  type: list
  elements: str
  sample: ["mig: GPU 0: would create 1g.10gb at placement 0:1"]
refused:
  description: Why a run would fail, whatever it changes before; C(gpu.node.gpu_nodes) does not begin then.
  returned: success
  type: list
  elements: str
validation:
  description: The result of M(gpu.node.validate), if it was asked for and nothing would change; else empty.
  returned: success
  type: dict
status:
  description:
    - The node's state besides its GPUs and its plan, where it was asked for; else empty. What could not be read is
      empty, and its C(problem) or RV(status.allocations_unknown) says why.
  returned: with O(status=true)
  type: dict
  contains:
    host:
      description: The operating system and the running kernel, with C(system) and C(kernel).
      type: dict
    driver:
      description:
        - The loaded driver with C(version), C(type), and C(support), C(security), and C(releases) as the module
          M(gpu.node.nvidia_driver) tells them. Empty where none is loaded.
      type: dict
    daemon:
      description:
        - The device plugin's C(state), C(problem), and C(registration_problem), and how many C(devices) of each of its
          C(resources) it has, how many are C(healthy), and whether the kubelet has C(registered) them.
      type: dict
    faults:
      description:
        - The GPUs and MIG instances that are unhealthy, each with C(gpu), C(gi), C(ci), C(kind), C(reason), C(xid),
          C(since) in seconds since 1970, C(way_back), C(clearable), and C(verdict).
      type: list
      elements: dict
    unreadable:
      description: Why GPUs can't be read that never were.
      type: list
      elements: str
    labels:
      description: The C(state), C(problem), and C(labels) of the service that labels the node.
      type: dict
    mig_boot:
      description: The C(state) and the C(problems) of the MIG layout's last making at boot.
      type: dict
    processes:
      description:
        - The processes that have a GPU, each with C(pid), C(name), C(pod), C(container), C(unit), C(gpu), C(gi_id), and
          C(ci_id).
      type: list
      elements: dict
    allocations:
      description:
        - What pods and claims were given, each with C(namespace), C(pod), C(container), C(resource), C(device), and
          C(places). A claim has no container.
      type: list
      elements: dict
    allocations_unknown:
      description: Why that is not known.
      type: str
    cases:
      description:
        - The GPU repairs that the node has kept, each with C(gpu), C(serial), C(pci), whether it is C(open), its
          C(verdict) and C(reasons), and C(since) in seconds since 1970.
        - Also its C(stage), its C(attempts) with C(action), C(at), and C(result), the path of its C(evidence), and what
          comes C(next).
      type: list
      elements: dict
    cases_unknown:
      description: Why they are not known.
      type: str
    acceptance:
      description:
        - The GPUs whose last load test by M(gpu.node.accept) found faults, in C(faulty), and those that were not tested
          as they are, in C(untested), both with the reason. C(unknown) is why that is not known.
          C(held) is what the gate of the node holds, and C(override) why an operator has let GPUs in.
        - In C(gpus) each GPU of a node that was tested, with C(gpu), its C(state), which is V(accepted), V(failed), or
          V(untested), and the C(reason) why it is not accepted as it is. Also the C(verdict), C(level), C(board),
          C(driver), C(faults), and C(figures) of its last test, and when that was in C(at), in seconds since 1970.
      type: dict
    kernel_log:
      description:
        - Why faults in the kernel's log are not known, such as how many lines about XIDs can't be read, with one of
          them.
      type: list
      elements: str
    reboot:
      description: Why the node waits for a reboot, besides what RV(parts[].reboot_reasons) has.
      type: list
      elements: str
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
from ansible_collections.gpu.node.plugins.module_utils._checks.plan.capability import PlanCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.plan import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.room import Room
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: PlanCapability(
            Host(),
            Room(),
            module.params,
            root=os.geteuid() == 0,
            check_mode=module.check_mode,
            shows_difference=module._diff,
        ),
    )


if __name__ == "__main__":
    main()
