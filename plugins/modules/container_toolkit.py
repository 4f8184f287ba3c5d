# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install the NVIDIA container toolkit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_toolkit
short_description: Install the NVIDIA container toolkit
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Installs the packages of the NVIDIA container toolkit, all of one version, and holds them there. Nothing else of
    this collection needs them but the modes C(runtime_class) and C(default_runtime) of M(gpu.node.container_runtime)
    and O(gpu.node.cdi#module:generator=nvidia-ctk).
  - Versions before 1.19.1 are never installed, and one that is there is replaced. Containers could break out through
    them (CVE-2024-0132, CVE-2025-23266, CVE-2026-24260).
  - Remembers what it has added. The next run finishes what a killed run left behind.
seealso:
  - module: gpu.node.container_runtime
  - module: gpu.node.cdi
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.container_toolkit
attributes:
  check_mode:
    details:
      - A repository that the run would make known is tried in a folder of its own, which is gone afterwards. Its key
        and lists are fetched, no packages.
"""

EXAMPLES = r"""
- name: Install the toolkit from NVIDIA's repository
  gpu.node.container_toolkit:
    version: 1.20.1
    repository:
      preset: nvidia

- name: Install it from a mirror with a layout of its own
  gpu.node.container_toolkit:
    version: 1.20.1
    repository:
      url: https://mirror.example.com/libnvidia-container/stable/deb/$(ARCH)
      key: "{{ lookup('ansible.builtin.file', 'libnvidia-container.asc') }}"

- name: Install what CDI needs from a repository for the RHEL family whose lists are signed, and not its packages
  gpu.node.container_toolkit:
    parts: base
    repository:
      url: https://mirror.example.com/libnvidia-container/stable/rpm/$basearch
      key: "{{ lookup('ansible.builtin.file', 'libnvidia-container.asc') }}"
      signed_metadata: true
      signed_packages: false

- name: Remove it
  gpu.node.container_toolkit:
    state: absent
"""

RETURN = r"""
toolkit_version:
  description: The version that is installed; none where it is not there.
  returned: success
  type: str
  sample: 1.20.1
minimum_version:
  description: The lowest version that is safe to use.
  returned: success
  type: str
  sample: 1.19.1
packages:
  description: The packages that are installed, with their versions.
  returned: success
  type: dict
  sample: {nvidia-container-toolkit-base: 1.20.1-1}
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.container_toolkit import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import (
    ToolkitCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: ToolkitCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
