# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine in a folder whose rpm is genuine, and what is above it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._node.machine.recorded import package_manager

from tests.fakes.played.rooted import Rooted

KEY = PLACE.rpm_key
KEY_AT_END = re.compile(f"(^|//){re.escape(KEY)}$")  # also in an address


class RpmMachine(Rooted):
    """A machine of a ``family``; the path of the driver's key, which is taken as it is named, is led to the folder."""

    family = ""
    libraries = "/usr/lib64"

    def command(
        self, words: Sequence[str], env: Mapping[str, str] | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """Return what makes a program work in the machine's folder: words and environment."""
        raise NotImplementedError

    def installed(self) -> dict[str, str]:
        """Return what rpm has, by name; of the kernels the newest."""
        done = self.run(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n"])
        return dict(sorted(line.split() for line in done.out.split("\n") if line))

    def trusted(self) -> tuple[str, ...]:
        """Return the keys that rpm knows."""
        return package_manager(self.family, self, 0, "the driver").trusted()

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        ours = text.replace(f"file://{KEY}", f"file://{self.at(KEY)}")
        return super().write(path, ours if path.endswith(".repo") else text, **values)

    def read(self, path: str) -> str | None:
        text = super().read(path)
        return text.replace(self.at(KEY), KEY) if text and path.endswith(".repo") else text

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        argv, own = self.command([KEY_AT_END.sub(rf"\1{self.at(KEY)}", one) for one in words], env)
        return Host().run(argv, check=False, env=own, stdin=stdin)
