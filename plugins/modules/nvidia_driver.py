# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install, pin and load the NVIDIA driver."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver
short_description: Install the NVIDIA driver
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Installs the driver from Debian's own packages, holds it at its version and loads it.
  - Never stops a process on a GPU, never unloads a module and never reboots. What needs a reboot is reported.
  - What a killed run left behind is finished by the next one.
options:
  state:
    description:
      - V(absent) takes back what earlier runs have added, and only that.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - A package version, an upstream version such as V(550.163.01), or a branch such as V(550).
      - Empty keeps what is installed, and takes what the sources offer where nothing is.
    type: str
    default: ""
  kernel_modules:
    description:
      - The flavour of the kernel modules.
      - V(auto) takes the one that the GPUs need, and the open one where they run with both.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  hold:
    description: Hold the packages, so that unattended upgrades do not break the running driver.
    type: bool
    default: true
  persistence:
    description: Enable and start the persistence daemon.
    type: bool
    default: true
  manage_sources:
    description:
      - Enable the components contrib, non-free and non-free-firmware in a file of our own, where the node lacks them.
    type: bool
    default: true
  secure_boot:
    description: Whether to refuse an installation on a machine with Secure Boot on.
    type: str
    choices: [refuse, ignore]
    default: refuse
  lock_timeout:
    description: Seconds to wait for apt's lock.
    type: int
    default: 300
extends_documentation_fragment:
  - gpu.node.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: debian
"""

EXAMPLES = r"""
- name: Install the driver that Debian offers
  gpu.node.nvidia_driver:

- name: Stay on a branch, with the proprietary kernel modules
  gpu.node.nvidia_driver:
    version: "550"
    kernel_modules: proprietary
"""

RETURN = r"""
installed_version:
  description: Upstream version of the installed packages.
  returned: success
  type: str
loaded_version:
  description: Version of the loaded kernel module.
  returned: success
  type: str
loaded_flavour:
  description: Flavour of the loaded kernel module, open or proprietary.
  returned: success
  type: str
reboot_required:
  description: Whether the node must be rebooted for the driver to work.
  returned: success
  type: bool
reboot_reasons:
  description: Why.
  returned: success
  type: list
  elements: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._host.real import LocalHost
from ansible_collections.gpu.node.plugins.module_utils._module.nvidia_driver import (
    SPEC,
    DriverCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._module.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module, lambda: DriverCapability(LocalHost(), module.params, check_mode=module.check_mode)
    )


if __name__ == "__main__":
    main()
