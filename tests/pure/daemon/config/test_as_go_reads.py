# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that NVIDIA's plugin takes, as sigs.k8s.io/yaml and Go's encoding/json read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_plugin.cli import main
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.config.strict_yaml import ConfigError

from tests.fakes.daemon.hostile_configurations import merges
from tests.support.refusals import refused_otherwise
from tests.support.waiting import alarm

MERGED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - &usual {name: gpu, replicas: 4, devices: [0]}
    - {<<: *usual, devices: [1]}
    - <<: *usual
      rename: other
      devices: [2]
"""


def slices(text: str) -> list[tuple[str, int, tuple[str, ...]]]:
    shares = parse(text, "c.yaml").sharing.shares
    return [(one.offered_as.partition("/")[2], one.replicas, one.devices) for one in shares]


def test_merge_keys_bring_what_a_mapping_has_not_itself() -> None:
    assert slices(MERGED) == [("gpu", 4, ("0",)), ("gpu", 4, ("1",)), ("other", 4, ("2",))]


def test_of_merged_mappings_the_first_wins_and_they_nest() -> None:
    text = (
        "sharing: {timeSlicing: {resources: [&a {name: gpu, replicas: 2, devices: [0]}, "
        "&b {<<: *a, replicas: 3, devices: [1]}, {<<: [*b, *a], devices: [2]}]}}"
    )
    assert [replicas for _name, replicas, _devices in slices(text)] == [2, 3, 3]


def test_a_merge_that_adds_nothing_changes_nothing() -> None:
    for text in (
        "<<: {}",
        "flags: {<<: []}",
        "flags: {<<: {migStrategy: single}, migStrategy: none}",
        "flags: {migStrategy: none, <<: {migStrategy: single}}",
    ):
        assert parse(text) == Config(), text


def test_a_merge_that_can_not_be_is_refused_with_its_line() -> None:
    cases = {
        "flags: {<<: 3}": "c.yaml: line 1: flags.<< is not a mapping",
        "flags: {<<: [{}, a]}": "c.yaml: line 1: flags.<< is not a mapping",
        "flags:\n  <<: {migStratgy: none}": "line 2: unknown key flags.migStratgy",
        "<<: {migStrategy: none}": "unknown key migStrategy",
        'flags: {"<<": {migStrategy: none}}': "unknown key flags.<<",
        "flags: {<<: {}, <<: {}}": "flags.<< is given twice",
        f"x: {merges()}\nflags: {{<<: *a9}}": "aliases",
    }
    with alarm():
        found = refused_otherwise(lambda text: parse(text, "c.yaml"), cases.items(), ConfigError)
    assert found == []


def test_keys_in_other_cases_are_read_with_a_warning_that_names_the_right_one() -> None:
    found = parse(
        "Flags:\n  MigStrategy: mixed\n  PLUGIN: {deviceidstrategy: index}\n"
        "sharing: {timeslicing: {resources: [{Name: gpu, REPLICAS: 3}]}}",
        "c.yaml",
    )
    assert (found.mig_strategy, found.containers.device_id_strategy) == ("mixed", "index")
    assert [one.replicas for one in found.sharing.shares] == [3]
    assert found.notes[1] == (
        "c.yaml: line 2: the key flags.MigStrategy is read as flags.migStrategy, "
        "which is how it is written"
    )
    named = [note.rpartition(" is read as ")[2].partition(",")[0] for note in found.notes]
    assert named == [
        "flags",
        "flags.migStrategy",
        "flags.plugin",
        "flags.plugin.deviceIDStrategy",
        "sharing.timeSlicing",
        "sharing.timeSlicing.resources[0].name",
        "sharing.timeSlicing.resources[0].replicas",
    ]
    assert parse("flags: {migStrategy: mixed}").notes == ()


def test_warnings_are_few() -> None:
    entries = ", ".join(f"{{NAME: n{number}, replicas: 2}}" for number in range(500))
    notes = parse(f"sharing: {{timeSlicing: {{resources: [{entries}]}}}}").notes
    assert len(notes) == 21
    assert notes[-1] == "480 more warnings about the file"


def test_keys_that_differ_in_case_only_are_one_key_given_twice() -> None:
    text = "flags:\n  migStrategy: none\n  MIGSTRATEGY: mixed"
    with pytest.raises(ConfigError, match=r"line 3: flags\.migStrategy is given twice"):
        parse(text, "c.yaml")


def test_only_the_case_may_differ() -> None:
    for word in ("mig_strategy", "migStrategies", "mig strategy", "m\u0131gStrategy"):
        with pytest.raises(ConfigError, match=r"unknown key .*did you mean flags\.migStrategy\?"):
            parse(f"flags: {{{word}: none}}")


def test_json_with_tabs_is_read() -> None:
    flags = {"migStrategy": "single", "nvidiaDriverRoot": "/run/nvidia"}
    text = json.dumps({"version": "v1", "flags": flags}, indent="\t")
    assert "\n\t\t" in text
    found = parse(text)
    assert (found.mig_strategy, found.driver.root) == ("single", "/run/nvidia")
    with pytest.raises(ConfigError, match=r"c\.json: line 4: flags\.migStrategy: 'x' is not valid"):
        parse(text.replace("single", "x"), "c.json")


def test_tabs_that_are_no_json_are_refused_with_their_line() -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml: line 2: not valid YAML"):
        parse("flags:\n\tmigStrategy: none", "c.yaml")


BOTH = """\
sharing:
  mps: {resources: [{name: gpu, replicas: 2%s}]}
  timeSlicing: {resources: [{name: gpu, replicas: 3%s}, {name: mig-1g.10gb, replicas: 4}]}
"""


def test_mps_wins_over_time_slicing_with_a_warning() -> None:
    for mps, slicing, left in (
        ("", "", [("gpu", True), ("mig-1g.10gb", False)]),
        ("", ", devices: [1]", [("gpu", True), ("mig-1g.10gb", False)]),
        (
            ", devices: [0]",
            ", devices: [0, 1]",
            [("gpu", True), ("gpu", False), ("mig-1g.10gb", False)],
        ),
    ):
        found = parse(BOTH % (mps, slicing), "c.yaml")
        shares = found.sharing.shares
        assert [(one.name.partition("/")[2], one.mps is not None) for one in shares] == left, mps
        (note,) = found.notes
        assert note.startswith("c.yaml: line 3: sharing.timeSlicing.resources[0]: "), mps
        assert note.endswith("of nvidia.com/gpu is shared by MPS, which wins"), mps


def test_twice_in_one_strategy_is_still_an_error() -> None:
    for strategy in ("mps", "timeSlicing"):
        entries = "[{name: gpu, replicas: 2}, {name: gpu, replicas: 3}]"
        with pytest.raises(ConfigError, match="is shared twice"):
            parse(f"sharing: {{{strategy}: {{resources: {entries}}}}}")


def test_check_config_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("flags: {MigStrategy: mixed, plugin: {deviceListStrategy: cdi-cri}}")
    assert main(["check-config", str(file)]) == 0
    said = capsys.readouterr()
    assert f"{file}: line 1: the key flags.MigStrategy is read as flags.migStrategy" in said.err
    assert said.out == f"{file}: valid\n"
