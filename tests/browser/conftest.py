"""A browser, and real servers with real traffic for it to look at: one that asks for no token, and one that does.

Without a Chromium, or with a dashboard that is not built, these tests are skipped, and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import pytest_asyncio

import ortoo
from ortoo.doors.http import dashboard
from tests.browser.pipelines import report_jobs
from tests.browser.traffic import consume_some, publish_all

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

ROLES = {"admin": "read,write,admin", "writer": "read,write", "reader": "read"}


class Site(NamedTuple):
    url: str
    tcp: str
    tokens: dict[str, str]


@pytest.fixture(scope="session")
def chromium() -> str:
    pytest.importorskip("playwright", reason="playwright is not installed: run make test")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine: apt install chromium")
    if not (dashboard.FOLDER / "index.html").is_file():
        pytest.skip("the dashboard is not built: run make dashboard")
    return found


@contextmanager
def server(home: Path, *options: str) -> Iterator[dict[str, str]]:
    """Where it listens, by scheme; and its process id. Ports that `options` name are kept to."""
    command = [
        sys.executable,
        "-m",
        "ortoo",
        "serve",
        "--data",
        str(home / "data"),
        "--http-port",
        "0",
        "--tcp-port",
        "0",
    ]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--mqtt-port", "0", *options], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            found: dict[str, str] = {}
            while not {"ortoo", "http"} <= found.keys():
                line = process.stdout.readline()
                assert line, (home / "log").read_text()
                found.update(re.findall(r"\b(ortoo|http)://([\w.:]+)", line))
            yield found | {"pid": str(process.pid)}
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with server(tmp_path_factory.mktemp("open")) as found, ortoo.connect_sync(f"ortoo://{found['ortoo']}") as queue:
        publish_all(queue)
        consume_some(queue)
        report_jobs(queue)
        yield Site(f"http://{found['http']}/", found["ortoo"], {})


@pytest.fixture(scope="session")
def guarded(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("guarded")
    tokens = {
        name: subprocess.run(
            [
                sys.executable,
                "-m",
                "ortoo",
                "token",
                "create",
                "--data",
                home / "data",
                "--name",
                name,
                "--scope",
                scope,
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for name, scope in ROLES.items()
    }
    with server(home) as found:
        with ortoo.connect_sync(f"ortoo://{found['ortoo']}", token=tokens["admin"]) as queue:
            queue.publish("orders", {"item": "tea"}, key="ann")
            queue.lease("orders", group="billing")
        yield Site(f"http://{found['http']}/", found["ortoo"], tokens)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=120_000)  # a machine that is busy elsewhere may take long for anything
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page of its own for each test. Whatever the browser complains about fails the test."""
    context = await browser.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    opened = await context.new_page()
    opened.set_default_timeout(120_000)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda told: wrong.append(told.text) if "Content Security Policy" in told.text else None)
    yield opened
    await context.close()
    assert wrong == []


async def shoot(page: Page, name: str) -> None:
    """Keeps a picture where `make screenshots` wants one."""
    folder = os.environ.get("ORTOO_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=Path(folder) / f"{name}.png")
