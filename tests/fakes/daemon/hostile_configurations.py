# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Configurations that ended or hung what read them."""

from __future__ import annotations

GOOD = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: %d}]}}"
MEMORY = "sharing: {mps: {resources: [{name: gpu, replicas: 2, memory: %s}]}}"
STARS = "resources: {gpus: [{pattern: '%s', name: big}, {pattern: '*', name: gpu}]}"


def bomb(levels: int = 9, each: int = 9) -> str:
    """A list that stands for each ** levels words, in a few hundred characters."""
    lists = ["&a0 [x]"]
    lists += [f"&a{n} [{', '.join([f'*a{n - 1}'] * each)}]" for n in range(1, levels + 1)]
    return f"[{', '.join(lists)}]"


def merges(levels: int = 9, each: int = 9) -> str:
    """The same with merge keys, which multiply already while they are read."""
    maps = ["&a0 {x: y}"]
    maps += [f"&a{n} {{<<: [{', '.join([f'*a{n - 1}'] * each)}]}}" for n in range(1, levels + 1)]
    return f"[{', '.join(maps)}]"


# What is thrown at it, and a word that the answer must have.
ATTACKS = {
    "3000 brackets": ("flags: " + "[" * 3000, "nested"),
    "3000 brackets that are closed": (f"flags: {'[' * 3000}{']' * 3000}", "nested"),
    "3000 mappings": ("flags: " + "{a: " * 3000, "nested"),
    "3000 dashes": ("flags: " + "\n- " + "- " * 3000, "nested"),
    "an alias bomb for a text": (f"flags: {{migStrategy: {bomb()}}}", "aliases"),
    "an alias bomb for a list": (f"flags: {{plugin: {{deviceListStrategy: {bomb()}}}}}", "aliases"),
    "an alias bomb for a size": (MEMORY % bomb(), "aliases"),
    "an alias bomb for devices": (
        GOOD.replace("replicas", f"devices: {bomb()}, replicas") % 2,
        "aliases",
    ),
    "merge keys that multiply": (f"flags: {{migStrategy: {merges()}}}", "aliases"),
    "an alias of itself": ("flags: {migStrategy: &a [*a]}", "itself"),
    "a hexadecimal size of 5000 digits": (MEMORY % ("0x" + "f" * 5000), "memory"),
    "a decimal size of 5000 digits": (MEMORY % ("9" * 5000), "memory"),
    "a size of 5000 digits as text": (MEMORY % f"'{'9' * 5000}MiB'", "memory"),
    "a number in 1200 sixties": (MEMORY % ("1" + ":59" * 1200 + ".5"), "memory"),
    "a port of 5000 digits": (
        f"gpuNode: {{metricsAddress: '127.0.0.1:{'1' * 5000}'}}",
        "metricsAddress",
    ),
    "an interval of 5000 digits": (
        f"flags: {{gfd: {{sleepInterval: '{'1' * 5000}'}}}}",
        "Interval",
    ),
    "an interval of 400 digits": (f"flags: {{gfd: {{sleepInterval: '{'1' * 400}'}}}}", "Interval"),
    "hexadecimal replicas": (GOOD.replace("%d", "0x" + "f" * 5000), "replicas"),
    "a path with a null in it": ('flags: {nvidiaDriverRoot: "/a\\0b"}', "nvidiaDriverRoot"),
    "half of a surrogate pair": ('flags: {nvidiaDriverRoot: "/a\\uD800"}', "line 1"),
    "a pattern of 300 characters": (STARS % ("*a" * 150), "pattern"),
    "a key of 1000 characters": (f"{'k' * 1000}: 1", "unknown key"),
    "a value of 30000 characters": (f"flags: {{migStrategy: {'v' * 30000}}}", "migStrategy"),
    "a text that is too long": ("# " + "x" * (3 << 20), "KiB"),
}
