# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install DCGM and its exporter."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm
short_description: Install NVIDIA DCGM and its exporter
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Installs the packages of DCGM 4 in one version, holds them there, and runs C(nvidia-dcgm.service).
  - The packages come from what the node's package manager knows. No distribution has them; NVIDIA's repositories do,
    which M(gpu.node.nvidia_driver) can make known with O(gpu.node.nvidia_driver#module:repository).
  - Runs the exporter in a unit of its own, C(gpu-dcgm-exporter.service), where O(exporter) names it. It asks the
    engine of C(nvidia-dcgm.service) rather than starting a second one.
  - DCGM holds the GPUs open. M(gpu.node.nvidia_driver) and M(gpu.node.mig) stop the services that this module manages
    before they reload the driver or change a MIG layout, and start them again.
  - Remembers what it has added. The next run finishes what a killed run left behind.
seealso:
  - module: gpu.node.nvidia_driver
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.dcgm
attributes:
  check_mode:
    details: On a node that does not know a repository with DCGM yet, the version is not known either, which is said.
  platform:
    platforms: debian, el, suse
"""

EXAMPLES = r"""
- name: Install DCGM and run its service
  gpu.node.dcgm:

- name: Export its metrics on the node's own address
  gpu.node.dcgm:
    version: 4.5.2
    exporter:
      location: https://mirror.example.com/dcgm-exporter-4.8.1
      sha256: "{{ exporter_sha256 }}"
      address: 10.0.0.5:9400

- name: Take the exporter from a package
  gpu.node.dcgm:
    exporter:
      package: datacenter-gpu-manager-exporter
      version: 4.8.1

- name: Remove what was added
  gpu.node.dcgm:
    state: absent
"""

RETURN = r"""
dcgm_version:
  description: The version that is installed; none where it is not there.
  returned: success
  type: str
  sample: 4.5.2
packages:
  description: The packages that are installed, with their versions.
  returned: success
  type: dict
  sample: {datacenter-gpu-manager-4-core: "1:4.5.2-1"}
service:
  description: The state of C(nvidia-dcgm.service).
  returned: success
  type: str
  sample: active
exporter_address:
  description: Where the exporter serves; none where this module runs none.
  returned: success
  type: str
  sample: 127.0.0.1:9400
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.dcgm import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.capability import (
    DcgmCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: DcgmCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
