# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/common.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/common.yml."""

    PREFLIGHT = r"""
options:
  variables:
    description:
      - Variables of the roles by name. Left out, they are taken from the play.
    type: dict
    default: {}
  components:
    description: The components of the bring-up that are still to come.
    type: list
    elements: str
    choices: [host, driver, runtime, toolkit, mig, settings, cdi, device_plugin, labels, dcgm, accept, validate]
    default: [host, driver, runtime, toolkit, mig, settings, cdi, device_plugin, labels, dcgm, accept, validate]
  cloud_init_timeout:
    description:
      - How many seconds to wait for C(cloud-init) if it is at work on a node with GPUs. V(0) does not wait.
    type: int
    default: 0
  refused:
    description: What the controller has refused already. Set by the action plugin.
    type: list
    elements: dict
    default: []
"""

    PLAN = r"""
options:
  variables:
    description:
      - Variables of the roles by name. Left out, they are taken from the play, with the defaults of the roles.
    type: dict
    default: {}
  components:
    description: The components of the bring-up that are still to come.
    type: list
    elements: str
    choices: [host, driver, runtime, toolkit, mig, settings, cdi, device_plugin, labels, dcgm, accept, validate]
    default: [host, driver, runtime, toolkit, mig, settings, cdi, device_plugin, labels, dcgm, accept, validate]
  cloud_init_timeout:
    description:
      - How many seconds to wait for C(cloud-init) if it is at work on a node with GPUs. V(0) does not wait.
    type: int
    default: 0
  refused:
    description: What the controller has refused already. Set by the action plugin.
    type: list
    elements: dict
    default: []
  daemon:
    description: The release of the device plugin that the controller has. Set by the action plugin.
    type: dict
    suboptions:
      digest: {description: What names it., type: str, default: ""}
      units: {description: "Texts of its units, by their names.", type: dict}
  parts:
    description: Which of the components are planned. Left out, all that are wanted.
    type: list
    elements: str
    choices: [environment, host, driver, toolkit, runtime, mig, settings, cdi, device_plugin, dcgm, accept]
  validate:
    description:
      - Whether a node that needs no change is validated as M(gpu.node.validate) does, with the variables of the role
        C(validate).
    type: bool
    default: false
  status:
    description:
      - Whether RV(status) is told too, for a report on the node, which takes some tenths of a second.
    type: bool
    default: false
"""

    GPU_INFO = r"""
options:
  allocated:
    description: Whether to ask the kubelet too, which takes some tenths of a second.
    type: bool
    default: false
  cloud_init_timeout:
    description:
      - How many seconds to wait until C(cloud-init) is done, where it is at work on a node with GPUs. V(0) does not
        wait.
      - Errors that its run of this boot has ended with are a warning.
    type: int
    default: 0
"""

    DRAIN = r"""
options:
  state:
    description:
      - V(cordoned) lets no new pod onto the node, V(drained) evicts its pods as well, and V(uncordoned) gives it back.
        V(evicted) evicts the pods in O(names) alone and leaves the node as it is.
      - A node that somebody else has cordoned stays cordoned with V(uncordoned), and a warning says so.
      - V(held) gives the node the taint C(gpu.node/not-accepted:NoSchedule), and V(admitted) removes it. Neither
        changes another taint, nor fails where the node is not in the cluster yet.
    type: str
    choices: [cordoned, drained, uncordoned, evicted, held, admitted]
    default: drained
  node: {description: The node's name in the cluster., type: str, required: true}
  kubeconfig:
    description:
      - A kubeconfig on the controller. A relative path is one of the folder that the module runs in, which is that of
        the playbook. C(gpu_nodes_kubeconfig) of the roles is one of the folder that Ansible is started in.
      - Several paths with a colon between them are merged as kubectl merges E(KUBECONFIG). Left empty, that variable
        counts, and then C(~/.kube/config).
    type: str
    default: ""
  context: {description: "The context of the kubeconfig; left empty, its current one.", type: str, default: ""}
  reason: {description: "Why the node is cordoned, for the annotation.", type: str, default: maintenance}
  failure:
    description:
      - With O(state=cordoned), why a change of the node has failed. Kept in the annotation C(gpu.node/failed), which
        V(uncordoned) removes.
    type: str
    default: ""
  quarantine:
    description:
      - With O(state=cordoned), whether the node is set aside until somebody releases it. O(reason) is kept in the
        annotation C(gpu.node/quarantined), and a node that has it stays cordoned with O(state=uncordoned).
      - With O(state=uncordoned), whether that ends. A node of which a change has failed stays cordoned.
    type: bool
    default: false
    version_added: 0.2.0
  patient:
    description:
      - Whether an API server that does not answer is asked again from the first request on, for as long as O(timeout)
        and O(retries) say. By default it is only after the first change, and a check never waits.
    type: bool
    default: false
    version_added: 0.2.0
  pods:
    description:
      - Which pods are evicted. V(gpu) means those that asked for a resource of C(nvidia.com/), by limits or requests of
        any container, or have a ResourceClaim that NVIDIA's DRA drivers serve.
    type: str
    choices: [all, gpu]
    default: gpu
  names:
    description:
      - With O(state=evicted), the pods that are evicted, or the ResourceClaims whose pods are, as namespace/name.
        O(pods) is ignored then.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
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
"""

    VALIDATE_PODS = r"""
options:
  node: {description: The node's name in the cluster., type: str, required: true}
  kubeconfig: {description: "A kubeconfig on the controller, as in M(gpu.node.drain).", type: str, default: ""}
  context: {description: "The context of the kubeconfig; left empty, its current one.", type: str, default: ""}
  image:
    description:
      - The image of the pods, which the node has or can pull. Any image works that runs as an unprivileged user, such
        as Kubernetes' C(pause).
    type: str
    required: true
  command:
    description:
      - What the pods run, such as V(nvidia-smi), which must end with status 0. Left empty, they run what the image has,
        and a pod that runs is enough.
    type: list
    elements: str
    default: []
  namespace: {description: Where the pods are made., type: str, default: default}
  timeout: {description: "How many seconds the pods have, pulling the image included.", type: int, default: 120}
  fail:
    description: Whether the module fails where a pod does not run. With V(false), RV(failed_checks) names those.
    type: bool
    default: true
"""

    CLUSTER_OBJECTS = r"""
options:
  state:
    description:
      - With V(absent), those of O(objects) are removed that this module has applied. What others have made stays, with
        a warning, and so does a Namespace, in which others may have something.
    type: str
    choices: [present, absent]
    default: present
  objects:
    description:
      - Objects, and Lists of objects, in the order in which they are made. Of two of one name the later one counts.
    type: list
    elements: dict
    required: true
  kubeconfig: {description: "A kubeconfig on the controller, as in M(gpu.node.drain).", type: str, default: ""}
  context: {description: "The context of the kubeconfig; left empty, its current one.", type: str, default: ""}
  field_manager:
    description: The name by which the server keeps which fields are set here.
    type: str
    default: gpu-node
  force: {description: Whether fields are taken over that others have set to other values., type: bool, default: false}
  label: {description: "The label, as C(key=value), of what O(prune) removes.", type: str, default: ""}
  prune:
    description:
      - Kinds, as C(version/Kind), of which objects are removed that have O(label), were applied by O(field_manager),
        and are no longer in O(objects).
    type: list
    elements: str
    default: []
"""
