# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/device_plugin.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/device_plugin.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(installed) makes the environment alone, which the other modules use too.
      - V(stopped) stops the service, also at boot, and the MPS control daemons, and keeps everything.
      - Neither that nor V(absent) ends clients of MPS, unless the configuration says so with C(onBusy=terminate).
      - V(absent) removes everything that this module makes, and the packages of the distribution that it installed for
        virtual environments, unless others need them by now.
    type: str
    choices: [absent, installed, started, stopped]
    default: started
  wheelhouse:
    description:
      - A folder of wheels on the controller. With it the node needs no package index.
      - It is refused where it has a source archive, or a wheel that C(requirements.txt) does not list.
    type: path
  index_url:
    description:
      - The package index to use, by default pip's own default. That of C(pip.conf) or C(PIP_INDEX_URL) on the node is
        not used.
      - It may hold a user and a password, which appear in no command line, message, or log.
      - A certificate authority of your own belongs in the node's own store, or in a file that C(REQUESTS_CA_BUNDLE)
        names.
    type: str
  python:
    description: The Python to make it with; by default C(python3), or else the newest on the node, of 3.10 to 3.14.
    type: path
  install_python:
    description:
      - Whether the newest Python of 3.10 to 3.14 in the node's repositories is installed in addition to the system's
        own if the node has none. RHEL 8 and 9, Amazon Linux 2023, and SLES 15 have such packages; Debian and Ubuntu
        don't.
      - It stays with O(state=absent), as Ansible may be using it itself by then.
    type: bool
    default: false
  config: {description: "The device plugin's configuration, in the v1 schema of NVIDIA's device plugin.", type: dict}
  configs:
    description:
      - Configurations by name. The one that the node's label C(nvidia.com/device-plugin.config) names is used, and
        without the label O(config), whose name is V(default). Needs O(labels).
    type: dict
    default: {}
  labels:
    description:
      - How the node is labelled with what its GPUs are. Without this option labels stay as they are.
    type: dict
    suboptions:
      output:
        description:
          - V(api) writes the labels of the node's object, V(file) a file for Node Feature Discovery, and
            V(node-feature) a NodeFeature object.
          - V(off) removes the labels that were written.
        type: str
        choices: [api, file, node-feature, "off"]
        default: api
      kubeconfig:
        description:
          - Access to the Kubernetes API. By default that of the kubelet.
          - Give each node one of its own, as C(files/kubernetes/node-labels-rbac.yaml) has it, or each can label all
            others.
        type: str
        default: ""
      node_name:
        description: The node's name in the cluster. By default that of the kubelet's certificate, or of the host.
        type: str
        default: ""
      namespace: {description: Where NodeFeature objects go. By default V(default)., type: str, default: ""}
      extra:
        description: Labels to add.
        type: dict
        default: {}
      default_config:
        description: Which of O(configs) a node gets if its label names none. By default O(config).
        type: str
        default: ""
      events:
        description: Whether an Event of the node is written when the health of a GPU changes and the API is used.
        type: bool
        default: true
      condition:
        description: Whether the node's condition C(GPUHealthy) is kept, also if O(labels.output) is V(off).
        type: bool
        default: false
      mig_by_label:
        description:
          - Whether the node's label C(nvidia.com/mig.config) is passed on to what O(gpu.node.mig#module:by_label) has
            set up, and answered, also where O(labels.output) is V(off).
        type: bool
        default: false
  wait_timeout: {description: Seconds to wait for the device plugin and the kubelet., type: int, default: 60}
  lock_timeout:
    description: Seconds to wait for another package manager, and for another run on the same node.
    type: int
    default: 300
  dra:
    description: Which GPUs the DRA driver has, and how it shares them. Without effect with O(allocation=device_plugin).
    type: dict
    suboptions:
      devices:
        description: Its GPUs where O(allocation=both), by index, UUID, or PCI bus id.
        type: list
        elements: str
        default: []
      enforcement:
        description: How the memory and cores of a share are enforced.
        type: str
        choices: [mps, cgroup, hami-core, none]
        default: mps
      split_count: {description: The maximum number of shares of a GPU., type: int, default: 10}
      memory_scaling:
        description: How many times the memory of a GPU its shares may add up to.
        type: float
        default: 1.0
      oversubscribe:
        description:
          - V(best-effort) accepts a O(dra.memory_scaling) above 1 although nothing swaps, and V(refuse) refuses it.
        type: str
        choices: [refuse, best-effort]
        default: refuse
      publish:
        description:
          - What a GPU outside of MIG mode is published as. V(gpu) is a device for the whole GPU, V(share) one for its
            shares, V(all) both. They exclude each other by counters, which make kube-scheduler slow on many nodes.
        type: str
        choices: [all, gpu, share]
        default: all
      kubeconfig:
        description: Access to the Kubernetes API, a path on the node. By default that of the kubelet.
        type: str
        default: ""
      node_name:
        description: The node's name in the cluster. By default that of the kubelet's certificate, or of the host.
        type: str
        default: ""
      hami_core_library:
        description: The path of C(libvgpu.so) on the node, for O(dra.enforcement=hami-core).
        type: path
        default: ""
      hami_core_sha256:
        description:
          - The SHA-256 of O(dra.hami_core_library). Another file is refused before anything changes, and given to no
            container. Empty for any file.
        type: str
        default: ""
  allocation:
    description:
      - Who gives the node's GPUs to containers. V(device_plugin) is the device plugin, V(dra) a DRA driver
        (C(gpu-dra.service)), and with V(both) the driver has the GPUs in O(dra.devices), and the plugin the others.
      - It is written into O(config) and each of O(configs), which must not have it themselves.
      - A change that would give out a GPU in another way while a pod has it is refused, with the pod and the device.
      - With V(device_plugin) the DRA driver is stopped and removed, with what it left on the node.
    type: str
    choices: [device_plugin, dra, both]
    default: device_plugin
  package:
    description: The device plugin's source tree on the controller. Needed for O(state=installed) and O(state=started).
    type: path
  prefix: {description: Where the environment is made., type: path, default: /opt/gpu-node}
  require_kubelet:
    description:
      - Whether a kubelet must have registered the GPUs within O(wait_timeout).
      - With V(false), a node without a kubelet, such as before it joins its cluster, gets a warning. A kubelet that
        listens and refuses is an error in any case.
    type: bool
    default: false
  keep_releases: {description: "How many releases to keep, the one in use included.", type: int, default: 2}
  digest: {description: Set by the action plugin. Digest of what it installs., type: str}
  units: {description: "Set by the action plugin. Texts of the systemd units, by name.", type: dict}
  payload: {description: Set by the action plugin. Path of the transferred archive on the node., type: path}
"""
