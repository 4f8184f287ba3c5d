# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""OpenPGP keys that are made for a test, by the genuine gpg, and what they sign."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.helper_process import end_detached, start_detached

# The public key of an example in RFC 9580, appendix A.3.
EXAMPLE = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laPCsQYf
GwoAAABCBYJjh3/jAwsJBwUVCg4IDAIWAAKbAwIeCSIhBssYbE8GCaaX5NUt+mxy
KwwfHifBilZwj2Ul7Ce62azJBScJAgcCAAAAAK0oIBA+LX0ifsDm185Ecds2v8lw
gyU2kCcUmKfvBXbAf6rhRYWzuQOwEn7E/aLwIwRaLsdry0+VcallHhSu4RN6HWaE
QsiPlR4zxP/TP7mhfVEe7XWPxtnMUMtf15OyA51YBM4qBmOHf+MZAAAAIIaTJINn
+eUBXbki+PSAld2nhJh/LVmFsS+60WyvXkQ1wpsGGBsKAAAALAWCY4d/4wKbDCIh
BssYbE8GCaaX5NUt+mxyKwwfHifBilZwj2Ul7Ce62azJAAAAAAQBIKbpGG2dWTX8
j+VjFM21J0hqWlEg+bdiojWnKfA5AQpWUWtnNwDEM0g12vYxoWM8Y81W+bHBw805
I8kWVkXU6vFOi+HWvv/ira7ofJu16NnoUkhclkUrk0mXubZvyl4GBg==
-----END PGP PUBLIC KEY BLOCK-----
"""


class Key:
    """A key of its own keyring, in a folder."""

    def __init__(self, home: Path, algorithm: str = "rsa2048") -> None:
        home.mkdir(mode=0o700, parents=True)
        self.home = home
        words = ["--passphrase", "", "--quick-generate-key", "test <test@test>", algorithm]
        self.gpg([*words, "sign", "never"])
        self.armoured = self.gpg(["--armor", "--export"])
        lines = self.gpg(["--with-colons", "--list-keys"]).split("\n")
        self.fingerprint = next(line.split(":")[9] for line in lines if line.startswith("fpr"))

    @property
    def binary(self) -> str:
        """Return the key as a keyring file has it, as text with surrogate escapes."""
        data = subprocess.run(
            ["gpg", "--homedir", str(self.home), "--export"], check=True, capture_output=True
        ).stdout
        return data.decode("utf-8", "surrogateescape")

    def gpg(self, words: list[str]) -> str:
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--yes", *words]
        with self.agent():
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def agent(self) -> Iterator[tuple[int, Path]]:
        """Run an agent for the time of a with statement and yield its process number and its socket.

        gpg waits only five seconds for an agent that it starts itself.
        """
        argv = ["gpg-agent", "--homedir", str(self.home), "--daemon"]
        pid, socket = start_detached(argv, ready=self._find_agent)
        try:
            yield pid, socket
        finally:
            # gpgconf --kill returns before the agent has ended, and the next agent dies of talking to it.
            end_detached(pid, socket)

    def _find_agent(self) -> tuple[int, Path] | None:
        """Return the process number and the socket of the agent, or None if there is none yet."""
        argv = ["gpg-connect-agent", "--homedir", str(self.home), "--no-autostart"]
        argv += ["GETINFO pid", "GETINFO socket_name", "/bye"]
        output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        answers = [line[2:] for line in output.splitlines() if line.startswith("D ")]
        return (int(answers[0]), Path(answers[1])) if answers else None

    def sign_rpms(self, folder: Path) -> None:
        words = ["rpmsign", "--define", f"_gpg_name {self.fingerprint}"]
        words += ["--define", f"__gpg {shutil.which('gpg')}", "--addsign"]
        words += sorted(map(str, folder.rglob("*.rpm")))
        environment = {**os.environ, "GNUPGHOME": str(self.home)}
        with self.agent():
            subprocess.run(words, check=True, capture_output=True, env=environment)
