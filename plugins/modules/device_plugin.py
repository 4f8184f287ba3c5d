# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install and run the device plugin, and label the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_plugin
short_description: Install and run the device plugin, and label the node
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Installs the device plugin in a virtual environment of its own, writes its configuration and its systemd unit, and
    waits until it serves the node's GPUs and the kubelet has accepted every resource.
  - Runs the DRA driver too if O(allocation) gives it GPUs.
  - A release is made next to the one in use, and switched to in one step. The next run starts over what a killed run
    left.
  - The new release's own parser checks the configuration before anything changes. If the device plugin served before
    and does not become ready after a change, the old release, configuration, and unit are restored. The module fails
    with the device plugin's message, and with RV(rolled_back).
  - The device plugin's package is packed on the controller and sent only where the node does not have this release yet.
  - Of its libraries, only the wheels are installed that the C(requirements.txt) of O(package) lists by their SHA-256,
    wherever they come from. Nothing is built on the node, and pip's configuration there is ignored.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.device_plugin
"""

EXAMPLES = r"""
- name: Run the device plugin
  gpu.node.device_plugin:
    package: "{{ role_path }}/../../files/gpu_plugin"
    config:
      version: v1
      flags:
        migStrategy: mixed

- name: Let the node's label choose how GPUs are shared
  gpu.node.device_plugin:
    package: "{{ role_path }}/../../files/gpu_plugin"
    labels:
      output: api
    configs:
      notebooks:
        version: v1
        sharing:
          timeSlicing:
            resources:
              - name: nvidia.com/gpu
                replicas: 8
"""

RETURN = r"""
release:
  description: The release in use.
  returned: success
  type: str
rolled_back:
  description: Whether what ran before was restored and serves, after what is new did not become ready.
  returned: when the device plugin does not become ready, and there was something to restore
  type: bool
resources:
  description: The resources that are served, each with its number of devices and whether the kubelet has accepted it.
  returned: success
  type: dict
registration_missing:
  description: That no kubelet has registered the GPUs yet, and why, in the words of the warning; empty where one has.
  returned: success
  type: str
labels_left:
  description: Why labels of the node could not be removed, as the node labels service reports it.
  returned: when labels were to be removed and the API did not do it
  type: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.device_plugin import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: DevicePluginCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
