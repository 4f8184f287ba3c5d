# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collect what nodes without a way to the Internet need, or verify it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle
short_description: Collect what nodes without a way to the Internet need, or verify it
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Collects wheels, the collection itself, container images and lists of packages into a folder, with the SHA-256 of
    each file. It runs on the controller.
  - Wheels are fetched by pip, as pip is set up there, and only those with the hashes that the collection lists.
  - The folder is made next to its place, and put there in one step. If nothing has changed since, nothing is fetched.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.bundle
requirements:
  - pip and packaging for the Python that runs Ansible on the controller
"""

EXAMPLES = r"""
- name: Collect what nodes with Debian 12 and 13 need
  gpu.node.bundle:
    path: /srv/bundle
    collection: "{{ playbook_dir }}/.."
    pythons: ['3.11', '3.13']
  delegate_to: localhost

- name: See that it has arrived as it was made
  gpu.node.bundle:
    path: /srv/bundle
    collection: "{{ playbook_dir }}/.."
    state: verified
    sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  delegate_to: localhost
"""

RETURN = r"""
bundle:
  description: The bundle that is there.
  returned: success
  type: dict
  contains:
    path:
      description: Its folder.
      type: str
    sha256:
      description: The SHA-256 of its SHA256SUMS, which has those of all files. Empty where there is no bundle yet.
      type: str
    files:
      description: How many files it has.
      type: int
    size:
      description: Their size in bytes.
      type: int
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._bundle.capability import BundleCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.bundle import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: BundleCapability(Host(), module.params))


if __name__ == "__main__":
    main()
