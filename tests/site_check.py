"""The built site in headless Chromium: `python -m tests.site_check SITE [SCREENSHOTS]`.

Each page is opened at the width of a phone, and must not be wider; its links and pictures must be there; and the search must find what people look
for. The pages are opened in frames of one page, which tells its findings to the server that it came from.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["browser", "check", "screenshots"]

PHONE = 390
"""Pixels, of a common phone."""
SEARCHES = {"cp.async.bulk": "reference/async_copy/", "wgmma": "wgmma", "data race": "", "ptx.pipeline": "reference/"}
"""What is looked for -> a part of the address of one of the answers."""
HARNESS = """<!doctype html><meta charset="utf-8"><body><script>
const pages = PAGES, searches = SEARCHES, width = PHONE, found = [], seen = new Map();
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function until(test, ms) { for (let t = 0; t < ms; t += 50) { const x = test(); if (x) return x; await wait(50); } }
function open(page) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:844px;border:0`;
  frame.src = page;
  document.body.append(frame);
  return new Promise((done) => (frame.onload = () => done(frame)));
}
async function exists(url) {
  if (!seen.has(url)) seen.set(url, fetch(url, { method: "HEAD" }).then((r) => r.ok, () => false));
  return seen.get(url);
}
async function check(page) {
  const frame = await open(page), doc = frame.contentDocument, view = frame.contentWindow;
  if (doc.documentElement.scrollWidth > width) found.push(`${page}: ${doc.documentElement.scrollWidth} pixels wide`);
  const size = parseFloat(view.getComputedStyle(doc.querySelector("article p, article li, article td") || doc.body).fontSize);
  if (size < 12) found.push(`${page}: letters of ${size} pixels`);
  for (const image of doc.images) if (!image.naturalWidth) { await wait(200); if (!image.naturalWidth) found.push(`${page}: no picture ${image.src}`); }
  for (const link of doc.querySelectorAll("a[href]")) {
    const url = new URL(link.href);
    if (url.origin !== location.origin) continue;
    const id = decodeURIComponent(url.hash.slice(1));
    url.hash = "";
    if (!(await exists(url.href))) found.push(`${page}: no ${link.getAttribute("href")}`);
    else if (id && url.pathname === view.location.pathname && !doc.getElementById(id)) found.push(`${page}: no #${id}`);
  }
  frame.remove();
}
async function search(words, part) {
  const frame = await open("index.html"), doc = frame.contentDocument;
  const input = doc.querySelector("input.md-search__input");
  doc.querySelector("[data-md-toggle=search]").click();
  input.focus();
  input.value = words;
  input.dispatchEvent(new frame.contentWindow.Event("keyup", { bubbles: true }));
  input.dispatchEvent(new frame.contentWindow.Event("input", { bubbles: true }));
  const links = () => [...doc.querySelectorAll(".md-search-result__link")].map((a) => a.href);
  await until(() => links().length, 20000);
  if (!links().some((l) => l.includes(part))) found.push(`search "${words}" does not find ${part || "anything"}: ${links().slice(0, 5)}`);
  frame.remove();
}
(async () => {
  try {
    for (const page of pages) await check(page);
    for (const [words, part] of Object.entries(searches)) await search(words, part);
  } catch (error) { found.push(String(error.stack)); }
  await fetch("/found", { method: "POST", body: JSON.stringify(found) });
})();
</script>"""


class _Server(ThreadingHTTPServer):
    """Serves a folder; what is posted to it is kept."""

    def __init__(self, site: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(site)))
        self.found: list[str] = []
        self.told = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        assert isinstance(self.server, _Server)
        self.server.found += json.loads(body)
        self.server.told.set()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the findings are the output."""


def browser() -> str | None:
    """The command of Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def _start(command: str, profile: str, *words: str) -> subprocess.Popen[bytes]:
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}")
    return subprocess.Popen([command, *options, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check(site: Path, limit: float = 600, pattern: str = "*.html") -> list[str]:
    """What is wrong with a built site, or with the pages of it whose path fits a pattern."""
    command = browser()
    assert command is not None
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob(pattern) if p.name != "404.html")
    harness = HARNESS
    for name, value in (("PAGES", pages), ("SEARCHES", SEARCHES), ("PHONE", PHONE)):
        harness = harness.replace(name, json.dumps(value), 1)
    (site / "check.html").write_text(harness)
    server = _Server(site)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        running = _start(
            command, profile, "--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/check.html"
        )
        try:
            if not server.told.wait(limit):
                return [f"Chromium did not answer within {limit:.0f} s"]
        finally:
            running.terminate()
            running.wait()
            server.shutdown()
            (site / "check.html").unlink()
    return server.found


def screenshots(site: Path, out: Path, pages: dict[str, str]) -> None:
    """Pictures of pages (name -> path) at the widths of a phone and a desktop, to be looked at."""
    command = browser()
    assert command is not None
    out.mkdir(parents=True, exist_ok=True)
    server = _Server(site)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for name, path in pages.items():
            for width in (500, 1280):  # Chromium's windows are at least 500 pixels wide
                shot = f"--screenshot={out / f'{name}-{width}.png'}"
                _start(
                    command,
                    profile,
                    shot,
                    f"--window-size={width},1000",
                    f"http://127.0.0.1:{server.server_port}/{path}",
                ).wait(60)
    server.shutdown()


def main() -> int:
    site = Path(sys.argv[1])
    if len(sys.argv) > 2:
        shown = {"home": "", "chapter": "learn/09-hopper/", "report": "report/", "reference": "reference/async_copy/"}
        screenshots(site, Path(sys.argv[2]), shown)
    found = check(site)
    print("\n".join(found) or "no findings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
