# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cordon and drain a node of a Kubernetes cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drain
short_description: Cordon and drain a node of a Kubernetes cluster
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Cordons a node, evicts the pods that have GPUs or all that can be evicted, and gives the node back.
  - Runs on the controller, which has the kubeconfig; delegate it to V(localhost). It asks the API server alone and
    needs neither kubectl nor the collection C(kubernetes.core), whose drain knows neither GPUs nor who cordoned a
    node; the Python client that both build on is enough.
  - Evictions respect disruption budgets. DaemonSet pods, static pods and finished pods are left, and pods of other
    nodes are never touched.
  - What can be known before is refused before the first change - a kubeconfig that allows too little, a node that is
    not there, pods that nothing would make again.
  - Keeps in the annotation C(gpu.node/cordoned) that it cordoned the node. A run that was killed is taken up by the
    next one, and V(uncordoned) gives back only what this module cordoned.
  - Taints a node whose GPUs are not accepted, and removes that taint again. The kubelet may not change the taints of
    its node, so this needs the kubeconfig, too.
requirements:
  - kubernetes 24 or later on the controller (C(pip install kubernetes))
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.common.drain
attributes:
  check_mode:
    details: Asks the API server as in a run, rights included, and changes nothing.
  diff_mode:
    details: Shows whether the node is schedulable, and the pods that would go.
"""

EXAMPLES = r"""
- name: Drain the node's GPU pods
  gpu.node.drain:
    node: "{{ inventory_hostname }}"
    kubeconfig: ~/.kube/config
    reason: driver upgrade
    wait_for_jobs: 3600
    emptydir: delete
  delegate_to: localhost
  become: false

- name: Keep a failed node cordoned, with the reason
  gpu.node.drain:
    state: cordoned
    node: "{{ inventory_hostname }}"
    kubeconfig: ~/.kube/config
    failure: the driver does not load
  delegate_to: localhost
  become: false

- name: Give the node back
  gpu.node.drain:
    state: uncordoned
    node: "{{ inventory_hostname }}"
    kubeconfig: ~/.kube/config
  delegate_to: localhost
  become: false

- name: Keep pods away until the node's GPUs are accepted
  gpu.node.drain:
    state: held
    node: "{{ inventory_hostname }}"
    kubeconfig: ~/.kube/config
  delegate_to: localhost
  become: false
"""

RETURN = r"""
node:
  description: The node's name in the cluster.
  returned: success
  type: str
  sample: node-1
joined:
  description: Whether the cluster has the node, which only O(state=held) and O(state=admitted) do not ask for.
  returned: success
  type: bool
held:
  description: Whether the node has the taint C(gpu.node/not-accepted:NoSchedule).
  returned: success
  type: bool
cordoned:
  description: Whether the node is unschedulable, no matter who made it so.
  returned: success
  type: bool
cordoned_by_us:
  description: Whether this module made it so.
  returned: success
  type: bool
evicted:
  description: The pods whose eviction was granted, also by a run that failed later; in check mode those that would go.
  returned: always
  type: list
  elements: str
  sample: [training/worker-0]
waited:
  description: The pods that ran to completion while O(wait_for_jobs) was waited.
  returned: always
  type: list
  elements: str
  sample: [training/evaluate-x7k2p]
left:
  description: The pods that a drain leaves on the node, with O(state=drained).
  returned: success
  type: list
  elements: dict
  contains:
    pod:
      description: Namespace and name.
      type: str
    reason:
      description: Why it is left.
      type: str
      sample: DaemonSet
    gpus:
      description: The resources and claims by which it has GPUs.
      type: list
      elements: str
      sample: ["nvidia.com/gpu: 1"]
    opens:
      description: Whether it may have GPUs open without having asked for any, as a DCGM exporter does.
      type: bool
blocked:
  description: The pods that block the drain, and the words of the API server where it forbids an eviction.
  returned: always
  type: list
  elements: dict
  sample: [{"pod": "training/worker-0", "reason": "was asked to end, and the kubelet has not ended it yet"}]
missing_rights:
  description: What the kubeconfig does not allow.
  returned: where rights are missing
  type: list
  elements: str
  sample: [create pods/eviction]
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.capability import (
    DrainCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.drain import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: DrainCapability(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
