# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say that a variable has another name now."""

from __future__ import annotations

DOCUMENTATION = r"""
name: renamed
short_description: Say that a variable has another name now
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Returns the value of a variable that is still read by the name that it had before, and says so as a deprecation.
positional: old, new
options:
  _input:
    description: The variable's value.
    type: raw
    required: true
  old:
    description: The name by which it was given.
    type: str
    required: true
  new:
    description: The name that it has now.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the program behind the handler
  ansible.builtin.debug:
    msg: >-
      {{ container_runtime_program | gpu.node.renamed('container_runtime_program', 'container_runtime_handler_path')
      if container_runtime_program is defined else container_runtime_handler_path }}
"""

RETURN = r"""
_value:
  description: The value, as it was.
  type: raw
"""

import typing as t

from ansible.utils.display import Display

V = t.TypeVar("V")


def renamed(value: V, old: str, new: str) -> V:
    """Return the value, and say by which name it is to be given."""
    Display().deprecated(
        f"The variable {old} is called {new} now, and is still read by its old name",
        version="1.0.0",
        collection_name="gpu.node",
    )
    return value


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"renamed": renamed}
