# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The modules of a bring-up, given the variables as their roles would: what they refuse is known before they run."""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean

from ...._base.errors import InputError, NodeError
from ...._base.options import DEFAULTS, OMITTED, VARIABLES
from ...._cdi import capability as cdi
from ...._cdi.options import SPEC as CDI
from ...._device_plugin import capability as deployment
from ...._device_plugin import role_config
from ...._device_plugin.options import SPEC as DEVICE_PLUGIN
from ...._driver import capability as driver
from ...._driver.options import SPEC as DRIVER
from ...._machine.host import Host
from ...._machine.run import Capability
from ...._mig import capability as mig
from ...._mig.options import SPEC as MIG
from ...._runtime import capability as runtimes
from ...._runtime.options import SPEC as RUNTIME
from ...._software.dcgm import capability as dcgm
from ...._software.dcgm.options import SPEC as DCGM
from ...._software.toolkit import capability as container_toolkit
from ...._software.toolkit.options import SPEC as TOOLKIT
from ..problems import Problem

Values = t.Mapping[str, t.Any]
Params = t.Dict[str, t.Any]
# By what a user calls a part of the bring-up, its module; validation checks nothing before.
COMPONENTS = {
    "driver": "nvidia_driver",
    "runtime": "container_runtime",
    "toolkit": "container_toolkit",
    "mig": "mig",
    "cdi": "cdi",
    "device_plugin": "device_plugin",
    "labels": "device_plugin",
    "dcgm": "dcgm",
    "validate": "validate",
}
CHOICES = re.compile(
    r"value of (?P<option>\w+) must be one of: (?P<choices>.*), got: (?P<value>.*?)(?: found in (?P<whole>\w+))?"
)
EARLIER_HANDLER_PATH = "container_runtime_program"  # of container_runtime_handler_path
HANDLER_LABEL = "gpu.node/runtime-handler"
SHARING = "device_plugin_sharing"


class Part(t.NamedTuple):
    """A module: its argument spec, and its capability as in check mode, NodeError where options can't be meant."""

    spec: t.Mapping[str, t.Any]
    make: t.Callable[[Host, Params], Capability[t.Any]]


PARTS: t.Mapping[str, Part] = {
    "nvidia_driver": Part(
        DRIVER, lambda host, params: driver.DriverCapability(host, params, check_mode=True)
    ),
    "container_toolkit": Part(
        TOOLKIT,
        lambda host, params: container_toolkit.ToolkitCapability(host, params, check_mode=True),
    ),
    "container_runtime": Part(RUNTIME, runtimes.RuntimeCapability),
    "mig": Part(MIG, lambda host, params: mig.MigCapability(host, params, check_mode=True)),
    "cdi": Part(CDI, lambda host, params: cdi.CdiCapability(host, params, check_mode=True)),
    "device_plugin": Part(
        DEVICE_PLUGIN,
        lambda host, params: deployment.DevicePluginCapability(host, params, check_mode=True),
    ),
    "dcgm": Part(DCGM, lambda host, params: dcgm.DcgmCapability(host, params, check_mode=True)),
}


def state(module: str, values: Values) -> str:
    """Return what the module is to bring its part to, where a user says nothing what its role does."""
    variable = VARIABLES[module]["state"]
    known = PARTS[module].spec["argument_spec"]["state"]["default"]
    return str(values.get(variable, DEFAULTS.get(variable, known)))


def runs(module: str, values: Values) -> bool:
    """Tell whether the module's role does anything with these variables."""
    if module == "mig" and state(module, values) == "present":
        by_label = boolean(values.get("mig_by_label", False), strict=False)  # -e gives a text
        return by_label or any(values.get(one) for one in ("mig_config", "mig_selected"))
    return module in PARTS and state(module, values) != "unmanaged"


def options(module: str, values: Values) -> Params:
    """Return a module's options as its role gives them; variables that are not there have its defaults."""
    found = _given(module, values)
    if isinstance(found.get("repository"), str):
        found["repository"] = {"preset": found["repository"]}
    if module == "container_runtime" and EARLIER_HANDLER_PATH in values:
        found["handler_path"] = values[EARLIER_HANDLER_PATH]
    if module == "device_plugin":
        found.update(digest="preflight", **_composed(found, values))
    return found


def _composed(found: Params, values: Values) -> Params:
    """Return the options of the device plugin that its role makes of several variables."""
    labels = dict(found.get("labels", {}))
    if "labels" not in values.get("gpu_nodes_components", ["labels"]):
        labels["output"] = "off"
    if values.get("container_runtime_mode") == "runtime_class":
        handler = values.get("container_runtime_handler", "nvidia")
        labels["extra"] = {HANDLER_LABEL: handler, **(labels.get("extra") or {})}
    config = role_config.whole(found.get("config"), values.get(SHARING))
    configs = role_config.all_whole(found.get("configs", {}))
    return {"labels": labels, "config": config, "configs": configs}


def _given(module: str, values: Values) -> Params:
    found: Params = {}
    omitted = OMITTED.get(module, ())
    for name, variable in VARIABLES[module].items():
        value = values.get(variable)
        if value is None or (name in omitted and not value):
            continue
        whole, _dot, part = name.partition(".")
        if part:
            found.setdefault(whole, {})[part] = value
        else:
            found[name] = value
    return found


def check(host: Host, module: str, values: Values) -> t.Tuple[t.List[Problem], Params]:
    """Return what the module would refuse of its options, and those options with their defaults."""
    part = PARTS[module]
    result = ArgumentSpecValidator(part.spec["argument_spec"]).validate(options(module, values))
    if result.error_messages:
        return [_in_variables(module, one) for one in result.error_messages], {}
    params = result.validated_parameters
    try:
        part.make(host, params)
    except NodeError as error:
        return [Problem.of(error, module)], params
    return [], params


def _in_variables(module: str, message: str) -> Problem:
    """Return what Ansible says of an option, in the variables of the role."""
    chosen = CHOICES.fullmatch(message)
    if chosen:
        expected, value = f"one of: {chosen['choices']}", chosen["value"]
        option = ".".join(filter(None, (chosen["whole"], chosen["option"])))
        return Problem.of(InputError.of(option, value, expected), module)
    for name, variable in VARIABLES[module].items():
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", variable, message, count=1)
        if text != message:
            return Problem(variable, text)
    return Problem("", message)
