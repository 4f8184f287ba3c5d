# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The files of gpu.node.settings, and the GPUs whose persistence mode its rules decide."""

from __future__ import annotations

import typing as t

from ..errors import readable
from ..gpu import PERSISTENCE
from ..text import json_data

CONFIG = "/etc/gpu-node/settings.json"  # the rules
RECORD = "/var/lib/gpu-node/settings.json"  # what GPUs were set to before
HINT = "run gpu.node.settings again, which says what is wrong with it"


class Persistence(t.NamedTuple):
    """Whether a rule names persistence mode, and the GPUs whose mode was set by one, by UUID."""

    by_rules: bool = False
    gpus: t.FrozenSet[str] = frozenset()


def persistence(config: t.Optional[str], record: t.Optional[str]) -> Persistence:
    """Return what gpu.node.settings decides about persistence mode.

    Args:
        config: The text of the rules, None if there are none.
        record: The text of the record, None if there is none.

    Raises:
        NodeError: if one of them can't be read.
    """
    with readable(CONFIG, HINT):
        rules = json_data.loads(config)["rules"] if config else []
        by_rules = any(rule.get(PERSISTENCE) is not None for rule in rules)
    with readable(RECORD, HINT):
        gpus = json_data.loads(record)["gpus"] if record else {}
        changed = frozenset(uuid for uuid, gpu in gpus.items() if PERSISTENCE in gpu["before"])
    return Persistence(by_rules, changed)
