# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.plan: that of gpu.node.preflight, and what the daemon's release would be."""

from __future__ import annotations

import collections
import glob
import os
import typing as t

import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.gpu.node.plugins.action.preflight import ROOT, WHEELHOUSE, Problems, Values
from ansible_collections.gpu.node.plugins.action.preflight import ActionModule as PreflightAction
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.problems import Problem
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import package

TREE = "__device_plugin_package"
PACKAGE = os.path.join(ROOT, "files", "gpu_plugin")
# libyaml's, where PyYAML has it, takes a tenth of the time, which each host's worker needs.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What runs from the daemon's environment, or imports what is in it.
USERS = frozenset({"device_plugin", "cdi", "mig"})


class ActionModule(PreflightAction):
    """Runs the module on what the play has set, with the defaults of the roles where it has set nothing."""

    MODULE = "gpu.node.plan"

    def _given(self, given: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
        """Return the play's variables over the roles' defaults, of which a play knows those of its own roles alone."""
        return collections.ChainMap(dict(given), defaults())

    def _more(
        self, args: Values, values: Values, refused: Problems, given: t.Mapping[str, t.Any]
    ) -> Values:
        """Return the release that the daemon's source tree and the wheels make."""
        if USERS.isdisjoint(args.get("components", USERS)) or any(
            one.variable == WHEELHOUSE for one in refused
        ):
            return {}
        try:
            found = package(self._tree(given), values.get(WHEELHOUSE))
        except AnsibleActionFail as error:
            words, _next, hint = str(error.message).partition(". Next step: ")
            text = words.replace("wheelhouse: ", f"{WHEELHOUSE}: ", 1)
            refused.append(Problem(WHEELHOUSE, text, hint))
            return {}
        return {"daemon": {"digest": found.digest, "units": found.units}}

    def _tree(self, given: t.Mapping[str, t.Any]) -> str:
        """Return the daemon's source tree, which a play may name as it does for the role."""
        found, _refused = self._read(given, (TREE,))
        return str(found.get(TREE) or PACKAGE)


def defaults() -> Values:
    """Return the defaults of the collection's roles."""
    found: Values = {}
    for path in glob.glob(os.path.join(ROOT, "roles", "*", "defaults", "main.yml")):
        with open(path, encoding="utf-8") as stream:
            found.update(yaml.load(stream, LOADER) or {})
    return found
