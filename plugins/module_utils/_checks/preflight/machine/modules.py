# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The modules of a bring-up, given the variables as their roles would: what they refuse is known before they run."""

from __future__ import annotations

import re
import typing as t
from functools import partial

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean

from ...._base.errors import InputError, NodeError
from ...._cdi.capability import CdiCapability
from ...._device_plugin import role_config
from ...._device_plugin.capability import DevicePluginCapability
from ...._driver.capability import DriverCapability
from ...._generated.accept import SPEC as ACCEPT
from ...._generated.cdi import SPEC as CDI
from ...._generated.container_runtime import SPEC as RUNTIME
from ...._generated.container_toolkit import SPEC as TOOLKIT
from ...._generated.dcgm import SPEC as DCGM
from ...._generated.device_plugin import SPEC as DEVICE_PLUGIN
from ...._generated.host import SPEC as HOST
from ...._generated.mig import SPEC as MIG
from ...._generated.nvidia_driver import SPEC as DRIVER
from ...._generated.settings import SPEC as SETTINGS
from ...._generated.variables import DEFAULTS, OMITTED, VARIABLES
from ...._machine.host import Host
from ...._machine.run import Capability
from ...._mig.capability import MigCapability
from ...._runtime.capability import RuntimeCapability
from ...._software.toolkit.capability import ToolkitCapability
from ..problems import Problem

Values = t.Mapping[str, t.Any]
Params = t.Dict[str, t.Any]
CHOICES = re.compile(
    r"value of (?P<option>\w+) must be one of: (?P<choices>.*), got: (?P<value>.*?)(?: found in (?P<whole>\w+))?"
)
EARLIER_HANDLER_PATH = "container_runtime_program"  # of container_runtime_handler_path
HOST_VARIABLES = tuple(
    f"host_{name}" for name in HOST["argument_spec"] if name not in ("state", "lock_timeout")
)
HANDLER_LABEL = "gpu.node/runtime-handler"
CONFIG, CONFIGS, SHARING = (
    f"device_plugin_{suffix}" for suffix in ("config", "configs", "sharing")
)


class Module(t.NamedTuple):
    """A module: its argument spec, and its capability as in check mode, NodeError where options can't be meant."""

    spec: t.Mapping[str, t.Any]
    make: t.Callable[[Host, Params], Capability[t.Any]]


# What a look loads is compiled on the node each time, so what few nodes ask for is loaded where they do.
def _host(host: Host, params: Params) -> Capability[t.Any]:
    from ...._host.capability import HostCapability

    return HostCapability(host, params)


def _settings(host: Host, params: Params) -> Capability[t.Any]:
    from ...._settings.capability import SettingsCapability

    return SettingsCapability(host, params, check_mode=True)


def _dcgm(host: Host, params: Params) -> Capability[t.Any]:
    from ...._software.dcgm.capability import DcgmCapability

    return DcgmCapability(host, params, check_mode=True)


def _accept(host: Host, params: Params) -> Capability[t.Any]:
    from ...._accept.capability import AcceptCapability

    return AcceptCapability(host, params, check_mode=True, before_driver=True)


MODULES: t.Mapping[str, Module] = {
    "host": Module(HOST, _host),
    "nvidia_driver": Module(DRIVER, partial(DriverCapability, check_mode=True)),
    "container_toolkit": Module(TOOLKIT, partial(ToolkitCapability, check_mode=True)),
    "container_runtime": Module(RUNTIME, RuntimeCapability),
    "mig": Module(MIG, partial(MigCapability, check_mode=True)),
    "settings": Module(SETTINGS, _settings),
    "cdi": Module(CDI, partial(CdiCapability, check_mode=True)),
    "device_plugin": Module(DEVICE_PLUGIN, partial(DevicePluginCapability, check_mode=True)),
    "dcgm": Module(DCGM, _dcgm),
    "accept": Module(ACCEPT, _accept),
}


def state(module: str, values: Values) -> str:
    """Return what the module is to bring its part to, where a user says nothing what its role does."""
    variable = VARIABLES[module]["state"]
    known = MODULES[module].spec["argument_spec"]["state"]["default"]
    return str(values.get(variable, DEFAULTS.get(variable, known)))


def runs(module: str, values: Values) -> bool:
    """Return whether the module's role does anything with these variables."""
    if module == "mig" and state(module, values) == "present":
        by_label = boolean(values.get("mig_by_label", False), strict=False)  # -e gives a text
        return by_label or any(values.get(variable) for variable in ("mig_config", "mig_selected"))
    if module == "settings" and state(module, values) == "present":
        return bool(values.get("settings_rules"))
    if module == "host" and state(module, values) == "present":
        return any(
            values.get(variable) not in (None, "", {}, "unmanaged") for variable in HOST_VARIABLES
        )
    if module == "accept":
        return values.get(VARIABLES["accept"]["gate"]) is not None
    return module in MODULES and state(module, values) != "unmanaged"


def options(module: str, values: Values) -> Params:
    """Return a module's options as its role gives them; variables that are not there have its defaults."""
    result = _options_of(module, values)
    if isinstance(result.get("repository"), str):
        result["repository"] = {"preset": result["repository"]}
    if module == "container_runtime" and EARLIER_HANDLER_PATH in values:
        result["handler_path"] = values[EARLIER_HANDLER_PATH]
    if (
        module == "accept"
    ):  # a bring-up lets GPUs in and takes none; validation says which were refused
        result.update(on_busy="skip", fail=False)
    if module == "device_plugin":
        result.update(digest="preflight", **_composed(result, values))
    return result


def _composed(composed: Params, values: Values) -> Params:
    """Return the options of the device plugin that its role makes of several variables."""
    labels = dict(composed.get("labels", {}))
    if "labels" not in values.get("gpu_nodes_components", ["labels"]):
        labels["output"] = "off"
    if values.get("container_runtime_mode") == "runtime_class":
        handler = values.get("container_runtime_handler", "nvidia")
        labels["extra"] = {HANDLER_LABEL: handler, **(labels.get("extra") or {})}
    config = role_config.whole(composed.get("config"), values.get(SHARING))
    configs = role_config.all_whole(composed.get("configs", {}))
    return {"labels": labels, "config": config, "configs": configs}


def configurations(options: Params) -> t.Dict[str, Params]:
    """Return the device plugin's configurations by the variables that have them, those that are mappings."""
    named = options["configs"].items() if isinstance(options["configs"], dict) else ()
    by_name = {
        CONFIG: options["config"],
        **{f"{CONFIGS}.{name}": configuration for name, configuration in named},
    }
    return {
        name: configuration
        for name, configuration in by_name.items()
        if isinstance(configuration, dict)
    }


def _options_of(module: str, values: Values) -> Params:
    result: Params = {}
    omitted = OMITTED.get(module, ())
    for name, variable in VARIABLES[module].items():
        value = values.get(variable)
        if value is None or (name in omitted and not value):
            continue
        whole, _dot, part = name.partition(".")
        if part:
            result.setdefault(whole, {})[part] = value
        else:
            result[name] = value
    return result


def check(host: Host, module: str, values: Values) -> t.Tuple[t.List[Problem], Params]:
    """Return what the module would refuse of its options, and those options with their defaults."""
    spec, make = MODULES[module]
    result = ArgumentSpecValidator(spec["argument_spec"]).validate(options(module, values))
    if result.error_messages:
        return [_in_variables(module, error_message) for error_message in result.error_messages], {}
    params = result.validated_parameters
    try:
        make(host, params)
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
