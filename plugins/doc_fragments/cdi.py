# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/cdi.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/cdi.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description: Whether the file is there.
    type: str
    choices: [present, absent]
    default: present
  path:
    description:
      - The file; its name ends in C(.yaml) or C(.json). The text is JSON, which is YAML as well.
      - C(/var/run/cdi) is empty after a boot, and comes before C(/etc/cdi) where both describe a device. The service of
        the NVIDIA container toolkit writes C(/var/run/cdi/nvidia.yaml).
    type: path
    default: /etc/cdi/nvidia.yaml
  hooks:
    description:
      - How the names of libraries get into containers.
      - With V(auto), a hook of NVIDIA's (C(nvidia-cdi-hook) or C(nvidia-ctk)) makes the links and the loader's cache
        when the container starts, provided that the node has it in version 1.19.1 or later. Earlier versions have known
        vulnerabilities and are not used.
      - Otherwise, and with V(never), each library is mounted once under each of its names in O(library_folders).
    type: str
    choices: [auto, never]
    default: auto
  library_folders:
    description:
      - The folders in containers that libraries are mounted in where no hook makes the loader's cache. They must be
        folders that the loader of the image searches by itself.
      - Without it, both that glibc looks in, whatever the node is itself. Images of the Debian family look in
        C(/usr/lib/x86_64-linux-gnu) (on Arm C(/usr/lib/aarch64-linux-gnu)), those of the Red Hat and SUSE families in
        C(/usr/lib64).
    type: list
    elements: path
    default: []
  driver_root:
    description: Where the driver's root folder is seen on the node, for a driver that was installed somewhere else.
    type: path
    default: /
  generator:
    description:
      - What the specification is made with.
      - With V(nvml), this collection makes it of what NVML reports and of the driver's own files.
      - With V(nvidia-ctk), the NVIDIA container toolkit makes it, in version 1.19.1 or later. It is checked against the
        rules of the format before it is written, and its mount of C(/tmp/nvidia-mps) is dropped, since any user of the
        node may make that folder. All else stays the same, above all when it is regenerated.
    type: str
    choices: [nvml, nvidia-ctk]
    default: nvml
  capabilities:
    description:
      - Which of the driver's files containers get, by the names of C(NVIDIA_DRIVER_CAPABILITIES). That variable of an
        image or a pod changes nothing here; what is named holds for all containers that ask for a device.
      - V(compute) is CUDA, OpenCL, and MPS, V(utility) is C(nvidia-smi) and NVML, V(video) is NVENC, NVDEC, optical
        flow and VDPAU.
      - V(graphics) is OpenGL, EGL, Vulkan, OptiX, and GBM, with the files by which their loaders find the driver and
        the GPU's nodes in C(/dev/dri). V(display) is that and the modules of an X server. A MIG device has such nodes
        only where its profile can draw.
      - V(ngx) is the library of NGX, and V(compat32) the libraries for 32-bit programs of the other capabilities.
      - V(all) is everything, which is what C(nvidia-ctk) writes, 32-bit libraries aside.
      - Libraries of the driver that are in no list of NVIDIA's, the firmware of the GPUs, control nodes and sockets
        come with each of them.
      - With O(generator=nvidia-ctk) it must be left as it is.
    type: list
    elements: str
    choices: [compute, utility, video, graphics, display, ngx, compat32, all]
    default: [compute, utility, video]
  boot:
    description:
      - Whether C(gpu-cdi.service) regenerates the file with the same options at boot, after the MIG layout and before
        the kubelet and container runtimes, and C(gpu-cdi.path) has it do so when device nodes, MIG devices, the
        driver's libraries, or C(nvidia-cdi-hook) change. The device plugin notices a change of device nodes.
      - V(false) removes the units and their file.
    type: bool
    default: true
  compare:
    description:
      - Whether to make the specification in both ways and to report in RV(differences) how they differ. What is written
        is that of O(generator). C(nvidia-ctk) must be on the node.
    type: bool
    default: false
"""
