# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/bundle.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/bundle.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(present) makes the bundle. V(verified) changes nothing, and fails with the names of the files that were
        changed, are missing, or do not belong to the bundle.
    type: str
    choices: [present, verified]
    default: present
  path:
    description: The folder of the bundle. It must not have files that do not belong to a bundle.
    type: path
    required: true
  collection:
    description: The folder of the installed collection C(gpu.node), or its tarball.
    type: path
    required: true
  pythons:
    description: The Pythons of the nodes, V(3.10) to V(3.14), in quotes.
    type: list
    elements: str
    default: ["3.10", "3.11", "3.12", "3.13", "3.14"]
  architectures:
    description: The architectures of the nodes (V(x86_64), V(aarch64)).
    type: list
    elements: str
    default: [x86_64]
  webhook:
    description: Whether to collect the wheels of the image of C(gpu-cluster webhook) too.
    type: bool
    default: true
  images:
    description: Images of this machine's podman or Docker, by name, or archives of images, by path.
    type: list
    elements: str
    default: []
  driver_version:
    description: The driver's version or branch, which is part of some distributions' package names.
    type: str
    default: ""
  sha256:
    description:
      - The SHA-256 of the bundle's C(SHA256SUMS), as RV(bundle.sha256) was when it was made. V(verified) refuses
        another.
    type: str
    default: ""
"""
