# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig on a node whose kubelet says what is in a file, which a later one replaces once it was read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.dra.names import CHECKPOINT
from ansible_collections.gpu.node.plugins.module_utils._base.services import mig as service
from ansible_collections.gpu.node.plugins.module_utils._machine import locks, own_files
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._mig import capability
from ansible_collections.gpu.node.plugins.module_utils._mig.machine import nvml
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import ROOTS, SOCKET
from ansible_collections.gpu.node.plugins.modules import mig


class HostWithKubelet(Host):
    """This machine, with a kubelet."""

    def exists(self, path: str) -> bool:
        """As of the machine."""
        return path == f"{ROOTS[0]}/{SOCKET}" or super().exists(path)

    def read(self, path: str) -> str | None:
        """As of the machine, with claims."""
        return super().read(str(ANSWER.with_suffix(".claims")) if path == CHECKPOINT else path)

    def run(self, argv: Any, **more: Any) -> Completed:
        """As of the machine."""
        if argv[0] != PROGRAM:
            return super().run(argv, **more)
        answer = ANSWER.read_text()
        with ANSWER.with_suffix(".asked").open("a") as asked:
            asked.write("asked\n")
        if (later := ANSWER.with_suffix(".later")).exists():
            later.replace(ANSWER)
        return Completed(0, answer, "")


if __name__ == "__main__":
    ANSWER = Path(sys.argv.pop())
    service.LOCK, locks.NODE = (str(ANSWER.with_name(one)) for one in ("mig.lock", "node.lock"))
    nvml.BEFORE, own_files.RECORDS = (str(ANSWER.with_name(one)) for one in ("before", "records"))
    mig.Host = HostWithKubelet  # type: ignore[misc]
    capability.LOOK_AGAIN_SECONDS = capability.ASK_AGAIN_SECONDS = 0.0
    mig.main()
