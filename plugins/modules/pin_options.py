# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name, which does all of it on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pin_options
short_description: Pin the options that tasks on the controller read
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Returns those of this collection's options that tasks on the controller read, such as paths, kubeconfigs, names of
    nodes, and limits, as the inventory and the plays declare them.
  - Facts are left out. Each answer of a node may have facts, and Ansible makes variables of them that outrank the
    inventory, group variables and the defaults of roles. An option that refers to a fact is refused.
  - Runs on the controller and asks no node for anything.
extends_documentation_fragment:
  - gpu.node.attributes
attributes:
  diff_mode:
    support: none
  platform:
    platforms: posix
seealso:
  - module: gpu.node.drain
"""

EXAMPLES = r"""
- name: Pin the options
  gpu.node.pin_options:
  register: pinned

- name: Write a file on the controller
  ansible.builtin.copy:
    content: "{{ summary }}"
    dest: "{{ pinned.options.report_json_path }}"
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
options:
  description: The values of the options that are declared, by their names.
  returned: success
  type: dict
"""
