# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine of the RHEL family in a folder: genuine rpm and dnf 4 or 5, small packages.

dnf 5, which Fedora has, is unpacked with rpm and its libraries in .cache/dnf5, or where GPUNODE_DNF5 says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.machine.recorded import package_manager

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import memory
from tests.fakes.played.rhel.rhel_archive import modules, stage
from tests.fakes.played.rhel.rhel_systems import EL9, System
from tests.fakes.played.rooted import H100
from tests.fakes.played.rpm_machine import RpmMachine
from tests.fakes.played.rpms import Repositories, Rpm
from tests.support.paths import REPOSITORY

LOCKS = "/etc/dnf/plugins/versionlock.list"
DNF5 = Path(os.environ.get("GPUNODE_DNF5") or REPOSITORY / ".cache/dnf5")
TOOLS = ("rpm", "dnf", "rpmbuild", "createrepo_c")
ENTRY = "[{name}]\nname={name}\nbaseurl=file://{folder}\nenabled={enabled}\ngpgcheck=0\n"


class Rhel(RpmMachine):
    """A machine that runs its system's older kernel and knows base and cuda.

    ``versionlock`` says that dnf has that plugin, ``secure_boot`` that it is on; then ``enrolled`` are the keys that
    the firmware knows, by the name of who made them or by their path.
    """

    genuine = ("rpm", "dnf")
    family = "rhel"
    modules_of = ("extra/nvidia.ko", "extra/drivers/video/nvidia/nvidia.ko")

    def __init__(
        self,
        root: Path,
        repositories: Repositories,
        system: System = EL9,
        *,
        gpu: str = H100,
        versionlock: bool = True,
        secure_boot: bool = False,
    ) -> None:
        super().__init__(root, system.os_release, system.kernel, gpu)
        self.system = system
        self.enrolled: list[str] = []
        if secure_boot:
            self.put(SECURE_BOOT[1:], "\6\0\0\0\1")
        self.repositories, self.versionlock = repositories, versionlock

    # --- what a person does ---

    def install(self) -> None:
        """Install the system."""
        self.mkdir("usr/bin").joinpath("dnf").symlink_to("dnf5" if self.five else "dnf-3")
        self.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\n")
        text = f"[main]\nenabled = 1\nlocklist = {self.root}{LOCKS}\n"
        self.put("etc/dnf/plugins/versionlock.conf", text)
        self.put(LOCKS[1:], "")
        offered = stage(self.system, self.repositories.folder / "epel")
        self.repositories.publish(offered, modules(self.system, offered))
        for name in set(offered) - {"epel"}:
            self.switch(name, on=name in ("base", "cuda"))
        self.dnf("install", f"{self.system.core}-{self.system.kernel}")

    def offer(self, name: str, packages: Iterable[Rpm], streams: str = "") -> None:
        """Have a repository, known before or not, offer these packages, and enable it."""
        self.repositories.publish({name: tuple(packages)}, {name: streams})
        self.switch(name, on=True)

    def switch(self, name: str, *, on: bool) -> None:
        """Enable or disable a repository."""
        folder = self.repositories.folder / name
        entry = ENTRY.format(name=name, folder=folder, enabled=int(on))
        self.put(f"etc/yum.repos.d/{name}.repo", entry)

    def dnf(self, *words: str) -> str:
        """Run dnf as a person would; it must succeed."""
        done = self.run(["dnf", "-y", "-q", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    # --- what is there ---

    def held(self) -> set[str]:
        """Return what is locked at its version."""
        manager = package_manager("rhel", self, 0, "the driver")
        return {name for name, one in manager.packages().items() if one.held}

    @property
    def five(self) -> bool:
        """Return whether dnf is dnf 5."""
        return self.system.tool == "dnf5"

    def mkdir(self, path: str) -> Path:
        """Make a folder below the machine's, and return it."""
        (self.root / path).mkdir(parents=True, exist_ok=True)
        return self.root / path

    def read_bytes(self, path: str) -> bytes | None:
        # The locks of the programs that run, which are genuine.
        return Path(path).read_bytes() if path == "/proc/locks" else super().read_bytes(path)

    def command(
        self, words: Sequence[str], env: Mapping[str, str] | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """Return what makes rpm or dnf work in the machine's folder: words and environment."""
        options = [f"--root={self.root}"] if words[0] == "rpm" else self._options()
        program, found = [words[0]], dict(env or {})
        if self.five:
            libraries = f"{DNF5}/usr/lib/x86_64-linux-gnu"
            name = "dnf5" if words[0] == "dnf" else words[0]
            program = [f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries]
            program.append(f"{DNF5}/usr/bin/{name}")
            found["RPM_CONFIGDIR"] = f"{DNF5}/usr/lib/rpm"
        return [*program, *options, *words[1:]], found

    def _options(self) -> list[str]:
        root = str(self.root)
        options = [f"--installroot={root}", f"--config={root}/etc/dnf/dnf.conf"]
        options += [f"--setopt=reposdir={root}/etc/yum.repos.d", "--forcearch=x86_64"]
        options += [f"--releasever={self.system.version}", f"--setopt=cachedir={root}/cache"]
        options += [f"--setopt=module_platform_id={self.system.platform}"]
        if not self.five:
            options += [f"--setopt=pluginconfpath={root}/etc/dnf/plugins"]
            lacks = not self.versionlock and not self.exists("/usr/lib/dnf-plugins/versionlock.py")
            options += [f"--setopt=pluginpath={root}/none"] if lacks else []
        return options

    def _dkms(self, words: tuple[str, ...]) -> Completed:
        """Play dkms autoinstall -k K."""
        assert words[1:3] == ("autoinstall", "-k"), words
        base = self.root / "lib/modules" / words[3]
        if not (base / "build/Makefile").exists():
            said = f"Error! Your kernel headers for kernel {words[3]} cannot be found.\n"
            return Completed(1, "", said)
        for source in (self.root / "usr/src").glob("nvidia-*/dkms.conf"):
            self.put(f"lib/modules/{words[3]}/extra/nvidia.ko", source.read_text())
        return Completed(0, "", "")

    def _mokutil(self, words: tuple[str, ...]) -> Completed:
        """Play mokutil, whose list has each certificate in openssl's words."""
        if words[1] == "--list-enrolled":
            keys = (
                f"[key {n}]\n        Issuer: CN={one}\n" for n, one in enumerate(self.enrolled, 1)
            )
            return Completed(0, "".join(keys), "")
        state = "already enrolled" if words[2] in self.enrolled else "not enrolled"
        return Completed(0, f"{words[2]} is {state}\n", "")


class Machines:
    """Makers of machines in a folder: as they are installed, or with the driver, each made once and copied."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __call__(self, system: System = EL9, *, epel: bool = True, **values: Any) -> Rhel:
        """Return a machine, which knows EPEL or not; ``values`` are what Rhel takes."""
        return self._made(system, epel, values, "", lambda _node: None)

    def driven(self, system: System = EL9, **options: Any) -> Rhel:
        """Return a machine with the driver that these options bring."""

        def bring(node: Rhel) -> None:
            assert converge(node, **options).steps == ()

        return self._made(system, True, {}, repr(sorted(options.items())), bring)

    def _made(
        self,
        system: System,
        epel: bool,
        values: dict[str, Any],
        more: str,
        make: Callable[[Rhel], None],
    ) -> Rhel:
        if system.tool == "dnf5" and not DNF5.is_dir():
            pytest.skip(f"needs dnf 5 in {DNF5}, which tests/setup-dnf5 puts there")
        repositories = Repositories(self._place / "repositories")
        node = Rhel(self._place / "node", repositories, system, **values)
        key = Rhel, system, repr(sorted(values.items()))

        def whole() -> None:
            memory.once(key, self._place, node.install)
            if epel and system.epel:
                node.switch("epel", on=True)
            make(node)

        memory.once((*key, epel, more), self._place, whole)
        node.ran.clear()
        return node
