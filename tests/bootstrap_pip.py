# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Put pip into an empty virtual environment from Python's own copy, then let it install the arguments.

ansible-test asks for such a script, and would download one where it finds none in its cache.
"""

from __future__ import annotations

import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
