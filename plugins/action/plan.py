# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.plan: that of gpu.node.preflight, and what the daemon's release would be."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpu.node.plugins.action.preflight import ROOT, WHEELHOUSE, Problems, Values
from ansible_collections.gpu.node.plugins.action.preflight import ActionModule as PreflightAction
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.parts import (
    BY_NAME,
    ENVIRONMENT,
    PARTS,
    chosen,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.problems import Problem
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import package

TREE = "__device_plugin_package"
PACKAGE = os.path.join(ROOT, "files", "gpu_plugin")
USERS = frozenset((*BY_NAME[ENVIRONMENT].tags, "driver"))
# Whether the tags of the run choose the parts, and whether a node is validated.
BY_TAGS = "__common_plan_by_tags"


class ActionModule(PreflightAction):
    """Runs the module on what the play has set; what it has not set has the default of its role."""

    MODULE = "gpu.node.plan"

    def _more(
        self, args: Values, values: Values, refused: Problems, task_vars: t.Mapping[str, t.Any]
    ) -> Values:
        """Return what the tags of the run choose, and the release that the daemon's source tree and the wheels make."""
        return {**_tagged(args, task_vars), **self._release(args, values, refused, task_vars)}

    def _release(
        self, args: Values, values: Values, refused: Problems, task_vars: t.Mapping[str, t.Any]
    ) -> Values:
        if USERS.isdisjoint(args.get("components", USERS)) or any(
            problem.variable == WHEELHOUSE for problem in refused
        ):
            return {}
        try:
            # A play may name the source tree as it does for the role.
            named, _refused = self._read(task_vars, (TREE,))
            release = package(str(named.get(TREE) or PACKAGE), values.get(WHEELHOUSE))
        except NodeError as error:
            refused.append(Problem.of(error, "device_plugin"))
            return {}
        return {"daemon": {"digest": release.digest, "units": release.units}}


def _tagged(args: Values, task_vars: t.Mapping[str, t.Any]) -> Values:
    if not task_vars.get(BY_TAGS):
        return {}
    tags = task_vars["ansible_run_tags"], task_vars["ansible_skip_tags"]
    validates = args.get("validate", False) if chosen(["validate"], *tags) else False
    return {
        "parts": [part.name for part in PARTS if chosen(part.tags, *tags)],
        "validate": validates,
    }
