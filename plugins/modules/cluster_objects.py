# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep objects of a cluster as manifests have them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Keep objects of a cluster as manifests have them
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Applies manifests by server-side apply, for what DRA needs in a cluster, such as DeviceClasses, policies, and the
    webhook of C(files/kubernetes/dra). Works with any other objects as well.
  - The server itself says by a dry run what would change, with its defaults, its admission and its strict validation.
    All objects are tried before the first one changes.
  - Fields that others have set to other values are not taken over, unless O(force) is set.
  - If a webhook's configuration is among the objects, it takes effect when the Deployments among them are rolled out,
    which may make no progress for their C(progressDeadlineSeconds). Until then a new one is there and asks nobody.
  - Runs on the controller, which has the kubeconfig; delegate it to V(localhost).
  - The content of Secrets is in no result, difference, or log of it. For displays that show the parameters of tasks,
    set C(no_log) on the task.
requirements:
  - kubernetes 24 or later on the controller (C(pip install kubernetes))
seealso:
  - module: gpu.node.drain
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.common.cluster_objects
attributes:
  check_mode:
    details: Asks the API server by dry runs, which need the same rights.
"""

EXAMPLES = r"""
- name: Give the cluster the classes that pods claim GPUs by
  gpu.node.cluster_objects:
    kubeconfig: ~/.kube/config
    objects:
      - "{{ lookup('ansible.builtin.file', 'device-classes.yaml') | from_yaml }}"
  delegate_to: localhost
  become: false

- name: Remove what is no longer in the manifests
  gpu.node.cluster_objects:
    kubeconfig: ~/.kube/config
    objects: "{{ wanted }}"
    label: app.kubernetes.io/part-of=gpu-node
    prune: [v1/ConfigMap, v1/Secret]
  delegate_to: localhost
  become: false
"""

RETURN = r"""
objects:
  description: Those of the objects that are there.
  returned: success
  type: list
  elements: str
  sample: [DeviceClass share.gpu.node]
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.state import hidden, values
from ansible_collections.gpu.node.plugins.module_utils._generated.cluster_objects import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


class SilentModule(AnsibleModule):
    """A module that says nothing of what Secrets hold, not even where another option is wrong."""

    def log(self, msg, log_args=None):
        """Log nothing, as it would be what the module was given: no_log is the task's, whatever a module says."""

    def exit_json(self, **answer):
        """Answer, with Secrets hidden in what Ansible adds."""
        self._hide()
        super().exit_json(**answer)

    def fail_json(self, msg, **answer):
        """Fail, likewise."""
        self._hide()
        super().fail_json(msg, **answer)

    def _hide(self):
        objects = self.params.get("objects")
        self.no_log_values.update(values(objects))
        self.params["objects"] = hidden(objects)


def main() -> None:
    """Run the module."""
    module = SilentModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: ClusterObjectsCapability(module.params))


if __name__ == "__main__":
    main()
