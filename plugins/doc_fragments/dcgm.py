# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/dcgm.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/dcgm.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - Whether DCGM is there. V(absent) removes what earlier runs have added, and only that.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - The version, such as V(4.5.2), or a package version.
      - Without it, what is installed stays, and otherwise the newest in the sources is taken.
    type: str
    default: ""
  cuda:
    description:
      - Which major version of CUDA the active diagnostics are for. V(auto) takes that of the driver, V(all) has them
        for each, and V(none) has none.
    type: str
    choices: [auto, none, "11", "12", "13", all]
    default: auto
  proprietary:
    description: Whether the packages that are not open source come too. The profiling metrics are among them.
    type: bool
    default: true
  hold:
    description: Whether the packages are kept at their version when the node is upgraded.
    type: bool
    default: true
  exporter:
    description:
      - DCGM's exporter for Prometheus, either as a program or as a package. Nothing is installed without a checksum or
        a version. Left out, an exporter of an earlier run is removed.
      - NVIDIA pairs each release of the exporter with one of DCGM.
    type: dict
    suboptions:
      location: {description: "The program's path on the node, or an address with http or https.", type: str}
      sha256: {description: Its SHA-256. A file with another one is not run., type: str}
      package: {description: "The package that has it, such as V(datacenter-gpu-manager-exporter).", type: str}
      version: {description: The version of the package., type: str}
      address:
        description: Where it serves, as HOST:PORT. Without a host it serves on every address of the node.
        type: str
        default: 127.0.0.1:9400
      kubernetes:
        description:
          - Whether metrics name pod, namespace, and container, as the kubelet's PodResources API tells.
          - With V(true) it runs as root without any capability, since the kubelet's socket is root's. With V(false) it
            runs as a user of its own.
        type: bool
        default: true
      gpu_id_type:
        description: What the kubelet's device ids are. Those of this collection's device plugin are UUIDs.
        type: str
        choices: [uid, device-name]
        default: uid
      shared:
        description:
          - Whether a GPU that several pods share has a series for each of them, with the label C(vgpu). With V(false)
            one of the pods is named, and the others are not.
        type: bool
        default: true
      resources:
        description:
          - Further resources whose devices are GPUs, such as V(nvidia.com/gpu.shared). Known are C(nvidia.com/gpu) and
            those that begin with C(nvidia.com/mig-).
        type: list
        elements: str
        default: []
      collectors:
        description: A file of yours on the node with the fields to ask for. Without it this module writes one.
        type: str
        default: ""
      interval: {description: "How often the fields are read, in seconds.", type: int, default: 30}
  lock_timeout:
    description: Seconds to wait for another package manager, and for another run on the same node.
    type: int
    default: 300
"""
