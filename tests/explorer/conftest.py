"""The explorer, served in a thread, and a real browser to look at it with."""

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the explorer, served by uvicorn in a thread on a free port: http://127.0.0.1:…"""
    import uvicorn

    from ropewalk.explorer.app import make_app

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(make_app(), log_level="warning", access_log=False, ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not running.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server does not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    running.should_exit = True
    thread.join(timeout=30)
    listener.close()


@pytest.fixture(scope="module")  # not the session: while Playwright runs, its thread cannot start another event loop
def chromium() -> Iterator[Any]:
    """A headless Chromium, as Playwright's Browser; skipped where there is none, but an error under CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or path is None:
        missing = "Playwright" if sync_playwright is None else "Chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing} is missing, and CI must look at the pages", pytrace=False)
        pytest.skip(f"{missing} is not installed: see `make test`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()
