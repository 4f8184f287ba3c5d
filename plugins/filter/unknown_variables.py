# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find variables that no role knows."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Find variables that no role knows
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Compares the names of variables with the options in argument specs, and says which names are in none of them.
  - Of names that begin with C(mig_), C(cdi_), C(dcgm_), C(bundle_), or C(host_), as those of other tools do, only
    those are unknown that are near to a known one.
options:
  _input:
    description: Names of variables.
    type: list
    elements: str
    required: true
  specs:
    description: Contents of C(meta/argument_specs.yml) files.
    type: list
    elements: dict
    required: true
  foreign:
    description: Names of variables of other tools, which may have the wildcards of shells in them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse variables that no role knows
  ansible.builtin.assert:
    that: query('ansible.builtin.varnames', '^mig_') | gpu.node.unknown_variables([spec]) | length == 0
  vars:
    spec: "{{ lookup('ansible.builtin.file', 'meta/argument_specs.yml') | from_yaml }}"
"""

RETURN = r"""
_value:
  description: One message for each unknown name, with the nearest known one where there is one.
  type: list
  elements: str
"""

import difflib
import fnmatch
import typing as t

from ansible.errors import AnsibleFilterError

# They are too short to be of one tool.
SHARED = ("mig", "cdi", "dcgm", "bundle", "settings", "host", "accept")
# A letter or two too many or too few, or two of them exchanged.
NEAR = 0.75
SLIPS = 2


def unknown_variables(
    names: t.Sequence[str],
    specs: t.Sequence[t.Mapping[str, t.Any]],
    foreign: str | t.Sequence[str] = (),
) -> list[str]:
    """Return a message for each name that is an option of no entry point in the specs, and of no other tool."""
    try:
        known = {
            option
            for spec in specs
            for entry_point in spec["argument_specs"].values()
            for option in entry_point.get("options") or {}
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"unknown_variables: not an argument spec: {error}") from error
    prefixes = foreign.split(",") if isinstance(foreign, str) else foreign
    unknown = (name for name in sorted(set(names) - known) if not _matches(name, prefixes))
    return [_message(name, known) for name in unknown if not _of_another(name, known)]


def _of_another(name: str, known: t.Iterable[str]) -> bool:
    """Return whether a variable may well be another tool's: it only begins as ours do."""
    prefix, _line, suffix = name.partition("_")
    ours = [variable.partition("_")[2] for variable in known if variable.startswith(f"{prefix}_")]
    ours = [variable for variable in ours if abs(len(variable) - len(suffix)) <= SLIPS]
    near = difflib.get_close_matches(suffix, ours, n=1, cutoff=NEAR)
    # Of three letters two are too many to be near when they are exchanged.
    near += [variable for variable in ours if sorted(variable) == sorted(suffix)]
    return prefix in SHARED and not near


def _matches(name: str, patterns: t.Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern.strip()) for pattern in patterns)


def _message(name: str, known: t.Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"{name} is unknown" + (f" (did you mean {near[0]}?)" if near else "")


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"unknown_variables": unknown_variables}
