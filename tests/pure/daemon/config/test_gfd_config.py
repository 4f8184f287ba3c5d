# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of GPU Feature Discovery in the configuration."""

from __future__ import annotations

from gpu_plugin.config.configuration import Config, Gfd, parse
from gpu_plugin.config.strict_yaml import ConfigError

from tests.support.refusals import refused_otherwise

PATHS = {
    "oneshot": ("GFD_ONESHOT", "true", True),
    "no_timestamp": ("GFD_NO_TIMESTAMP", "true", True),
    "sleep": ("GFD_SLEEP_INTERVAL", "1m30s", 90.0),
    "output_file": ("GFD_OUTPUT_FILE", "/tmp/features", "/tmp/features"),
    "machine_type_file": ("GFD_MACHINE_TYPE_FILE", "/etc/machine", "/etc/machine"),
    "node_feature_api": ("GFD_USE_NODE_FEATURE_API", "true", True),
}


def test_the_environments_names_are_nvidias() -> None:
    for name, (variable, text, expected) in PATHS.items():
        assert getattr(parse("", env={variable: text}).gfd, name) == expected
        assert getattr(Gfd(), name) != expected


def test_the_file_has_all_of_them() -> None:
    text = """
flags:
  useNodeFeatureAPI: false
  gfd: {oneshot: true, noTimestamp: true, sleepInterval: infinite, outputFile: "", machineTypeFile: /m}
"""
    assert parse(text).gfd == Gfd(True, True, None, "", "/m", False)


def test_a_flag_wins_over_the_environment_over_the_file() -> None:
    text, env = "flags: {gfd: {sleepInterval: 2m}}", {"GFD_SLEEP_INTERVAL": "3m"}
    assert parse(text).gfd.sleep == 120
    assert parse(text, env=env).gfd.sleep == 180
    assert parse(text, env=env, flags={"flags.gfd.sleepInterval": "4m"}).gfd.sleep == 240


def with_interval(text: str) -> Config:
    return parse(f"flags: {{gfd: {{sleepInterval: {text}}}}}", "c.yaml")


def test_durations_are_gos() -> None:
    durations = {"60s": 60.0, "1h0m1.5s": 3601.5, "1500ms": 1.5, "60000000000": 60.0}
    for text, expected in {**durations, "infinite": None}.items():
        assert with_interval(text).gfd.sleep == expected


def test_other_durations_are_refused_by_name() -> None:
    def variable(text: str) -> Config:
        return parse("", env={"GFD_SLEEP_INTERVAL": text})

    texts = ("60", "0s", "ten", "1d", "5 s", "-1s", "9000h", "''")
    key = ("c.yaml: line 1: flags.gfd.sleepInterval: '", "' is not valid")
    assert refused_otherwise(with_interval, ((one, key) for one in texts), ConfigError) == []
    name = "environment variable GFD_SLEEP_INTERVAL"
    assert refused_otherwise(variable, ((one, name) for one in texts), ConfigError) == []
