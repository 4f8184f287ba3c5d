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
  - Enables GPUs in containerd, Docker, CRI-O or podman through the Container Device Interface (CDI), so that
    containers get the devices they ask for and nothing else. Where it is wanted, the runtime of the NVIDIA container
    toolkit is added as a handler.
  - Only what is missing from the runtime's effective configuration is set. Files are edited, not replaced. Comments,
    the order of keys, indentation and everything else stay as they are, and the runtime itself checks the new file
    before it replaces the old one. A damaged file is reported with line and column and left alone.
  - With C(--diff) the lines that change are returned with two lines around them, and what looks like a credential is
    masked, as it is in errors. The rest of a file is never returned.
  - What a file was like is kept in C(/var/lib/gpu-node), so that it can be restored.
  - Nothing is restarted. RV(restart_required) says what must be, also where an earlier run was killed between the edit
    and the restart. It is empty where an edit changed nothing in effect. RV(reload_required) names those for which a
    reload is enough, which is Docker when it gets a handler or another default.
options:
  state:
    description:
      - Whether GPUs (CDI) are enabled in the runtimes.
      - With V(absent), what was added is removed. A file that nobody else has edited since then gets its old bytes
        again. In any other, our keys are taken out one by one, and what others have set in them stays.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - The container runtime.
      - V(k3s) and V(rke2) stand for the containerd that these bring. Its file is regenerated at each of their starts,
        so what is set goes into the folder that it imports, and their unit is the one to restart.
      - V(auto) means all that are installed, but for those that cannot do it, which are named in a warning, and for a
        containerd without CRI plugin that is there for Docker only.
    type: str
    choices: [auto, containerd, docker, cri-o, podman, k3s, rke2]
    default: auto
    aliases: [runtime]
  mode:
    description:
      - How GPUs reach containers. A mode reverts what an earlier one has set and it does not need itself.
      - With V(cdi), containers name devices. No program of NVIDIA's is needed.
      - With V(runtime_class), there is a handler as well. Pods choose it with a RuntimeClass, and others never meet it.
      - With V(default_runtime), all containers run through the handler. One that asks for nothing may then see all
        GPUs, if its image says so.
      - CDI is on with each of them, where the runtime has it.
    type: str
    choices: [cdi, runtime_class, default_runtime]
    default: cdi
  handler:
    description:
      - The name of the handler, as a RuntimeClass may name it. Not used with O(mode=cdi).
      - V(runc) and other names of what starts all containers are refused.
    type: str
    default: nvidia
  handler_path:
    description:
      - The program behind the handler. It must be there, in version 1.19.1 or later, since containers could break out
        through earlier ones. Not used with O(mode=cdi).
    type: path
    default: /usr/bin/nvidia-container-runtime
    aliases: [runtime_path]
  config_path:
    description:
      - The runtime's configuration file. Without it, C(/etc/containerd/config.toml), C(/etc/docker/daemon.json) or
        C(/etc/crio/crio.conf.d/zz-gpu-node.conf).
      - With containerd 2.1 or later, where that file imports C(*.toml) of a folder, C(zz-gpu-node.toml) in that folder
        is written instead. Before, a file that is imported would hide what the main file says.
    type: path
  spec_dirs:
    description: Folders where CDI specifications are looked for. Others that are configured stay.
    type: list
    elements: path
    default: [/etc/cdi, /var/run/cdi]
  restart:
    description:
      - Whether a runtime that has to be restarted is named in RV(restart_required), for the caller to restart it, where
        that ends containers. It does with Docker, unless C(live-restore) is on in the daemon that runs, and with a unit
        of another runtime whose C(KillMode) was changed. Otherwise containers of containerd, k3s, RKE2, CRI-O and
        podman go on.
      - With V(when_idle), such a runtime is named in RV(restart_deferred) instead, with its containers in
        RV(blocked_by) and in a warning. The file is written, and a run that finds no containers any more asks for the
        restart.
      - With V(never), that goes for every runtime that has to be restarted.
      - With V(always), containers are not looked at.
    type: str
    choices: [never, when_idle, always]
    default: when_idle
  backup:
    description: Keep a copy of the file before it is changed.
    type: bool
    default: false
notes:
  - podman has no daemon and reads CDI specifications by itself. There is nothing to write, and no handler.
  - Options on Docker's command line are not read.
requirements:
  - For CDI, containerd 1.7, Docker 25, CRI-O 1.23 or podman 4.1.
extends_documentation_fragment:
  - gpu.node.attributes
"""

EXAMPLES = r"""
- name: Enable GPUs in all container runtimes of the node
  gpu.node.container_runtime:
    backup: true
  register: runtime

- name: Restart those that must be
  ansible.builtin.systemd_service:
    name: "{{ item }}"
    state: restarted
  loop: "{{ runtime.restart_required }}"

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
from ansible_collections.gpu.node.plugins.module_utils._capability.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._capability.runtimes.capability import (
    SPEC,
    RuntimeCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._host.api import Host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: RuntimeCapability(Host(), module.params))


if __name__ == "__main__":
    main()
