# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a result says, as text: its values, its warnings, and why it failed."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.readable import as_yaml

# Shown in other places of the display, or of no use to a reader.
ELSEWHERE = (
    *("changed", "failed", "skipped", "unreachable", "warnings", "deprecations", "exception"),
    *("msg", "reason", "steps", "results", "item", "attempts", "retries", "censored"),
    *("invocation", "diff", "stdout_lines", "stderr_lines", "validate_args_context"),
    *("module_stdout", "module_stderr", "argument_errors", "include", "include_args"),
    *("argument_spec_data", "ansible_loop_var", "ansible_index_var", "ansible_loop"),
)
BELOW = ("results", "item", "exception", "diff", "warnings", "deprecations")  # also with -vvv
STREAMS = ("module_stderr", "module_stdout", "stderr", "stdout")
LAST = 20  # lines of what a program wrote
HIDDEN = "its output is hidden (no_log)"


def censored(data: t.Mapping[str, t.Any]) -> bool:
    """Return whether no_log hides what a result says."""
    return "censored" in data or bool(data.get("_ansible_no_log"))


def values(data: t.Mapping[str, t.Any], everything: bool) -> str:
    """Return what a result holds as YAML: ``everything``, or what isn't shown in other places."""
    if censored(data):
        return ""
    left_out = BELOW if everything else ELSEWHERE
    shown = {
        key: value
        for key, value in data.items()
        if key not in left_out and not key.startswith("_ansible_")
        if everything or value not in (None, "", [], {})
    }
    return as_yaml(shown) if shown else ""


def message(data: t.Mapping[str, t.Any]) -> str:
    """Return what a debug task says: its message, or the variable that it shows."""
    if censored(data):
        return HIDDEN
    text = data.get("msg")
    if text is None or text == "":
        return values(data, everything=False)
    return text if isinstance(text, str) else as_yaml(text)


def warnings(data: t.Mapping[str, t.Any], deprecations: bool) -> t.List[str]:
    """Return the warnings of a result, each once, and its deprecations where they are wanted."""
    messages = [f"warning: {message_text}" for message_text in _list(data.get("warnings"))]
    if deprecations:
        messages += [
            f"deprecated: {_deprecation(message_text)}"
            for message_text in _list(data.get("deprecations"))
        ]
    if censored(data):
        return ["warning: hidden (no_log)"] if messages else []
    return list(dict.fromkeys(messages))


def _deprecation(deprecation: t.Any) -> str:
    if not isinstance(deprecation, dict):
        return str(deprecation)
    until = deprecation.get("date") or deprecation.get("version")
    owner = (
        str(deprecation.get("collection_name") or "").replace("ansible.builtin", "")
        or "ansible-core"
    )
    when = f" (until {owner} {until})" if until else ""
    return f"{str(deprecation.get('msg', '')).rstrip('.')}{when}"


def _list(value: t.Any) -> t.List[t.Any]:
    return value if isinstance(value, list) else []


def reason(data: t.Mapping[str, t.Any], traceback: bool = False) -> str:
    """Return why a task failed, with what the program wrote last; and the ``traceback``."""
    if censored(data):
        return HIDDEN
    messages = [str(data[key]).strip("\n") for key in ("msg", "reason") if data.get(key)]
    if isinstance(data.get("rc"), int) and data["rc"]:
        messages.append(f"exit status {data['rc']}")
    for name in STREAMS:
        messages += _tail(name, data.get(name), messages)
    exception = data.get("exception")
    if traceback and isinstance(exception, str) and not exception.startswith("("):
        messages.append(exception.strip("\n"))
    return (
        "\n".join(dict.fromkeys(messages)).replace(" Next step: ", "\nNext step: ")
        or "no reason given"
    )


def _tail(name: str, text: t.Any, messages: t.Sequence[str]) -> t.List[str]:
    """Return the end of what a program wrote, none where the message has it already."""
    lines = str(text or "").strip().splitlines()
    if not lines or any("\n".join(lines) in message_text for message_text in messages):
        return []
    left = len(lines) - LAST
    more = [f"  … {left} lines before"] if left > 0 else []
    return ["\n".join([f"{name}:", *more, *(f"  {line}" for line in lines[-LAST:])])]


def label(data: t.Mapping[str, t.Any]) -> str:
    """Return the name of a loop's item."""
    if censored(data):
        return "(hidden)"
    item = data.get("_ansible_item_label", data.get("item"))
    return item if isinstance(item, str) else as_yaml(item)
