# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep what shows a GPU's fault in one archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_evidence
short_description: Keep what shows a GPU's fault in one archive
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Writes one archive with the kernel's log, C(nvidia-smi -q), DCGM's answers, C(nvidia-bug-report.sh), what names the
    board to its vendor, and what was tried for the GPU. Nothing else on the node is changed.
  - Each file has limits of time and of size. A program that hangs is killed, with everything that it started. A file
    that is not there is listed in RV(missing), and fails nothing.
  - The archive is root's alone, mode 0600. What looks like a credential is masked in it.
  - An archive of the same case and stage that was made since the node's boot is not made again.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.evidence.gpu_evidence
"""

EXAMPLES = r"""
- name: Keep what shows the fault, before the GPU is reset
  gpu.node.gpu_evidence:
    gpus: ["0000:18:00.0"]
  register: evidence

- name: Fetch it
  ansible.builtin.fetch:
    src: "{{ evidence.path }}"
    dest: evidence/

- name: Make the file to send to who replaces the GPU
  gpu.node.gpu_evidence:
    gpus: ["1651023000000"]
    stage: rma
    bug_report: full
    bug_report_timeout: 3600
"""

RETURN = r"""
path:
  description: The archive on the node; in check mode that which would be written.
  returned: success
  type: str
  sample: /var/lib/gpu-node/evidence/GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f.before.8c1f0e52.20261126T202510Z.tar.gz
sha256:
  description: Its SHA-256, empty in check mode.
  returned: success
  type: str
size:
  description: Its bytes.
  returned: success
  type: int
case:
  description: What it is named after.
  returned: success
  type: str
stage:
  description: As O(stage).
  returned: success
  type: str
made:
  description: When it was made, in UTC.
  returned: success
  type: str
  sample: "2026-11-26T20:25:10Z"
gpus:
  description: The GPUs that it is about, by UUID, or by PCI address where that is not known.
  returned: success
  type: list
  elements: str
contents:
  description: Its files.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The file's name in the archive.
      type: str
    size:
      description: Its bytes.
      type: int
    note:
      description: A note about the file, such as that its program was killed and how much is left out.
      type: str
missing:
  description: The files that are not in it, and why.
  returned: success
  type: list
  elements: dict
  contains:
    part:
      description: The file's name, or what it would have been.
      type: str
    reason:
      description: Why it is not there.
      type: str
  sample: [{"part": "dcgm-diag.json", "reason": "dcgmi is not installed"}]
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_evidence import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._repair.evidence.capability import (
    EvidenceCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(module, lambda: EvidenceCapability(Host(), module.params))


if __name__ == "__main__":
    main()
