"""What the dashboard costs the browser that shows it: 1,000 topics, with 50,000 messages a second passing through them.

Chromium says itself how much processor time its renderer took, and which of its tasks were long. It shares the machine with the
server and the load. Without a Chromium, or with a dashboard that is not built, it says why it is left out.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvloop

import ortoo
from ortoo.doors.http import dashboard

from .figures import Figure
from .live.ortoo_tcp import Served, serving
from .processes import Part
from .settings import Settings

if TYPE_CHECKING:
    from playwright.async_api import Browser

NAME = "dashboard"
PAGES = {"overview": "", "topics": "topics?sort=in"}
_TOPICS, _BATCH, _BATCHES_PER_SECOND, _AT_ONCE = 1000, 1000, 50, 16
_SETTLE_SECONDS = 5.0
_LONG_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: "longtask" });
"""


def scenario(settings: Settings) -> list[Figure]:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    missing = _missing(chromium)
    if chromium is None or missing:
        print(f"{NAME} is left out: {missing}", file=sys.stderr)
        return []
    with TemporaryDirectory(prefix="ortoo-bench-") as folder, serving(Path(folder)) as served:
        return uvloop.run(_measure(served, chromium, settings.browser_seconds))


def _missing(chromium: str | None) -> str | None:
    if chromium is None:
        return "there is no Chromium on this machine (apt install chromium)"
    if not (dashboard.FOLDER / "index.html").is_file():
        return "the dashboard is not built (make dashboard)"
    return None


async def _measure(served: Served, chromium: str, seconds: float) -> list[Figure]:
    from playwright.async_api import async_playwright

    async with ortoo.connect(served.url) as queue:
        for number in range(_TOPICS):
            await queue.create_topic(_name(number), partitions=1)
    figures = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with Part(__name__, served.url) as load:
            load.wait_ready()
            for page, path in PAGES.items():
                figures += await _look(browser, f"http://127.0.0.1:{served.http_port}/#/{path}", page, seconds)
            load.tell("stop")
            figures.append(Figure(NAME, "load meanwhile", float(load.answer())))
        await browser.close()
    return figures


async def _look(browser: Browser, url: str, page: str, seconds: float) -> list[Figure]:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    opened = await context.new_page()
    await opened.add_init_script(_LONG_TASKS)
    await opened.goto(url)
    await opened.get_by_text("● live").wait_for()
    await asyncio.sleep(_SETTLE_SECONDS)
    await opened.evaluate("window.longest = 0")
    before = await _renderer_seconds(browser)
    await asyncio.sleep(seconds)
    used = await _renderer_seconds(browser) - before
    longest = await opened.evaluate("window.longest")
    await context.close()
    return [
        Figure(NAME, f"renderer, {page}", 100 * used / seconds, "% of a core"),
        Figure(NAME, f"longest task, {page}", longest, "ms"),  # 0: none took more than 50 ms
    ]


async def _renderer_seconds(browser: Browser) -> float:
    session = await browser.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return float(sum(process["cpuTime"] for process in found["processInfo"] if process["type"] == "renderer"))


def _name(number: int) -> str:
    return f"orders.eu-{number:04d}"


# -- the load, in a process of its own


async def _pass_through(url: str) -> None:
    """Batches at their pace, from topic to topic, each published, leased and acknowledged, until a line comes in."""
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    batch, numbers = [ortoo.Message(b"x" * 100) for _ in range(_BATCH)], count()
    now = asyncio.get_running_loop().time

    async def pass_some(queue: ortoo.Queue) -> None:
        while not stopped.done():
            number = next(numbers)
            await asyncio.sleep(max(0.0, began + number / _BATCHES_PER_SECOND - now()))
            name = _name(number % _TOPICS)
            await queue.publish_many(name, batch)
            await queue.ack(await queue.lease(name, group="readers", max_messages=_BATCH))

    async with ortoo.connect(url) as queue:
        for number in range(_TOPICS):
            await queue.create_group(_name(number), "readers")
        print("ready", flush=True)
        began = now()
        await asyncio.gather(*(pass_some(queue) for _ in range(_AT_ONCE)))
        print((next(numbers) - _AT_ONCE) * _BATCH / (now() - began), flush=True)


if __name__ == "__main__":
    uvloop.run(_pass_through(sys.argv[1]))
