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
    A container that asks for a device gets its device nodes and the driver's libraries, programs, and sockets, and
    one that asks for none gets nothing.
  - The kind is C(nvidia.com/gpu). The name of a GPU is its index and its UUID, that of a MIG device C(GPU:DEVICE) and
    its UUID, and C(all) is everything. A GPU in MIG mode is there by its MIG devices only.
  - A GPU that does not answer, and a device whose nodes do not exist, are left out with a warning. If nothing is
    left, there is no file, because a specification without devices is not valid.
  - Containers get nothing below a folder that everybody may write to. If the driver has a file there, that is an
    error.
  - The file is checked against the rules of the format, and written in one step. It has the lowest version of the
    format that its content needs.
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
  - gpu.node.cdi
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
  description: The program that makes links and the loader's cache; empty if libraries are mounted under their names.
  returned: success
  type: str
differences:
  description: What a container gets from one specification and not from the other.
  returned: success, with O(compare)
  type: list
  elements: dict
  contains:
    what:
      description: One of C(device), C(node), C(mount), C(env), and C(hook).
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
from ansible_collections.gpu.node.plugins.module_utils._cdi.capability import CdiCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: CdiCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
