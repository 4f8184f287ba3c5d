# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What people do with the page of a report, and what they see of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.browser.chromium import Browser

NAMES = "[...document.querySelectorAll('.node .open')].map(one => one.textContent)"
Open = Callable[..., Browser]


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({json.dumps(selector)}).click()")
    browser.shown()


def search(browser: Browser, text: str) -> list[str]:
    """Type into the filter, and return the names that are left once it was applied."""
    browser.run(
        "delete document.documentElement.dataset.shown;"
        f"const field = document.getElementById('search'); field.value = {json.dumps(text)};"
        "field.dispatchEvent(new Event('input'))".replace("const field", "var field")
    )
    browser.shown()
    return list(browser.run(NAMES))


def style(browser: Browser, selector: str, name: str) -> str:
    found = f"getComputedStyle(document.querySelector({json.dumps(selector)})).{name}"
    return str(browser.run(found))


def quiet(browser: Browser) -> bool:
    """Return whether no script failed, nothing was refused, and nothing but the file was asked for."""
    asked = [one["request"]["url"] for one in browser.named("Network.requestWillBeSent")]
    wrong = browser.named("Runtime.exceptionThrown") + browser.named("Log.entryAdded")
    assert not wrong
    return [one.partition(":")[0] for one in asked] == ["file"]


def order_by(page: Browser, order: str) -> None:
    page.run(
        f"document.getElementById('sort').value = '{order}';"
        "document.getElementById('sort').dispatchEvent(new Event('change'))"
    )
    page.shown()


def tile(page: Browser, key: str) -> list[str]:
    """Return the texts of a figure, and its mark."""
    of = f"document.querySelector('[data-filter={key}]')"
    texts = page.run(f"[...{of}.children].map(one => one.textContent)")
    return [*texts, page.run(f"getComputedStyle({of}.querySelector('b'), '::after').content")]
