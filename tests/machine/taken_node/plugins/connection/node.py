# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The connection to a node that is a folder: what it runs has ON_NODE, and what the controller runs itself has not.

Its home is the folder that NODE_HOME names.
"""

from __future__ import annotations

import os
from typing import Any

from ansible.plugins.connection.local import Connection as LocalConnection

DOCUMENTATION = """
name: node
short_description: Runs commands on this machine as those of a node
description: Runs commands on this machine as those of a node.
author: the gpu.node authors
extends_documentation_fragment: connection_pipelining
"""


class Connection(LocalConnection):
    """Ansible refuses to reboot what has this transport."""

    transport = "local"

    def exec_command(self, *args: Any, **kwargs: Any) -> Any:
        home = os.environ["HOME"]
        os.environ.update(ON_NODE="yes", HOME=os.environ["NODE_HOME"])
        try:
            return super().exec_command(*args, **kwargs)
        finally:
            os.environ["HOME"] = home
            del os.environ["ON_NODE"]
