# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Enable GPUs (CDI) in container runtimes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime
short_description: Enable GPUs (CDI) in container runtimes
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Enables GPUs in containerd, Docker, CRI-O, or podman through the Container Device Interface (CDI), so that
    containers get the devices they ask for and nothing else. Where it is wanted, the runtime of the NVIDIA container
    toolkit is added as a handler.
  - Only what is missing from the runtime's effective configuration is set. Files are edited, not replaced. Comments,
    the order of keys, indentation, and everything else stay as they are, and the runtime itself checks the new file
    before it replaces the old one. A damaged file is reported with line and column and left alone.
  - With C(--diff) the lines that change are returned with two lines around them, and what looks like a credential is
    masked, as it is in errors. The rest of a file is never returned.
  - What a file was like is kept in C(/var/lib/gpu-node), so that it can be restored.
  - Nothing is restarted without O(restart_now). RV(restart_required) says what must be, also where an earlier run was
    killed between the edit and the restart. It is empty where an edit changed nothing in effect. RV(reload_required)
    names those for which a reload is enough, which is Docker when it gets a handler or another default.
notes:
  - podman is daemonless and reads CDI specifications by itself. There is nothing to write, and no handler.
  - The file, and flags that are tried with it, are those of the running program's command line, or of its unit where it
    does not run. A key that a flag sets is refused, with the file that sets the flag.
requirements:
  - For CDI, containerd 1.7, Docker 25, CRI-O 1.23 or podman 4.1.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.container_runtime
"""

EXAMPLES = r"""
- name: Enable GPUs in all container runtimes of the node
  gpu.node.container_runtime:
    backup: true
  register: runtime

- name: Restart those that must be, and put back a file that its runtime refuses
  gpu.node.container_runtime:
    restart_now: "{{ runtime.restart_required }}"

- name: Add a handler for pods that name a RuntimeClass
  gpu.node.container_runtime:
    name: containerd
    mode: runtime_class

- name: Remove what was added to Docker
  gpu.node.container_runtime:
    name: docker
    state: absent
"""

RETURN = r"""
state:
  description: The O(state) that was asked for, with which what is in O(restart_now) is restarted.
  returned: success
  type: str
  sample: present
restart_required:
  description: Units that must be restarted for the configuration to hold.
  returned: success
  type: list
  elements: str
  sample: [containerd.service]
restart_deferred:
  description: Units that must be restarted as well, and that O(restart) leaves for later.
  returned: success
  type: list
  elements: str
blocked_by:
  description: Containers that a restart would end, by their names.
  returned: success
  type: list
  elements: str
reload_required:
  description: Units that must reload their configuration for it to hold, and need no restart.
  returned: success
  type: list
  elements: str
  sample: [docker.service]
runtime:
  description: The runtime, the first one if there are several.
  returned: success
  type: str
  sample: containerd
runtime_version:
  description: That runtime's version.
  returned: success
  type: str
  sample: 1.7.24
config_path:
  description: That runtime's configuration file; empty for podman.
  returned: success
  type: str
runtimes:
  description: All runtimes.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The runtime.
      type: str
      returned: success
    version:
      description: Its version.
      type: str
      returned: success
    config_path:
      description: Its configuration file.
      type: str
      returned: success
    unit:
      description: Its unit; empty for podman.
      type: str
      returned: success
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
from ansible_collections.gpu.node.plugins.module_utils._generated.container_runtime import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._runtime.capability import RuntimeCapability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: RuntimeCapability(Host(), module.params),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
