# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The part of gpu.node.device_plugin that deploys node labels."""

from __future__ import annotations

import json
import posixpath
import typing as t

from ..._core.agent.labels import (
    CONFIG,
    CONFIGS,
    DEFAULT,
    HEADER,
    SETTINGS,
    UNIT,
    Desired,
    Observed,
    check_configs,
    environment,
    settings,
)
from ..._core.errors import NodeError
from ..._core.steps import Step
from ..._host.api import Host
from ..._host.systemd import properties
from ..nodeinfo import environment as environment_of

UNIT_FILE = f"/etc/systemd/system/{UNIT}"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
PATIENCE = 60.0
OPTIONS: t.Dict[str, t.Any] = {
    "labels": {
        "type": "dict",
        "options": {
            "output": {
                "type": "str",
                "choices": ["api", "file", "node-feature", "off"],
                "default": "api",
            },
            "kubeconfig": {"type": "str", "default": ""},
            "node_name": {"type": "str", "default": ""},
            "namespace": {"type": "str", "default": ""},
            "extra": {"type": "dict", "default": {}},
            "default_config": {"type": "str", "default": ""},
        },
    },
    "configs": {"type": "dict", "default": {}},
    "labels_unit": {"type": "str"},
}


def text_of(config: t.Mapping[str, t.Any]) -> str:
    """Return a configuration's file."""
    return f"{HEADER}{json.dumps(config, indent=2)}\n"


class NodeLabels:
    """Observes and changes what belongs to labels; ``left`` says why labels could not be removed."""

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], config: str) -> None:
        self._host, self._params = host, params
        self._bin = f"{params['prefix']}/bin/gpu-plugin"
        self.left = ""
        labels, configs = params["labels"], params["configs"] or {}
        check_configs(configs, labels is not None or params["state"] != "started")
        texts = {name: text_of(one) for name, one in configs.items()}
        if params["state"] == "absent":
            texts = {}  # what is there goes, whichever way it came
        self.config_file = f"{CONFIGS}/{DEFAULT}" if texts else CONFIG
        self.default = texts.get(DEFAULT, config)
        if texts:
            texts[DEFAULT] = self.default
        self.desired = Desired(
            params["state"],
            labels is not None,
            settings(labels, choosing=bool(texts)) if labels is not None else "",
            params["labels_unit"] or "",
            params["digest"] or "",
            texts,
        )

    def observe(self) -> Observed:
        """Read files, the link and the service."""
        host = self._host
        service = properties(host, UNIT, "ActiveState", "UnitFileState", "MainPID")
        started = environment_of(host, service)
        names = [name for name in host.listdir(CONFIGS) if not name.startswith(".")]
        return Observed(
            settings=host.read(SETTINGS),
            unit=host.read(UNIT_FILE),
            service=service,
            running=started.get("GPU_NODE_RELEASE", ""),
            applied=started.get("GPU_LABELS_SETTINGS", ""),
            configs={name: host.read(f"{CONFIGS}/{name}") or "" for name in names},
            link=host.readlink(CONFIG),
        )

    def read_config(self) -> t.Optional[str]:
        """Return the configuration that the module keeps; a link that must go counts for nothing."""
        if self.config_file == CONFIG and self._host.readlink(CONFIG) is not None:
            return None
        return self._host.read(self.config_file)

    def write_config(self, path: str, text: str) -> None:
        """Write a configuration that the daemon takes. NodeError: it does not."""
        folder, name = posixpath.split(path)
        trial = f"{folder}/.{name}.trial"
        self._host.write(trial, text, mode=0o644)
        asked = ["--node"] if path == self.config_file else []  # others are for another day
        try:
            done = self._host.run([self._bin, "check-config", *asked, trial], check=False)
        finally:
            self._host.remove(trial)
        if done.rc:
            where = "config" if path == self.config_file else f"configs: {name}"
            raise NodeError(f"{where}: the daemon refuses it", cause=(done.err or done.out).strip())
        if path == CONFIG and self._host.readlink(CONFIG) is not None:
            self._host.remove(CONFIG)  # what it leads to is another configuration
        self._host.write(path, text, mode=0o644)

    def apply(self, step: Step) -> None:
        """Carry out one of the steps whose names begin with labels."""
        getattr(self, f"_do_{step.action}")(**step.params)

    def _do_labels_pause(self) -> None:
        self._host.run(["systemctl", "stop", UNIT])

    def _do_labels_config(self, name: str, text: str) -> None:
        self.write_config(f"{CONFIGS}/{name}", text)

    def _do_labels_link(self) -> None:
        self._host.symlink(f"{CONFIGS}/{DEFAULT}", CONFIG)

    def _do_labels_unlink(self) -> None:
        if self._host.readlink(CONFIG) is not None:  # writing the file may have done it
            self.write_config(CONFIG, self.default)

    def _do_labels_forget(self, name: str) -> None:
        self._host.remove(f"{CONFIGS}/{name}")
        if not self._host.listdir(CONFIGS):
            self._host.remove(CONFIGS)

    def _do_labels_forget_all(self) -> None:
        if self._host.readlink(CONFIG) is not None:
            self._host.remove(CONFIG)
        self._host.remove(CONFIGS)

    def _do_labels_settings(self, text: str) -> None:
        if environment(text).get("GPU_LABELS_WAY") == "file":
            flags = (self._params["config"] or {}).get("flags") or {}
            self._host.makedirs(
                posixpath.dirname((flags.get("gfd") or {}).get("outputFile") or FEATURES)
            )
        self._host.write(SETTINGS, text, mode=0o644)

    def _do_labels_unit(self, text: str) -> None:
        self._host.write(UNIT_FILE, text, mode=0o644)
        self._host.run(["systemctl", "daemon-reload"])

    def _do_labels_enable(self) -> None:
        self._host.run(["systemctl", "enable", UNIT])

    def _do_labels_restart(self) -> None:
        self._host.run(["systemctl", "daemon-reload"])
        if self._host.run(["systemctl", "restart", UNIT], check=False).rc == 0:
            return
        words = ["journalctl", "--unit", UNIT, "--lines", "10", "--no-pager", "--output", "cat"]
        raise NodeError(
            f"{UNIT} does not start",
            cause=self._host.run(words, check=False).out.strip() or "it has logged nothing",
            hint=f"see 'systemctl status {UNIT}' on the node",
        )

    def _do_labels_stop(self) -> None:
        self._host.run(["systemctl", "disable", "--now", UNIT], check=False)

    def _do_labels_take_back(self, text: str) -> None:
        """Remove our labels. A node that has left its cluster can't, and goes on without."""
        self._host.run(["systemctl", "stop", UNIT], check=False)
        words = [self._bin, "labels", "--config", CONFIG, "--remove"]
        done = self._host.run(words, check=False, env=environment(text), timeout=PATIENCE)
        self.left = (done.err or done.out).strip() if done.rc else ""

    def _do_labels_remove(self) -> None:
        self._host.remove(UNIT_FILE)
        self._host.remove(SETTINGS)
        self._host.run(["systemctl", "daemon-reload"])
