# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Limits of files reach a session by pam_limits alone: a login whose PAM service lacks it is named."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._host.pam import services_without_limits
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.host.host_nodes import run
from tests.pure.library.tuned.test_host_memlock import ServicesHost

DEBIAN = {
    "sshd": "@include common-auth\nsession    required     pam_limits.so\n@include common-session\n",
    "common-session": "session required pam_unix.so\n",
}
FEDORA = {
    "sshd": "session    include      password-auth\n",
    "login": "session    substack     system-auth\n",
    "password-auth": "-session    optional    pam_systemd.so\nsession [success=1 default=ignore] pam_limits.so\n",
    "system-auth": "session  required  /usr/lib64/security/pam_limits.so \\\n  conf=/etc/security/x.conf\n",
}


@pytest.mark.parametrize("files", [DEBIAN, FEDORA, {}], ids=["debian", "fedora", "none"])
def test_sessions_of_distributions_get_limits(files: dict[str, str]) -> None:
    assert services_without_limits(files) == ()


@pytest.mark.parametrize(
    ("files", "name", "old", "new"),
    [
        (
            DEBIAN,
            "sshd",
            "session    required     pam_limits.so",
            "# session required pam_limits.so",
        ),
        (DEBIAN, "sshd", "session    required     pam_limits.so", "auth required pam_limits.so"),
        (FEDORA, "password-auth", "pam_limits.so", "pam_limit.so"),
        (FEDORA, "sshd", "session    include", "auth    include"),
    ],
)
def test_a_service_without_pam_limits_is_named(
    files: dict[str, str], name: str, old: str, new: str
) -> None:
    changed = {**files, name: files[name].replace(old, new)}
    assert changed != files
    assert services_without_limits(changed) == ("sshd",)


@given(st.dictionaries(st.sampled_from(["sshd", "login", "a", "b"]), st.text(max_size=80)))
def test_any_text_has_an_answer(files: dict[str, str]) -> None:
    assert {*services_without_limits(files)} <= {"sshd", "login"} & {*files}


def test_files_that_include_each_other_end() -> None:
    files = {"sshd": "session include a\n", "a": "session include b\n", "b": "@include a\n"}
    assert services_without_limits(files) == ("sshd",)


def test_a_login_without_limits_is_a_warning_where_memlock_is_set() -> None:
    host = ServicesHost()
    host.files["/usr/lib/pam.d/sshd"] = DEBIAN["sshd"]
    host.files["/etc/pam.d/common-session"] = DEBIAN["common-session"]
    run(host, memlock="unlimited")
    assert run(host, memlock="unlimited")["warnings"] == []
    host.files["/etc/pam.d/sshd"] = "@include common-session\n"  # comes before the vendor's
    (warning,) = run(host, memlock="unlimited")["warnings"]
    assert "/etc/pam.d/sshd" in warning
    assert "session required pam_limits.so" in warning
    assert run(host, state="absent")["warnings"] == []
