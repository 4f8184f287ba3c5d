# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No credential is left in what logs get, however it is written."""

from __future__ import annotations

import json
import shlex
import tomllib
from typing import Any

import pytest
import tomlkit
from ansible_collections.gpu.node.plugins.module_utils._base.text.masking import (
    MASK,
    excerpts,
    masked,
    masked_text,
)
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from tests.support.waiting import alarm

MARK = "S3cret"
KEYS = [
    "password",
    "auth",
    "identitytoken",
    "registrytoken",
    "splunk-token",
    "AWS_SECRET_ACCESS_KEY",
]
KEYS += ["Authorization", "client.secret", "api_key", "apiKey", "X-Auth", "passwd", "bindPassword"]
HARMLESS = ["sandbox_image", "author", "root", "hosts", "endpoint", "authority", "key_fingerprints"]
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
SECRETS = WORDS.map(lambda text: f"{MARK}{text}{MARK}")
IN_URLS = WORDS.map(
    lambda text: "".join(one for one in text if one not in "\"'" and not one.isspace())
)
PLAIN = st.one_of(WORDS, st.booleans(), st.integers(0, 9999))


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Return a table of a configuration with credentials in all places where one may be."""
    key, secret = draw(st.sampled_from(KEYS)), draw(SECRETS)
    found: dict[str, Any] = dict(draw(st.dictionaries(st.sampled_from(HARMLESS), PLAIN)))
    found |= draw(
        st.sampled_from(
            [
                {key: secret},
                {key: [secret, secret]},
                {key: {"username": secret, "more": {"deep": [secret]}}},
                {"env": ["A=b", f"{key}={secret}"]},
                {"args": ["run", f"--{key}", secret]},
                {"args": ["run", f"--{key}={secret}"]},
                {"proxy": f"http://me:{MARK}{draw(IN_URLS)}@proxy.corp:3128/"},
            ]
        )
    )
    return {draw(st.sampled_from(["registry", "a.b", "x"])): found, "last": draw(PLAIN)}


@pytest.mark.attack("registry-password-shown")
@run(deadline=None)
@given(settings(), st.sampled_from([None, 2, "\t"]), st.booleans())
def test_no_credential_is_left_in_json(data: Any, indent: Any, plain: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=plain)
    assert MARK not in masked_text(text)
    assert MARK not in masked_text(json.dumps({"msg": text})), "nor where JSON is quoted in JSON"


@pytest.mark.attack("registry-password-shown")
@run(deadline=None)
@given(settings(), st.booleans())
def test_no_credential_is_left_in_toml(data: Any, literal: bool) -> None:
    document = tomlkit.dumps(data)
    assert tomllib.loads(document) == data
    shown = masked_text(document)
    assert MARK not in shown
    assert masked_text(shown) == shown


@pytest.mark.attack("registry-password-shown")
@run(deadline=None)
@given(settings())
def test_no_credential_is_left_in_values(data: Any) -> None:
    assert MARK not in json.dumps(masked(data))


@pytest.mark.attack("registry-password-shown")
@run(deadline=None)
@given(st.sampled_from(KEYS), SECRETS)
def test_no_credential_is_left_of_a_command_line(key: str, secret: str) -> None:
    for words in (["x", f"--{key}", secret, "-v"], ["x", f"--{key}={secret}"], [f"{key}={secret}"]):
        assert MARK not in masked_text(shlex.join(words))


@pytest.mark.attack("registry-password-shown")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('password = "a\\"b"\nroot = "/x"\n', f'password = {MASK}\nroot = "/x"\n'),
        ("auth = '''a\nb'''\nx = 1", f"auth = {MASK}\nx = 1"),
        ('token = "never closed\nx = 1', f"token = {MASK}"),
        ("https://me:it@is@host/x https://host/", f"https://{MASK}@host/x https://host/"),
        ('["a".auth]\nuser = 1\n[b]\nx = 1\n', f'["a".auth]\n{MASK}\n[b]\nx = 1\n'),
        ("Authorization: Basic YTpi", f"Authorization: {MASK}"),
        ("pull --password hunter2 image", f"pull --password {MASK}"),
    ],
)
def test_what_a_log_gets(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.attack("registry-password-shown")
@pytest.mark.parametrize(
    "text",
    [
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = true\n',
        '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}',
        "auth: null\ntoken = true\n",
        "repository.key_fingerprints: [] is not valid: expected the key's fingerprint",
        "the authors of https://example.com/a:b wrote to me@example.com",
    ],
)
def test_what_has_no_credential_is_left_as_it_is(text: str) -> None:
    assert masked_text(text) == text


@pytest.mark.attack("registry-password-shown")
@pytest.mark.parametrize(
    "one", ["://", "://a@", "token=", '[auth"', "auth[{", "-password ", "''", "[a.auth "]
)
def test_hostile_texts_take_no_time(one: str) -> None:
    with alarm():
        masked_text(one * 50_000)


@pytest.mark.attack("registry-password-shown")
@run(deadline=None)
@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_excerpts_have_every_line_that_differs(one: list[str], other: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (one, other))
    shown = excerpts(before, after)
    assert (shown == ("", "")) == (before == after)
    padding = "".join(f"{number}\n" for number in range(50))
    for shown_text, text in zip(
        excerpts(padding + before, padding + after), (before, after), strict=True
    ):
        assert set(shown_text.split()) <= {"...", "48", "49", *text.split()}
