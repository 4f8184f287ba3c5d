# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ansible's inventory of the machines that the environment names, and their variables.

GPU_VM_HOSTS: user@host:port, comma-separated, each a host of its own; user and port may be left out. GPU_VM_USER,
GPU_VM_PORT and GPU_VM_KEY are for those that leave them out. GPU_VM_VARS: a file of variables, as of a group.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SSH = "-o StrictHostKeyChecking=accept-new"


class WrongError(Exception):
    """What the user has set can't be used."""


def machine(word: str, env: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return a machine's name in the inventory and how to reach it; raises WrongError."""
    if word == "localhost":  # the name is Ansible's own for where molecule's own plays run
        return "this-machine", {"ansible_connection": "local", "ansible_become": os.geteuid() != 0}
    expected = f"GPU_VM_HOSTS: {word!r} is not valid: expected host, user@host or user@host:port"
    try:
        parts = urllib.parse.urlsplit(f"//{word}")
        host, port = parts.hostname, parts.port or int(env.get("GPU_VM_PORT") or 22)
    except ValueError as error:
        raise WrongError(f"{expected} ({error})") from error
    if not host or parts.path or parts.password:
        raise WrongError(expected)
    user = parts.username or env.get("GPU_VM_USER") or "root"
    reach: dict[str, Any] = {
        "ansible_become": user != "root",
        "ansible_host": host,
        "ansible_port": port,
        "ansible_user": user,
        "ansible_ssh_common_args": SSH,
    }
    if key := env.get("GPU_VM_KEY"):
        reach["ansible_ssh_private_key_file"] = str(existing("GPU_VM_KEY", key))
    name = host.replace(":", "-")
    plain = host not in LOOPBACK and parts.port is None
    return (name if plain else f"vm-{name}-{port}"), reach


def existing(variable: str, path: str) -> Path:
    """Return the path of a file that must be there; raises WrongError."""
    found = Path(path).expanduser().absolute()
    if not found.is_file():
        raise WrongError(f"{variable}: {path} is no file. Next step: name one that is there")
    return found


def variables(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of all machines; raises WrongError."""
    path = env.get("GPU_VM_VARS")
    if not path:
        return {}
    try:
        found = yaml.safe_load(existing("GPU_VM_VARS", path).read_text()) or {}
    except yaml.YAMLError as error:
        raise WrongError(f"GPU_VM_VARS: {path} is no YAML: {error}") from error
    if not isinstance(found, dict):
        raise WrongError(f"GPU_VM_VARS: {path} is not valid: expected variables, as `name: value`")
    return found


def inventory(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the inventory; raises WrongError."""
    words = [one.strip() for one in env.get("GPU_VM_HOSTS", "").split(",")]
    hosts = dict(machine(one, env) for one in words if one)
    if not hosts:
        raise WrongError(
            "GPU_VM_HOSTS is empty. Next step: set it to machines with NVIDIA GPUs that may be changed,"
            " as GPU_VM_HOSTS=root@10.0.0.5,ubuntu@10.0.0.6:2222"
        )
    if len(hosts) < len([one for one in words if one]):
        raise WrongError("GPU_VM_HOSTS names a machine twice. Next step: name each once")
    return {
        "_meta": {"hostvars": hosts},
        "gpu_nodes": {"hosts": list(hosts), "vars": variables(env)},
    }


def main() -> None:
    """Print the inventory, as Ansible asks for it."""
    try:
        print(json.dumps(inventory(os.environ), indent=1))
    except WrongError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
