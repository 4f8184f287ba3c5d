# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a container runtime hand out GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime
short_description: Let a container runtime hand out GPUs
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Enables the Container Device Interface (CDI) in containerd, so that containers get the devices they ask for and
    nothing else.
  - The file is edited, not replaced. Comments, the order of keys and everything else stay as they are, and containerd
    checks the new file before it replaces the old one.
  - The runtime is not restarted. RV(restart_required) says whether it must be, also where an earlier run was killed
    between the edit and the restart.
options:
  runtime:
    description: The container runtime.
    type: str
    choices: [containerd]
    default: containerd
  mode:
    description: How GPUs reach containers.
    type: str
    choices: [cdi]
    default: cdi
  config_path:
    description: The runtime's configuration file.
    type: path
    default: /etc/containerd/config.toml
  spec_dirs:
    description: Folders where CDI specifications are looked for. Others that are configured stay.
    type: list
    elements: path
    default: [/etc/cdi, /var/run/cdi]
  backup:
    description: Keep a copy of the file before it is changed.
    type: bool
    default: false
requirements:
  - containerd 1.7 or later
  - tomlkit on the node for an edit; C(/opt/gpu-node), made by M(gpu.node.device_plugin), has it.
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
    platforms: linux
"""

EXAMPLES = r"""
- name: Let containerd hand out GPUs
  gpu.node.container_runtime:
    backup: true
  register: runtime

- name: Restart it where it must be
  ansible.builtin.systemd_service:
    name: containerd
    state: restarted
  when: runtime.restart_required | length > 0
"""

RETURN = r"""
restart_required:
  description: Units that must be restarted for the configuration to hold.
  returned: success
  type: list
  elements: str
runtime_version:
  description: The runtime's version.
  returned: success
  type: str
config_path:
  description: The configuration file.
  returned: success
  type: str
backup_file:
  description: The copy that was kept, if one was asked for and the file was changed.
  returned: success
  type: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._host.real import LocalHost
from ansible_collections.gpu.node.plugins.module_utils._module.container_runtime import (
    SPEC,
    RuntimeCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._module.interpreter import ensure_importable
from ansible_collections.gpu.node.plugins.module_utils._module.run import run_capability


def main() -> None:
    """Run the module."""
    if not ensure_importable("tomllib", candidates=()):
        ensure_importable("tomlkit")
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: RuntimeCapability(LocalHost(), module.params))


if __name__ == "__main__":
    main()
