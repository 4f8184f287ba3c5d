# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an example of a page is: variables, a play, tasks, a file of ours, an object of Kubernetes or a part of one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.releases import table
from gpu_cluster.hami import settings as hami
from gpu_plugin.config import configuration
from gpu_plugin.config.strict_yaml import ConfigError

from tests.docs.options import tables
from tests.docs.tables import examples

Json = dict[str, Any]
GROUP = {"hosts", "vars", "children"}
TASK = {"name", "register", "when", "delegate_to", "become", "changed_when", "vars", "loop"}
CONFIG = {"version", *(one.path.partition(".")[0] for one in configuration.KEYS)}
CONFIG |= {"resources", "sharing", "gpuNode"}
# What belongs to others: to kubespray, to Ansible's plays, and to compose.
FOREIGN = {"nvidia_accelerator_enabled", "enable_cdi", "environment", "services"}
# Of the Prometheus operator, whose API server is not ours: what an object has in its spec.
OPERATOR = {
    "ScrapeConfig": {"jobName", "staticConfigs", "kubernetesSDConfigs", "relabelings"},
    "ServiceMonitor": {"namespaceSelector", "selector", "endpoints"},
    "PodMonitor": {"namespaceSelector", "selector", "podMetricsEndpoints"},
}
POD = {"name": "main", "image": "registry.example.com/cuda:13.0-base"}
SHARE = {"name": "share", "exactly": {"deviceClassName": "share.gpu.node"}}
SLICE = {"driver": "gpu.node", "nodeName": "node-1"}
SLICE |= {"pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 2}}


class _Strict(yaml.SafeLoader):
    """YAML without a key that is given twice, of which a reader would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key) for key, _value in node.value]
        if len(set(map(str, names))) < len(names):
            raise yaml.constructor.ConstructorError(
                None, None, f"twice in {names}", node.start_mark
            )
        return super().construct_mapping(node, deep)


def twice(text: str) -> list[str]:
    """Return what is wrong with a text that has a key twice, nothing where it has none."""
    try:
        list(yaml.load_all(text, _Strict))
    except yaml.constructor.ConstructorError as error:
        return [str(error)]
    return []


def objects(data: Any) -> list[Json]:
    """Return the object of Kubernetes that an example is, or is a part of; none where it is neither."""
    if isinstance(data, list):
        devices = all(isinstance(one, dict) and "attributes" in one for one in data)
        return [_object("ResourceSlice", spec={**SLICE, "devices": data})] if devices else []
    if not isinstance(data, dict):
        return []
    if "apiVersion" in data and "kind" in data:
        return [data]
    if set(data) == {"rules"}:
        return [_object("ClusterRole", **data)]
    if set(data) == {"devices"}:
        return [_object("ResourceClaim", spec=data)]
    if set(data) == {"config"}:
        return [_object("ResourceClaim", spec={"devices": {"requests": [SHARE], **data}})]
    if set(data) == {"resources"} and "limits" in data["resources"]:
        return [_object("Pod", spec={"containers": [{**POD, **data}]})]
    if set(data) == {"spec"}:
        spec = data["spec"]
        return [
            _object(
                "Pod", spec={**spec, "containers": [{**POD, **one} for one in spec["containers"]]}
            )
        ]
    return []


API = {"Pod": "v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}


def _object(kind: str, **rest: Any) -> Json:
    group = API.get(kind, "resource.k8s.io/v1")
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "example"}, **rest}


def _keys(data: Any) -> set[str]:
    return set(map(str, data)) if isinstance(data, dict) else set()


def _all(data: Any, has: str) -> bool:
    return isinstance(data, list) and all(isinstance(one, dict) and has in one for one in data)


def _is_inventory(data: Any) -> bool:
    return bool(_keys(data)) and all(_keys(one) and _keys(one) <= GROUP for one in data.values())


def _nothing(_data: Any) -> Iterator[str]:
    yield from ()


def _of_tasks(data: list[Json]) -> Iterator[str]:
    """Yield what the modules of ours refuse of tasks, as far as no template hides it."""
    for task in data:
        named = [key for key in task if key not in TASK]
        if len(named) != 1 or "." not in named[0]:
            yield f"no task: {named}"
        elif named[0].startswith("gpu.node."):
            module = named[0].removeprefix("gpu.node.")
            found = importlib.import_module(
                f"ansible_collections.gpu.node.plugins.modules.{module}"
            )
            spec = ArgumentSpecValidator(found.SPEC["argument_spec"])
            given = task[named[0]] or {}
            yield from map(str, spec.validate(given).error_messages)


def _of_config(data: Json) -> Iterator[str]:
    yield from _read(lambda: configuration.parse(yaml.safe_dump(data)))


def _of_hami(data: Json) -> Iterator[str]:
    yield from _read(lambda: hami.parse(yaml.safe_dump(data), "device-config.yaml", needed=True))


def _of_releases(data: Json) -> Iterator[str]:
    yield from _read(lambda: table.parse(data))


def _of_options(data: Json) -> Iterator[str]:
    yield from _read(lambda: tables.whole(data["options"]))


def _of_objects(data: Any) -> Iterator[str]:
    for one in objects(data):
        if one["apiVersion"].startswith("monitoring.coreos.com/"):
            yield from sorted(set(one["spec"]) - OPERATOR[one["kind"]])


def _read(read: Callable[[], Any]) -> Iterator[str]:
    try:
        read()
    except (ConfigError, NodeError, ValueError) as error:
        yield str(error)


# By the name of a kind, how it is known, and what would refuse it.
KINDS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], Iterator[str]]]] = {
    "play": (examples.is_playbook, _nothing),
    "object of Kubernetes": (lambda data: bool(objects(data)), _of_objects),
    "inventory": (_is_inventory, _nothing),
    "variables": (lambda data: bool(_keys(data)) and _keys(data) <= set(examples.SPECS), _nothing),
    "configuration": (lambda data: bool(_keys(data)) and _keys(data) <= CONFIG, _of_config),
    "configuration of HAMi": (lambda data: _keys(data) == {"nvidia"}, _of_hami),
    "releases": (lambda data: "as_of" in _keys(data), _of_releases),
    "options": (lambda data: _keys(data) == {"options"}, _of_options),
    "nodes to show": (lambda data: _keys(data) == {"nodes"}, _nothing),
    "jobs of Prometheus": (
        lambda data: "scrape_configs" in _keys(data) or _all(data, "job_name"),
        _nothing,  # tests/machine/daemon/report/test_observability.py has Prometheus' own word
    ),
    "tasks": (lambda data: _all(data, "name"), _of_tasks),
    "foreign": (lambda data: bool(_keys(data)) and _keys(data) <= FOREIGN, _nothing),
}


def kind(data: Any) -> str:
    """Return what an example is, empty where nobody knows."""
    return next((name for name, (known, _wrong) in KINDS.items() if known(data)), "")


def wrong(data: Any) -> Iterator[str]:
    """Yield what would refuse an example of its kind."""
    name = kind(data)
    yield from KINDS[name][1](data) if name else ["it is of no kind that a test carries out"]
