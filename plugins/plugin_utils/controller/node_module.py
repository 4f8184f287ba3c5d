# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of every module of this collection: it checks what the node answers."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpu.node.plugins.plugin_utils.controller import answers
from ansible_collections.gpu.node.plugins.plugin_utils.controller.declared import hostname

display = Display()
STEP = (
    "see what runs in the place of the module: the node's Python, which ansible_python_interpreter names, and who has"
    " become root there"
)


class NodeModuleAction(ActionBase):  # type: ignore[misc]
    """Runs a module on the node, and keeps of its answer what the module documents.

    ``INTERNAL_KEYS`` describes, as RETURN does, what a module answers its action alone, and more of what RETURN has
    without its parts.
    """

    INTERNAL_KEYS: answers.Shape = {}

    def run_module(
        self, args: t.Mapping[str, t.Any], task_vars: t.Any, module: str = ""
    ) -> answers.Answer:
        """Return the checked answer of a module, by default of the task's; one of another shape is a failure."""
        name = module or self._task.resolved_action or self._task.action
        answer = self._execute_module(module_name=name, module_args=dict(args), task_vars=task_vars)
        return self.checked(answer, name, task_vars)

    def checked(self, answer: answers.Answer, name: str, task_vars: t.Any) -> answers.Answer:
        """Return what the module documents of an answer; the names of what else it has are warned of."""
        host = hostname(task_vars)
        shape = {**answers.documented(name.rpartition(".")[2]), **self.INTERNAL_KEYS}
        result = answers.check(answer, shape)
        if result.dropped and not result.problem:
            display.warning(
                f"{name}: {host}: left out of the answer, as {name} does not return it:"
                f" {answers.described_keys(result.dropped)}. Next step: {STEP}"
            )
        if not result.problem:
            return result.answer
        return {
            "failed": True,
            "msg": f"{name}: {host}: the answer is not that of {name}: {result.problem}."
            f" Next step: {STEP}",
        }
