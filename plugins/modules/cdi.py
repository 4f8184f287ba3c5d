# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Generate the CDI specification of the node's GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi
short_description: Generate the CDI specification of the node's GPUs
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Writes the CDI specification of the node's NVIDIA GPUs from what NVML reports and from the driver's own files.
    A container that asks for a device gets its device nodes and the driver's libraries, programs and sockets, and
    one that asks for none gets nothing.
  - The kind is C(nvidia.com/gpu). A GPU is named by its index and its UUID, a MIG device by C(GPU:DEVICE) and its
    UUID, and C(all) is everything. A GPU in MIG mode is there by its MIG devices only.
  - A GPU that does not answer, and a device whose nodes do not exist, are left out with a warning. Where nothing is
    left there is no file, because a specification without devices is not valid.
  - Nothing below a folder that everybody may write to is given to containers. Where the driver has a file there,
    that is an error.
  - The file is checked against the rules of the format, and written in one step. It has the lowest version of the
    format that its content needs.
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
      - With V(auto), C(nvidia-cdi-hook) or C(nvidia-ctk) makes the links and the loader's cache when the container
        starts, provided that it is on the node in version 1.19.1 or later. Earlier ones have known holes and are not
        used.
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
      - V(compute) is CUDA, OpenCL and MPS, V(utility) is C(nvidia-smi) and NVML, V(video) is NVENC, NVDEC, optical flow
        and VDPAU.
      - V(graphics) is OpenGL, EGL, Vulkan, OptiX and GBM, with the files by which their loaders find the driver and the
        GPU's nodes in C(/dev/dri). V(display) is that and the modules of an X server. A MIG device has such nodes only
        where its profile can draw.
      - V(ngx) is the library of NGX, and V(compat32) the libraries for 32-bit programs of the other capabilities.
      - V(all) is everything, which is what C(nvidia-ctk) writes, 32-bit libraries aside.
      - Libraries of the driver that are in no list of NVIDIA's, the firmware of the GPUs, control nodes and sockets
        come with each of them.
      - With O(generator=nvidia-ctk) it must be left as it is.
    type: list
    elements: str
    choices: [compute, utility, video, graphics, display, ngx, compat32, all]
    default: [compute, utility, video]
  compare:
    description:
      - Whether to make the specification in both ways and to report in RV(differences) how they differ. What is written
        is that of O(generator). C(nvidia-ctk) must be on the node.
    type: bool
    default: false
  boot:
    description:
      - Whether C(gpu-cdi.service) regenerates the file with the same options at boot, after the MIG layout and before
        the kubelet and container runtimes, and C(gpu-cdi.path) has it do so when device nodes, MIG devices, the
        driver's libraries or C(nvidia-cdi-hook) change. That of device nodes is noticed by the device plugin.
      - V(false) removes the units and their file.
    type: bool
    default: true
notes:
  - Programs that read the loader's cache, such as C(ldconfig -p), find the libraries only where a hook has made it.
    Programs that load a library by its name find it either way.
  - Without O(boot), the file shows the GPUs as they were when the module ran. Run it again after each change of the
    driver or of the MIG layout.
requirements:
  - C(/opt/gpu-node/bin/gpu-plugin) on the node, for O(boot).
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
attributes:
  check_mode:
    details: On a node without a driver it says what would be written, without the devices.
"""

EXAMPLES = r"""
- name: Generate the specification
  gpu.node.cdi:

- name: Serve images whose loader looks in one folder only, without the NVIDIA container toolkit
  gpu.node.cdi:
    hooks: never
    library_folders: [/usr/lib]

- name: Serve programs that draw, too
  gpu.node.cdi:
    capabilities: [compute, utility, video, graphics]

- name: See how the specification differs from that of the NVIDIA container toolkit
  gpu.node.cdi:
    capabilities: [all]
    compare: true
  check_mode: true
  register: compared

- name: Remove the specification
  gpu.node.cdi:
    state: absent
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
kind:
  description: The kind of the devices; with C(=) and a name it is what a container asks for.
  returned: success
  type: str
  sample: nvidia.com/gpu
devices:
  description: The names of the devices.
  returned: success
  type: list
  elements: str
  sample: ["0", GPU-2f0e8a4c-6d1b-4b57-9c39-5d7a1e0b6f83, all]
cdi_version:
  description: The version of the format.
  returned: success
  type: str
  sample: 0.5.0
driver_version:
  description: The version of the driver.
  returned: success
  type: str
hook:
  description: The program that makes links and the loader's cache; empty where libraries are mounted by their names.
  returned: success
  type: str
differences:
  description: What a container gets from one specification and not from the other.
  returned: success, with O(compare)
  type: list
  elements: dict
  contains:
    what:
      description: One of C(device), C(node), C(mount), C(env) and C(hook).
      type: str
      returned: success
    name:
      description: Its name or path.
      type: str
      returned: success
    device:
      description: The device that it is about; empty where it is about all of them.
      type: str
      returned: success
    only:
      description: The generator whose specification has it.
      type: str
      returned: success
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._capability.cdi import SPEC, CdiCapability
from ansible_collections.gpu.node.plugins.module_utils._capability.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._host.api import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module, lambda: CdiCapability(Host(), module.params, check_mode=module.check_mode)
    )


if __name__ == "__main__":
    main()
