# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node: an HTTP proxy that delivers one package whole, and of every further one the first half."""

from __future__ import annotations

import itertools
import shutil
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 3142
PASSED = ("If-Modified-Since", "Range", "If-Range", "Cache-Control")
packages = itertools.count(1)


class Proxy(BaseHTTPRequestHandler):
    """Fetches for apt, and cuts the connection."""

    def do_GET(self) -> None:
        """Answer a request for a whole address."""
        number = next(packages) if self.path.endswith(".deb") else 0
        headers = {name: self.headers[name] for name in PASSED if name in self.headers}
        request = urllib.request.Request(self.path, headers=headers)
        with urllib.request.urlopen(request) as found:
            self.send_response(found.status)
            for name, value in found.getheaders():
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            if number < 2:
                shutil.copyfileobj(found, self.wfile)
            else:
                self.wfile.write(found.read(int(found.headers["Content-Length"]) // 2))
                print(f"cut package {number}: {self.path}", flush=True)
        self.close_connection = True


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Proxy).serve_forever()
