#!/usr/bin/env python3
"""Opens the page of a running `tenon serve` in headless Chromium, asks something by keyboard, and keeps screenshots.

usage: python3 tests/serve/page_in_chromium.py [http://127.0.0.1:8080] [FOLDER]    (pip install websocket-client; chromium)

FOLDER (default build) gets page-light.png and page-dark.png. Exit code 0 when the page drew nine slots, showed live
figures, and streamed an answer.
"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import websocket

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
FOLDER = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build")
PORT = 19222


class Page:
    """A tab, spoken to by the DevTools protocol."""

    def __init__(self, address):
        self.socket, self.count = websocket.create_connection(address, suppress_origin=True, timeout=60), 0

    def call(self, method, **params):
        """One command and its result."""
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.count:
            pass
        return answer["result"]

    def value(self, expression):
        """What an expression gives in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until an expression holds."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > end:
                sys.exit(f"page_in_chromium: never true: {expression}")
            time.sleep(0.2)

    def keep(self, scheme):
        """A screenshot in one colour scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        (FOLDER / f"page-{scheme}.png").write_bytes(base64.b64decode(picture))


def tab():
    """The address of the browser's tab."""
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/json") as answer:
                return next(t["webSocketDebuggerUrl"] for t in json.load(answer) if t["type"] == "page")
        except (OSError, StopIteration):
            time.sleep(0.2)
    sys.exit("page_in_chromium: chromium does not answer")


def main():
    """Opens, asks, keeps."""
    with tempfile.TemporaryDirectory() as home:
        browser = subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}",
                                    f"--remote-debugging-port={PORT}", "--window-size=1300,800", URL],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page = Page(tab())
            page.wait("document.querySelectorAll('#slots .slot').length === 9")
            page.wait("document.querySelectorAll('#figures dd').length >= 7")
            page.value("document.getElementById('temperature').value = 0; document.getElementById('max').value = 48")
            page.call("Input.insertText", text="Write one sentence about the sea.")
            page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
            page.wait("(document.querySelector('.assistant') ?? {}).textContent?.length > 20")
            page.wait("document.getElementById('send').textContent === 'Send'")
            for scheme in ("light", "dark"):
                page.keep(scheme)
            print(page.value("document.querySelector('.assistant').textContent"))
        finally:
            browser.terminate()
            browser.wait()


main()
