# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line: ``python -m tests.runner [--all] [--flaky RUNS] [LANE ...]``."""

from __future__ import annotations

import argparse
import sys

from . import cluster, flaky, run
from .lanes import LANES, chosen


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="tests.runner", description=__doc__)
    parser.add_argument("lanes", nargs="*", metavar="LANE", help="these alone")
    parser.add_argument("--all", action="store_true", help="what takes long, too")
    parser.add_argument("--flaky", type=int, metavar="RUNS", help="so often, on a busy machine")
    parser.add_argument(
        "--flaky-nodes", type=int, default=3, metavar="RUNS", help="what needs nodes"
    )
    parser.add_argument(
        "--write", action="store_true", help="put what was seen on its page: --flaky, cluster"
    )
    options = parser.parse_args()
    lanes = [one for one in LANES if one.name in options.lanes] or chosen(options.all)
    if unknown := set(options.lanes) - {one.name for one in LANES}:
        parser.error(
            f"no lane {', '.join(unknown)}. There are {', '.join(one.name for one in LANES)}"
        )
    if options.flaky is None:
        status = run.main(lanes)
        if cluster.LANE in [one.name for one in lanes]:
            cluster.tell(options.write)
        return status
    status = flaky.main(lanes, options.flaky, options.flaky_nodes)
    if options.write:
        flaky.write()
    return status


sys.exit(main())
