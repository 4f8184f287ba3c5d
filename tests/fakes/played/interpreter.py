# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Python for Ansible whose modules of gpu.node find a played machine in the place of the one that they run on.

Words: the file with the machine, and what Ansible gives its Python.
"""

from __future__ import annotations

import pickle
import runpy
import sys
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine import host


def main() -> None:
    """Run a module."""
    path, module, *words = sys.argv[1:]
    machine = pickle.loads(Path(path).read_bytes())
    host.Host = lambda: machine  # type: ignore[assignment,misc]
    # The module brings those of the core that runs it.
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible"]:
        del sys.modules[name]
    sys.argv = [module, *words]
    runpy.run_path(module, run_name="__main__")


if __name__ == "__main__":
    main()
