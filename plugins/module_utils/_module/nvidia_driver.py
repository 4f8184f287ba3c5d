# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.nvidia_driver."""

from __future__ import annotations

import json
import os
import typing as t

from .._core import apt
from .._core.driver import COMPONENTS, RELEVANT, SERVICE, Desired, Observed, plan
from .._core.errors import NodeError
from .._core.steps import Plan, Step
from .._host.api import Host
from .nodeinfo import gpus, loaded_driver

RECORD = "/var/lib/gpu-node/nvidia_driver.json"
SOURCES = "/etc/apt/sources.list.d/gpu-node.sources"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "version": {"type": "str", "default": ""},
        "kernel_modules": {
            "type": "str",
            "choices": ["auto", "open", "proprietary"],
            "default": "auto",
        },
        "hold": {"type": "bool", "default": True},
        "persistence": {"type": "bool", "default": True},
        "manage_sources": {"type": "bool", "default": True},
        "secure_boot": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "lock_timeout": {"type": "int", "default": 300},
    },
    "supports_check_mode": True,
}


class DriverCapability:
    """Keeps the driver of a Debian node installed, pinned and loaded."""

    name = "nvidia_driver"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._timeout: int = params["lock_timeout"]
        self._desired = Desired(
            **{key: value for key, value in params.items() if key != "lock_timeout"}
        )

    def observe(self) -> Observed:
        """Read the node with a handful of commands."""
        host = self._host
        release = dict(
            line.split("=", 1)
            for line in (host.read("/etc/os-release") or "").splitlines()
            if "=" in line
        )
        distribution = release.get("ID", "unknown").strip('"')
        debian = distribution == "debian"
        kernel = os.uname().release
        driver = loaded_driver(host)
        efi = host.read_bytes(SECURE_BOOT)
        return Observed(
            distribution=distribution,
            codename=release.get("VERSION_CODENAME", "").strip('"'),
            kernel=kernel,
            headers=host.exists(f"/lib/modules/{kernel}/build"),
            gpus=tuple((one.address, one.architecture) for one in gpus(host)),
            policies=self._policies() if debian else {},
            holds=frozenset(host.run(["apt-mark", "showhold"]).out.split())
            if debian
            else frozenset(),
            broken=bool(debian and host.run(["dpkg", "--audit"], check=False).out.strip()),
            loaded=(driver.version, driver.flavour) if driver else None,
            nouveau=host.exists("/sys/module/nouveau"),
            secure_boot=bool(efi and efi[-1] == 1),
            service=self._service(),
            sources_file=host.exists(SOURCES),
            record=json.loads(host.read(RECORD) or "{}"),
        )

    def _policies(self) -> t.Dict[str, apt.Policy]:
        """Return apt's view, with dpkg's word on what is really installed."""
        found = apt.parse_policy(self._host.run(["apt-cache", "policy", *RELEVANT]).out)
        query = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n", *RELEVANT]
        installed = apt.parse_status(self._host.run(query, check=False).out)
        return {
            name: found.get(name, apt.Policy(None, None, ()))._replace(
                installed=installed.get(name)
            )
            for name in RELEVANT
        }

    def _service(self) -> t.Dict[str, str]:
        words = ["systemctl", "show", SERVICE, "--property=LoadState,ActiveState,UnitFileState"]
        lines = self._host.run(words, check=False).out.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def plan(self, state: Observed) -> Plan:
        """Plan with pure functions."""
        return plan(state, self._desired, check_mode=self._check_mode)

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        getattr(self, f"_{step.action}")(step.params)

    # --- steps ---

    def _apt(self, *words: str) -> None:
        options = [
            "-y",
            "-q",
            "-o",
            f"DPkg::Lock::Timeout={self._timeout}",
            "-o",
            "Dpkg::Use-Pty=0",
        ]
        options += [
            "-o",
            "Dpkg::Options::=--force-confold",
            "-o",
            "Dpkg::Options::=--force-confdef",
        ]
        try:
            self._host.run(["apt-get", *options, *words], env={"DEBIAN_FRONTEND": "noninteractive"})
        except NodeError as error:
            error.hint = "what apt says above is the cause; mend it and run again, which finishes what was begun"
            raise

    def _repair(self, _params: t.Mapping[str, t.Any]) -> None:
        self._host.run(
            ["dpkg", "--force-confold", "--configure", "-a"],
            env={"DEBIAN_FRONTEND": "noninteractive"},
        )

    def _sources(self, _params: t.Mapping[str, t.Any]) -> None:
        host = self._host
        folder = "/etc/apt/sources.list.d"
        names = host.listdir(folder)
        lists = [f"{folder}/{name}" for name in names if name.endswith(".list")]
        one_line = "\n".join(host.read(path) or "" for path in ("/etc/apt/sources.list", *lists))
        deb822 = "\n\n".join(
            host.read(f"{folder}/{name}") or "" for name in names if name.endswith(".sources")
        )
        codename = self.observe().codename
        source = apt.find_source(one_line, deb822, codename)
        if source is None:
            raise NodeError(
                f"no source of Debian {codename} main was found in /etc/apt",
                hint="add one, or enable the components of the driver yourself and set manage_sources to false",
            )
        self._remember(sources=True)
        host.write(SOURCES, apt.render_source(source, COMPONENTS), mode=0o644)

    def _refresh(self, _params: t.Mapping[str, t.Any]) -> None:
        self._apt("update")
        policies = self._policies()
        if not policies["nvidia-smi"].candidate:
            raise NodeError(
                "the package sources offer no nvidia-smi, even with contrib and non-free enabled",
                hint="check that the mirror carries these components",
            )

    def _install(self, params: t.Mapping[str, t.Any]) -> None:
        versions = params["versions"]
        words = [f"{one}={versions[one]}" if one in versions else one for one in params["packages"]]
        words += [f"{one}-" for one in params["remove"]]
        options = ["--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades"]
        simulated = self._host.run(
            ["apt-get", "--simulate", *options, "install", *words], check=False
        )
        if simulated.rc != 0:
            lines = (simulated.out + simulated.err).strip().splitlines()[-12:]
            raise NodeError(
                "apt finds no way to install the driver; nothing was changed",
                cause="\n".join(lines),
            )
        self._remember(packages=apt.parse_simulation(simulated.out))
        self._apt(*options, "install", *words)

    def _hold(self, params: t.Mapping[str, t.Any]) -> None:
        if params["release"]:
            self._host.run(["apt-mark", "unhold", *params["release"]])
        if params["hold"]:
            self._host.run(["apt-mark", "hold", *params["hold"]])

    def _load(self, _params: t.Mapping[str, t.Any]) -> None:
        try:
            self._host.run(["modprobe", "nvidia"])
        except NodeError as error:
            error.hint = "see 'dkms status' and the kernel's log; headers of the running kernel must be installed"
            raise

    def _persistence(self, _params: t.Mapping[str, t.Any]) -> None:
        self._host.run(["systemctl", "enable", "--now", SERVICE])

    def _remove(self, params: t.Mapping[str, t.Any]) -> None:
        self._host.run(["systemctl", "disable", "--now", SERVICE], check=False)
        if params["packages"]:
            self._apt("purge", *params["packages"])
        self._host.remove(SOURCES)
        self._host.remove(RECORD)

    def _remember(self, **additions: t.Any) -> None:
        """Write down what is about to be added, so that it can be taken back."""
        record = json.loads(self._host.read(RECORD) or "{}")
        packages = sorted({*record.get("packages", ()), *additions.pop("packages", ())})
        record.update(additions, packages=packages)
        self._host.write(RECORD, json.dumps(record, indent=1) + "\n", mode=0o644)

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions."""
        installed = state.installed("nvidia-smi")
        return {
            "installed_version": apt.upstream(installed) if installed else None,
            "loaded_version": state.loaded[0] if state.loaded else None,
            "loaded_flavour": state.loaded[1] if state.loaded else None,
        }
