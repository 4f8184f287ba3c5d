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
options:
  state:
    description:
      - V(cordoned) lets no new pod onto the node, V(drained) evicts its pods as well, and V(uncordoned) gives it back.
      - A node that somebody else has cordoned stays cordoned with V(uncordoned), and a warning says so.
    type: str
    choices: [cordoned, drained, uncordoned]
    default: drained
  node:
    description: The node's name in the cluster.
    type: str
    required: true
  kubeconfig:
    description:
      - A kubeconfig on the controller. A relative path is one of the folder that the module runs in, which is that of
        the playbook. C(gpu_nodes_kubeconfig) of the roles is one of the folder that Ansible is started in.
      - Several paths with a colon between them are merged as kubectl merges E(KUBECONFIG). Left empty, that variable
        counts, and then C(~/.kube/config).
    type: str
    default: ""
  context:
    description: The context of the kubeconfig; left empty, its current one.
    type: str
    default: ""
  reason:
    description: Why the node is cordoned, for the annotation.
    type: str
    default: maintenance
  failure:
    description:
      - With O(state=cordoned), why a change of the node has failed. Kept in the annotation C(gpu.node/failed), which
        V(uncordoned) removes.
    type: str
    default: ""
  pods:
    description:
      - Which pods are evicted. V(gpu) means those that asked for a resource of C(nvidia.com/), by limits or requests of
        any container, or have a ResourceClaim that NVIDIA's DRA drivers serve.
    type: str
    choices: [all, gpu]
    default: gpu
  bare_pods:
    description:
      - Pods without a controller are made again by nobody. With V(refuse) nothing is evicted where there are such, as
        with kubectl; V(delete) evicts them too, as C(--force) does.
    type: str
    choices: [refuse, delete]
    default: refuse
  emptydir:
    description:
      - What a pod has in an C(emptyDir) is lost with it. With V(refuse) nothing is evicted where there are such, as
        with kubectl; V(delete) evicts them too, as C(--delete-emptydir-data) does, which kubespray always gives.
    type: str
    choices: [refuse, delete]
    default: refuse
  grace_period:
    description: How many seconds a pod has to end; V(-1) leaves it to each pod. As kubespray's C(drain_grace_period).
    type: int
    default: 300
  timeout:
    description:
      - How many seconds to wait until the pods are gone. As kubespray's C(drain_timeout), but a number.
      - While a disruption budget forbids an eviction or the API server is away, it is asked again and again.
    type: int
    default: 360
  retries:
    description: How many more times O(timeout) is waited. As kubespray's C(drain_retries).
    type: int
    default: 3
  wait_for_jobs:
    description:
      - How many seconds pods that run to completion have to do so, after the cordon and before the first eviction.
        These are the pods of Jobs and those with a C(restartPolicy) of C(Never) or C(OnFailure).
    type: int
    default: 0
requirements:
  - kubernetes 24 or later on the controller (C(pip install kubernetes))
extends_documentation_fragment:
  - gpu.node.attributes
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
"""

RETURN = r"""
node:
  description: The node's name in the cluster.
  returned: success
  type: str
  sample: node-1
cordoned:
  description: Whether the node is unschedulable, whoever made it so.
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
  description: The pods that are in the way of the drain, and the words of the API server where it forbids an eviction.
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
from ansible_collections.gpu.node.plugins.module_utils._capability.drain.capability import (
    SPEC,
    DrainCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._capability.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: DrainCapability(module.params))


if __name__ == "__main__":
    main()
