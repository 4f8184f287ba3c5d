# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What only the node knows: its runtimes, its Python, its room, its package sources, and what else serves its GPUs."""

from __future__ import annotations

import posixpath
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean

from ...._base import space
from ...._base.distributions import too_old
from ...._base.dra import allocation
from ...._base.dra.names import DRA
from ...._base.errors import NodeError
from ...._base.visible_devices import by_handler_alone, value_at
from ...._cdi.machine.driver_files import DriverFiles
from ...._device_plugin import instance_lock as beside
from ...._device_plugin import python as pythons
from ...._device_plugin.machine import python
from ...._device_plugin.machine.status import pod as pod_of
from ...._device_plugin.state import CONFIG
from ...._machine.host import Host
from ...._machine.nvml.calls import pynvml
from ...._machine.room import Room
from ...._node.machine.facts import library_versions, loaded_driver, os_release
from ...._node.users.holders import OURS
from ...._node.users.machine.users import user_of
from ...._runtime.capability import RuntimeCapability
from ...._runtime.machine import nvidia
from ...._runtime.machine.engines import choose
from ...._runtime.machine.kubelet import printed_version, refuse_strategies, runtime_version
from ...._runtime.machine.nvidia import refusal
from ...._runtime.state import CDI, RuntimeOptions
from .. import dra
from .. import node as needs
from ..node import Need
from ..problems import Problem
from .modules import Values, configurations

ENVIRONMENT = "/opt/gpu-node"
MANAGERS = {"apt": "apt-get", "dnf": "dnf", "zypper": "zypper"}
LOCK_SECONDS = 60.0

Params = t.Mapping[str, t.Dict[str, t.Any]]


def check(host: Host, room: Room, values: Values, params: Params) -> t.List[Problem]:
    """Return what the node lacks for modules with these options. What is installed already needs nothing more."""
    old = too_old(os_release(host))
    problems: t.List[Problem] = [needs.too_old(old)] if old else []
    manages, starts = _is(params, "container_runtime"), _is(params, "device_plugin", "started")
    if manages:
        problems += _runtimes(host, params["container_runtime"])
        problems += _read_only(host, room, params["container_runtime"])
    if starts:
        if dra.is_desired(values):
            problems += dra.of_kubelet(values, printed_version(host))
            problems += dra.of_runtime(values, runtime_version(host), managed=manages)
            problems += _library(host, params["device_plugin"])
        pod = pod_of(host)
        problems += [Problem.of(beside.refusal(pod, pod=False))] if pod else _plugins(host, room)
        problems += _unreached(host, values, params["device_plugin"], manages=manages)
        if params["device_plugin"]["allocation"] != DRA:
            problems += map(
                Problem.of, refuse_strategies(host, configurations(params["device_plugin"]))
            )
    problems += _driver_roots(host, params)
    source = params["nvidia_driver"]["source"] if _is(params, "nvidia_driver") else ""
    from_packages = source not in ("", "preinstalled")
    if from_packages and host.exists(needs.PROGRAM):
        problems.append(needs.driver(source))
    fresh = _makes_environment(host, params)
    if fresh:
        problems += _python(host, values)
    installs = from_packages and not (loaded_driver(host) or library_versions(host))
    if installs or fresh:
        problems += _sources(host)
        needed = _needs(host, room, installs, fresh, params)
        problems += needs.lacking(needed, {need.folder: room.space(need.folder) for need in needed})
    return problems


def _is(params: Params, module: str, state: str = "present") -> bool:
    return params.get(module, {}).get("state") == state


def _makes_environment(host: Host, params: Params) -> bool:
    """Return whether the virtual environment is yet to be made, which has what mig and cdi import too."""
    if host.exists(f"{ENVIRONMENT}/current/.complete"):
        return False
    using = _is(params, "mig") or _is(params, "cdi")
    return _is(params, "device_plugin", "started") or (using and pynvml is None)


def _plugins(host: Host, room: Room) -> t.Iterator[Problem]:
    """Yield the device plugins of others that answer. A socket that nobody listens on is nobody's."""
    for name in sorted(host.listdir(needs.SOCKETS)):
        pid = room.listener(f"{needs.SOCKETS}/{name}") if needs.resource(name) else None
        if pid is not None:
            user = user_of(host, pid) if pid else None
            if not (user and user.unit == OURS and not user.pod):
                yield needs.plugin(name, str(user or ""))


def _driver_roots(host: Host, params: Params) -> t.Iterator[Problem]:
    """Yield the roots that options name for the driver and that have none, instead of which nothing else is taken."""
    roots = {}
    if _is(params, "cdi"):
        roots["cdi_driver_root"] = params["cdi"]["driver_root"]
    if _is(params, "device_plugin", "started"):
        for variable, config in configurations(params["device_plugin"]).items():
            named = value_at(config, "flags", "nvidiadriverroot")
            roots[f"{variable}: flags.nvidiaDriverRoot"] = named if isinstance(named, str) else ""
    for place, root in roots.items():
        try:
            DriverFiles(host, root).required_nvml_library()
        except NodeError as error:
            yield Problem(
                place.partition(":")[0], f"{place}: {error.message}: {error.cause}", error.hint
            )


def _unreached(
    host: Host, values: Values, options: t.Dict[str, t.Any], *, manages: bool
) -> t.List[Problem]:
    """Refuse strategies that no runtime of the node carries out, nor one that this run may bring a handler for."""
    mode = values.get("container_runtime_mode") or CDI
    brings = mode != CDI or values.get("container_toolkit_state") == "present"
    if brings or options["allocation"] == DRA:
        return []
    strategies = {
        name: by_handler_alone(configuration)
        for name, configuration in configurations(options).items()
    }
    wrong = {name: chosen for name, chosen in strategies.items() if chosen}
    lacking = nvidia.without(host, leaving=manages) if wrong else ()
    return [Problem.of(refusal(name, wrong[name], lacking)) for name in wrong if lacking]


