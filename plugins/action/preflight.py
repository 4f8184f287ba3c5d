# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.preflight: it takes the variables from the play, and checks what is with it."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.loader import lookup_loader
from ansible_collections.gpu.node.plugins.module_utils._base.dra import allocation
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import cut
from ansible_collections.gpu.node.plugins.module_utils._base.variables import in_variables
from ansible_collections.gpu.node.plugins.module_utils._checks.parts import MODULES
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import (
    cluster,
    modules,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.problems import Problem
from ansible_collections.gpu.node.plugins.module_utils._generated.device_plugin import SPEC
from ansible_collections.gpu.node.plugins.module_utils._generated.variables import VARIABLES
from ansible_collections.gpu.node.plugins.plugin_utils.controller import declared
from ansible_collections.gpu.node.plugins.plugin_utils.controller.answers import documented
from ansible_collections.gpu.node.plugins.plugin_utils.controller.daemon import imported
from ansible_collections.gpu.node.plugins.plugin_utils.controller.node_module import (
    NodeModuleAction,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.unread import unread

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of no module's, but with values that can be wrong.
OTHERS = ("gpu_nodes_cloud_init_timeout", "mig_reboot_timeout", "nvidia_driver_reboot_timeout")
OTHERS += (cluster.KUBECONFIG, cluster.CONTEXT, modules.EARLIER_HANDLER_PATH)
# Which the role common makes absolute.
KUBECONFIG = "__common_kubeconfig"
WHEELHOUSE = "device_plugin_wheelhouse"
RELEASES, EMPTY = "nvidia_driver_releases", "(an empty file)"
# It may hold a password, and is checked when the environment is made, which is before all else.
SECRET = "device_plugin_index_url"
WAY = "have gpu.node.bundle fill one, as docs/operations/air-gap.md has it"
# By what is said where a module could not even start.
STEPS = {
    "sudoers": "give the user sudo on the node, or name another one in ansible_user",
    "sudo: ": "see that the user has sudo on the node, and give its password (--ask-become-pass)",
    "interpreter": "install python3 on the node, by a task with ansible.builtin.raw if need be, or name one in"
    " ansible_python_interpreter",
    "SyntaxError: ": "name a Python of 3.9 or later in ansible_python_interpreter; a system that has none, such as"
    " CentOS 7, is not supported: docs/reference/systems.md",
}
NAMES = tuple(
    name
    for module in dict.fromkeys(MODULES.values())
    for name in VARIABLES[module].values()
    if name not in (SECRET, WHEELHOUSE)
)

Problems = t.List[Problem]
Values = t.Dict[str, t.Any]


class ActionModule(NodeModuleAction):
    """Runs the module on what the play has set, with what the controller refuses of it."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    MODULE = "gpu.node.preflight"
    INTERNAL_KEYS = {"gpu_info": documented("gpu_info")["gpu_info"]}

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        pinned, unreadable = declared.pin(self._task, self._templar, task_vars or {})
        values, refused = args.get("variables"), []
        if not values:
            names = (*NAMES, *OTHERS, modules.SHARING, WHEELHOUSE)
            values, refused = self._read(pinned, names)
            refused += [Problem(*problem) for problem in unreadable if problem.name in names]
            values.update(self._releases(values, pinned))
        refused += unread(values)
        if "device_plugin" in args.get("components", ["device_plugin"]):
            refused += [*configurations(values), *wheelhouse(values)]
            refused += self._cluster(values, pinned)
        args.update(self._more(args, values, refused, pinned))
        shown = [problem._asdict() for problem in refused]
        args.update(variables=values, refused=shown)
        return explained(self.run_module(args, task_vars, self.MODULE))

    def _more(
        self, args: Values, values: Values, refused: Problems, task_vars: t.Mapping[str, t.Any]
    ) -> Values:
        """Return what the module is given besides; ``refused`` takes what is wrong with it."""
        return {}

    def _releases(self, values: Values, task_vars: t.Mapping[str, t.Any]) -> Values:
        """Return what is in the file that the table of the driver's releases is named by, as its role reads it."""
        named = values.get(RELEASES)
        if not isinstance(named, str):
            return {}
        lookup = lookup_loader.get(
            "ansible.builtin.first_found", loader=self._loader, templar=self._templar
        )
        tables = lookup.run([[named]], dict(task_vars), skip=True)
        return {RELEASES: self._loader.load_from_file(tables[0]) or EMPTY} if tables else {}

    def _cluster(self, values: Values, task_vars: t.Mapping[str, t.Any]) -> Problems:
        """Ask the cluster, where there is a kubeconfig and DRA is wanted, what it lacks."""
        if not values.get(cluster.KUBECONFIG):
            return []
        named, _refused = self._read(task_vars, (KUBECONFIG,))
        absolute = named.get(KUBECONFIG) or values[cluster.KUBECONFIG]
        return cluster.check({**values, cluster.KUBECONFIG: absolute})

    def _read(
        self, task_vars: t.Mapping[str, t.Any], names: t.Iterable[str]
    ) -> t.Tuple[Values, Problems]:
        """Return the values of those variables that are there, and what can't be read."""
        values: Values = {}
        refused: Problems = []
        for name in names:
            if name in task_vars:
                try:
                    values[name] = self._templar.template(task_vars[name])
                except AnsibleError as error:
                    refused.append(Problem(name, f"{name}: it can't be read: {error}"))
        return values, refused


def explained(answer: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return an answer with a next step where no module of ours could run, which is the first thing that would."""
    if not answer.get("failed") or "module_stdout" not in answer:
        return answer
    output = str(answer.get("module_stderr") or "").strip() or str(answer["module_stdout"]).strip()
    text = (
        f"{str(answer.get('msg', '')).rstrip('.')}: {cut(output)}" if output else answer.get("msg")
    )
    whole = f"{answer.get('msg', '')} {output}"
    step = next((step for word, step in STEPS.items() if word in whole), "")
    return {**answer, "msg": f"{text}. Next step: {step}" if step else text}


def wheelhouse(values: t.Mapping[str, t.Any]) -> Problems:
    """Refuse a folder that is not there; what is in it is checked where it is sent."""
    folder = values.get(WHEELHOUSE)
    if not folder or not isinstance(folder, str):
        return []
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if any(name.endswith(".whl") for name in names):
        return []
    problem = Problem.value(WHEELHOUSE, folder, "a folder with wheels on the controller")
    return [problem._replace(hint=WAY)]


def configurations(values: t.Mapping[str, t.Any]) -> Problems:
    """Return what the daemon would refuse of its configurations, in the words of its own parser."""
    if modules.state("device_plugin", values) != "started":
        return []
    options = modules.options("device_plugin", values)
    result = []
    for name, config in modules.configurations(options).items():
        shared = values.get(modules.SHARING) and name == modules.CONFIG
        result += _refused(
            name, _with_allocation(options, config), modules.SHARING if shared else ""
        )
    return result


def _with_allocation(options: Values, config: Values) -> Values:
    """Return a configuration as the module writes it; what it refuses itself is left for it to say."""
    known = SPEC["argument_spec"]["dra"]["options"].items()
    asked = {**{name: option["default"] for name, option in known}, **options.get("dra", {})}
    chosen = str(options.get("allocation") or "device_plugin")
    try:
        allocation.check(chosen, asked)
        return dict(allocation.configured("config", config, chosen, asked))
    except (NodeError, TypeError):
        return config


def _by_variables(problem: Problem) -> Problem:
    """Return a problem with the variables of the role in the place of the keys that the module writes."""
    text, hint, first = problem.text, problem.hint, ""
    for key, option in allocation.OPTIONS.items():
        variable = in_variables("device_plugin", option)
        first = first or (variable if key in text else "")
        text, hint = text.replace(key, variable), hint.replace(key, variable)
    if first:
        text = re.sub(r"^\w+(?:\.\w+)?: ", "", text)
    return Problem(first or problem.variable, text, hint)


def _refused(name: str, config: Values, sharing: str = "") -> Problems:
    """Return the error of the daemon's parser, with keys in the place of lines of a file that nobody wrote."""
    daemon = imported("gpu_plugin.config.configuration")
    errors = imported("gpu_plugin.config.strict_yaml")
    source = "\0"
    try:
        daemon.parse(json.dumps(config, indent=2), source)
    except errors.ConfigError as error:
        lines = rf"(?:, at |first at )?{source}: (?:line \d+(?:: )?)?"
        text, cause = (re.sub(lines, "", part) for part in (error.message, error.cause))
        key = text.replace("unknown key ", "", 1)
        if sharing and re.match(r"sharing\b", key):
            name = sharing
        text = f"{name}: {text}"
        whole = Problem(name.partition(".")[0], f"{text}: {cause}" if cause else text, error.hint)
        return [_by_variables(whole)]
    return []
