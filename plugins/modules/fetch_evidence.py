# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name, which does all of it on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fetch_evidence
short_description: Fetch an archive of evidence from a node
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Fetches what M(gpu.node.gpu_evidence) has made, as M(ansible.builtin.fetch) does.
  - The file's name is made on the controller, out of the GPU, the stage, and the time. It lies directly in O(folder),
    which is made the user's alone, and a node has no say in either.
  - A file of more than 256 MiB is not fetched, and one with another digest is not kept.
options:
  path:
    description: The archive on the node.
    type: str
    required: true
  sha256:
    description: Its SHA-256, as M(gpu.node.gpu_evidence) has returned it.
    type: str
    required: true
  size:
    description: Its size in bytes, as M(gpu.node.gpu_evidence) has returned it.
    type: int
    required: true
  folder:
    description: The folder on the controller. It gets the mode 0700.
    type: str
    required: true
  gpu:
    description: The UUID of the GPU.
    type: str
    required: true
  stage:
    description: When in a repair it was made, a word in lower case.
    type: str
    required: true
extends_documentation_fragment:
  - gpu.node.attributes
attributes:
  check_mode:
    support: none
    description: Can run in check mode, where it fetches nothing.
  diff_mode:
    support: none
  idempotent:
    support: none
    description: Each run fetches the archive again.
seealso:
  - module: gpu.node.gpu_evidence
"""

EXAMPLES = r"""
- name: Gather what is known of a GPU
  gpu.node.gpu_evidence:
    gpus: [GPU-8e3d5a54-7f7b-4d2c-9a50-0f6f2f8e9b11]
  register: archive

- name: Fetch it
  gpu.node.fetch_evidence:
    path: "{{ archive.path }}"
    sha256: "{{ archive.sha256 }}"
    size: "{{ archive.size }}"
    folder: "{{ inventory_dir }}/evidence/{{ inventory_hostname }}"
    gpu: GPU-8e3d5a54-7f7b-4d2c-9a50-0f6f2f8e9b11
    stage: before
"""

RETURN = r"""
dest:
  description: The file on the controller.
  returned: success
  type: str
"""