def _library(host: Host, options: t.Dict[str, t.Any]) -> t.List[Problem]:
    """Refuse a library of HAMi-core that has not the digest that is asked for."""
    library = allocation.verified_library(options["allocation"], options["dra"])
    if library == allocation.NO_LIBRARY:
        return []
    try:
        allocation.verify(library, host.read_bytes(library.path))
    except NodeError as error:
        return [Problem.of(error, "device_plugin")]
    return []


def warnings(host: Host, values: Values, modules: t.Collection[str]) -> t.Tuple[str, ...]:
    """Return what is to be said of a node that may do, and may not."""
    plugin = "device_plugin" in modules
    warning = (
        dra.warning(values, printed_version(host)) if plugin and dra.is_desired(values) else ""
    )
    package = _package(host, values) if plugin else ""
    manager = "mig" in modules and host.exists(needs.MIG_MANAGER_ENABLED)
    mig_manager = needs.MIG_MANAGER_WARNING if manager else ""
    return tuple(filter(None, (warning, package, mig_manager, _default_target(host))))


def _default_target(host: Host) -> str:
    """Return the warning of a default target that starts none of the services of a running node, otherwise nothing."""
    name = posixpath.basename(host.readlink(needs.DEFAULT_TARGET) or needs.GRAPHICAL)
    if name in (needs.GRAPHICAL, needs.MULTI_USER):
        return ""
    listed = host.run(["systemctl", "list-dependencies", "--plain", name], check=False)
    starts = listed.rc != 0 or needs.MULTI_USER in listed.out.split()
    return "" if starts else needs.boots_without_services(name)


def _package(host: Host, values: Values) -> str:
    """Return what a node takes from its package sources although it has a wheelhouse; nothing where it has that."""
    made = host.exists(f"{ENVIRONMENT}/current/.complete")
    if made or not values.get("device_plugin_wheelhouse") or not host.which("apt-get"):
        return ""
    python_found = python.find(host, values.get("device_plugin_python") or None)
    if (
        not python_found
        or host.run([python_found, "-c", "import ensurepip, venv"], check=False).rc == 0
    ):
        return ""
    return (
        f"apt installs {pythons.VENV} for the device plugin's virtual environment: no wheelhouse has it, so the"
        " node's package sources or a mirror must"
    )


def _runtimes(host: Host, params: t.Mapping[str, t.Any]) -> t.List[Problem]:
    """Refuse a node whose runtimes are too old for the mode, or that has none."""
    refused = []
    desired = RuntimeOptions(params["mode"], params["handler"], params["handler_path"])
    try:
        for runtime in choose(host, params["name"]):
            try:
                runtime.check(desired)
                return []
            except NodeError as error:
                refused.append(error)
    except NodeError as error:
        refused.append(error)
    return [Problem.of(runtime)._replace(variable="") for runtime in refused[:1]]


def _read_only(host: Host, room: Room, params: t.Mapping[str, t.Any]) -> t.List[Problem]:
    """Refuse a runtime whose configuration has to be changed and can't be. What has all that it needs is not."""
    try:
        kinds = [runtime.kind for runtime in choose(host, params["name"])]
        paths = [params["config_path"] or kind.config_path for kind in kinds]
        if not any(room.space(posixpath.dirname(path)).read_only for path in paths if path):
            return []
        states = RuntimeCapability(host, params).observe().states
    except NodeError as error:
        return [Problem.of(error)._replace(variable="")]
    folders = dict.fromkeys(
        posixpath.dirname(file.path) for state in states for file in state.files
    )
    folder_needs = [Need(folder, 0, "the container runtime's configuration") for folder in folders]
    return needs.lacking(folder_needs, {folder: room.space(folder) for folder in folders})


def _python(host: Host, values: Values) -> t.List[Problem]:
    """Refuse a node without a Python that the environment can be made with."""
    named = values.get("device_plugin_python") or None
    if python.find(host, named):
        return []
    install = boolean(values.get("device_plugin_install_python", False), strict=False)
    try:
        pythons.steps(python.missing(host, named, LOCK_SECONDS), named, install=install)
    except NodeError as error:
        return [Problem.of(error, "device_plugin")]
    return []


def _sources(host: Host) -> t.List[Problem]:
    """Refuse package managers without any source. Whether those that there are answer is not asked."""
    there = [name for name, program in MANAGERS.items() if host.which(program)]
    places = [place for name in there for place in needs.SOURCES[name]]
    for place in places:
        if host.listdir(place) or (place.endswith(".list") and (host.read(place) or "").strip()):
            return []
    return [needs.no_sources(there[0])] if there else []


def _needs(host: Host, room: Room, installs: bool, fresh: bool, params: Params) -> t.List[Need]:
    result = []
    if fresh:
        result += [
            Need(ENVIRONMENT, space.ENVIRONMENT, "the device plugin's virtual environment"),
            Need(posixpath.dirname(CONFIG), 0, "its configuration"),
        ]
    if installs:
        result.append(Need("/usr", needs.DRIVER, "the driver"))
        result.append(Need("/var", needs.PACKAGES, "its packages"))
        names = (name for name in host.listdir("/boot") if name.startswith("init"))
        images = needs.initramfs([room.size(f"/boot/{name}") for name in names])
        result += [Need("/boot", images, "a new initramfs")] if images else []
    if "cdi" in params:
        result.append(Need(posixpath.dirname(params["cdi"]["path"]), 0, "the CDI specification"))
    return result
