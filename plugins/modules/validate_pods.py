# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a pod with each GPU resource of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_pods
short_description: Run a pod with each GPU resource of a node
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Has the scheduler put one pod on the node for each resource of C(nvidia.com/) that it has allocatable, has the
    kubelet run them, and removes them again. Failures are reported in the words of scheduler, kubelet, and runtime.
  - On a node with DRA (the label C(gpu.node/allocation)), there is also a pod with a claim for each of the classes
    C(gpu.gpu.node), C(mig.gpu.node), and C(share.gpu.node) of which it publishes devices, one after the other.
  - Runs on the controller, which has the kubeconfig; delegate it to V(localhost).
  - The pods go onto a node that is cordoned or tainted too, so that it can be tested before it is given back. A
    resource of which pods have all is skipped. The next run removes what a killed run left behind.
  - Nothing else is changed.
requirements:
  - kubernetes 24 or later on the controller (C(pip install kubernetes))
seealso:
  - module: gpu.node.validate
  - module: gpu.node.drain
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.common.validate_pods
attributes:
  check_mode:
    details: Asks the API server for rights and resources, and makes no pod.
  diff_mode:
    support: none
"""

EXAMPLES = r"""
- name: Run a pod with each resource
  gpu.node.validate_pods:
    node: "{{ inventory_hostname }}"
    kubeconfig: ~/.kube/config
    image: registry.example.com/cuda:13.0-base
    command: [nvidia-smi, -L]
  delegate_to: localhost
  become: false
"""

RETURN = r"""
checks:
  description: A check for each resource.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name.
      type: str
      sample: pod with nvidia.com/gpu
    state:
      description: V(passed), V(failed), or V(skipped) where no pod was made.
      type: str
    holds:
      description: Whether nothing is wrong.
      type: bool
    cause:
      description: Why it failed or was skipped.
      type: str
    next_step:
      description: What to do.
      type: str
failed_checks:
  description: The names of the checks that failed.
  returned: always
  type: list
  elements: str
failure:
  description: A line for each check that failed, empty where none did.
  returned: always
  type: str
allocatable:
  description: How many of each resource the node advertises.
  returned: always
  type: dict
  sample: {nvidia.com/gpu: 8}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods.capability import (
    ValidatePodsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.validate_pods import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module, lambda: ValidatePodsCapability(module.params, check_mode=module.check_mode)
    )


if __name__ == "__main__":
    main()
