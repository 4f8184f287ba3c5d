# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A package index that an attacker has, and what the attacker serves; pip itself is the genuine one."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import ssl
import subprocess
import sys
import tarfile
import threading
import typing as t
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.plugin_utils.controller.package import collect, pack

from tests.support.paths import REPOSITORY

GENUINE = "tomlkit-0.15.2-py3-none-any.whl"
WITH_BUILD_TAG = "tomlkit-0.15.2-9-py3-none-any.whl"
SDIST = "tomlkit-0.15.2.tar.gz"
BUILD_TOOL = "setuptools-80.9.0-py3-none-any.whl"
RUN_AT_START = "import os; open({!r}, 'w').write(str(os.getuid()))\n"


def wheel(name: str, more: t.Mapping[str, str], needs: str = "") -> bytes:
    """Return a wheel; what a file named ``*.pth`` says is done by each Python that starts later."""
    project, version = name.split("-")[:2]
    info = f"{project}-{version}.dist-info"
    files = {
        f"{project}/__init__.py": f"VERSION = {version!r}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{needs}",
        **more,
    }
    files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in [*files, f"{info}/RECORD"])
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for one, text in files.items():
            archive.writestr(zipfile.ZipInfo(one), text)
    return raw.getvalue()


def hostile(name: str, marker: Path) -> bytes:
    """Return a wheel or an sdist that leaves a marker as the user who installs it."""
    if name.endswith(".whl"):
        return wheel(name, {"evil.pth": RUN_AT_START.format(str(marker))})
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n',
        "setup.py": RUN_AT_START.format(str(marker)),
        "PKG-INFO": "Metadata-Version: 2.1\nName: tomlkit\nVersion: 0.15.2\n",
    }
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for one, text in files.items():
            entry = tarfile.TarInfo(f"tomlkit-0.15.2/{one}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return raw.getvalue()


class Index:
    """Serves files by the name of their project; remembers who asked, and in which command line ``secret`` stood."""

    def __init__(
        self,
        files: t.Mapping[str, bytes],
        user: str = "",
        secret: str = "",
        context: t.Optional[ssl.SSLContext] = None,
    ) -> None:
        self.files, self.asked = dict(files), t.cast("t.List[str]", [])
        self.seen: t.Set[str] = set()
        self._secret = secret
        self._wanted = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append(self.path)
                index.answer(self)

            def log_message(self, *words: t.Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "https" if context else "http"
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Index:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.host}/simple"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self._secret:
            self.seen |= command_lines_with(self._secret)
        if self._secret and request.headers.get("Authorization") != self._wanted:
            return self._send(request, 401, b"")
        parts = request.path.strip("/").split("/")
        if parts[0] == "simple":
            names = [one for one in self.files if one.split("-")[0] == parts[-1]]
            links = "".join(f'<a href="/files/{one}">{one}</a>\n' for one in names)
            return self._send(request, 200 if names else 404, links.encode())
        return self._send(request, 200, self.files[parts[-1]])

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        request.send_response(status)
        if status == 401:
            request.send_header("WWW-Authenticate", 'Basic realm="index"')
        kind = "application/octet-stream" if "/files/" in request.path else "text/html"
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def command_lines_with(word: str) -> t.Set[str]:
    """Return the command lines on this machine that hold a word, as any local user can read them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in text:
            found.add(text)
    return found


class QuickHost(Host):
    """This machine; virtual environments are copies of one that Python made."""

    def __init__(self, template: Path) -> None:
        super().__init__()
        self._template = template
        self.ran: t.List[str] = []

    def run(self, argv: t.Sequence[str], **more: t.Any) -> Completed:
        self.ran.append(" ".join(argv))
        if list(argv[1:3]) == ["-m", "venv"]:
            argv = ["cp", "-a", f"{self._template}/.", argv[3]]
        return super().run(argv, **more)


def make_template(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


GOOD = wheel(GENUINE, {})
Install = t.Callable[..., "QuickHost"]


def listed(*wheels: bytes) -> str:
    """Return the requirement of the genuine package by the hashes of these wheels."""
    hashes = [f"--hash=sha256:{hashlib.sha256(one).hexdigest()}" for one in wheels]
    return " \\\n    ".join(["tomlkit==0.15.2", *hashes]) + "\n"


def package(folder: Path, requirements: str) -> Path:
    """Make the source tree of a daemon that can tell its version and no more."""
    sources = {
        "requirements.txt": requirements,
        "pyproject.toml": (REPOSITORY / "files/gpu_plugin/pyproject.toml").read_text(),
        "src/gpu_plugin/__init__.py": "",
        "src/gpu_plugin/cli.py": "import sys\n\n\ndef main():\n    print('gpu-plugin', sys.argv[1:])\n",
        "src/gpu_plugin/labels/__init__.py": "",
        "src/gpu_plugin/labels/api.py": "import tomlkit\n",
    }
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def payload(folder: Path, requirements: str, wheels: t.Mapping[str, bytes]) -> str:
    """Pack the daemon, and wheels as they come out of a wheelhouse that nobody has looked at."""
    files = collect(str(package(folder / "package", requirements)), "package")
    for name, data in wheels.items():
        (folder / name).write_bytes(data)
        files[f"wheels/{name}"] = str(folder / name)
    path = folder / "payload.tar.gz"
    pack(files, str(path))
    return os.fspath(path)
