"""Headless Chromium, driven by its debugging protocol over two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60  # seconds to wait for an answer


def installed():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chrome:
    """A browser with one page (a context manager)."""

    def __enter__(self):
        # Settings, caches and crash reports stay in a folder that is removed afterwards.
        self.home = tempfile.TemporaryDirectory(prefix="aqueduct-chrome-",
                                                ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()
        words = [installed(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--allow-file-access-from-files", "--disable-dev-shm-usage",
                 "--disable-background-networking", "--hide-scrollbars",
                 "--remote-debugging-pipe", f"--user-data-dir={self.home.name}", "about:blank"]
        # Chromium reads from descriptor 3 and writes to descriptor 4.
        shell = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", *words],
                                        pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log,
                                        env={**os.environ, "HOME": self.home.name})
        os.close(to_read)
        os.close(to_write)
        self.number, self.pending, self.session, self.events = 0, b"", None, []
        target = next(target for target in self.call("Target.getTargets")["targetInfos"]
                      if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def __exit__(self, *error):
        os.close(self.to)  # makes it exit
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.of)
        self.log.close()
        self.home.cleanup()

    def receive(self, limit):
        """Returns the next message."""
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.of], [], [], max(0, limit - time.monotonic()))
            piece = os.read(self.of, 1 << 20) if ready else b""
            if not piece:
                self.log.seek(0)
                raise OSError(f"Chromium does not answer; its output: {self.log.read()[-2000:]}")
            self.pending += piece
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        """Call a method of the protocol. Returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        limit = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(limit)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def look(self, width, dark):
        """Emulate a screen of this width and the reader's preferred color scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def scripts(self, on):
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def open(self, address):
        """Open a page, and wait until it and its pictures have been loaded."""
        self.events.clear()
        error = self.call("Page.navigate", url=address).get("errorText")
        if error:
            raise OSError(f"{address}: {error}")
        self.loaded()

    def loaded(self):
        limit = time.monotonic() + TIMEOUT
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive(limit))

    def follow(self, expression):
        """Evaluate an expression that leads to another page, and wait until that has been
        loaded."""
        self.events.clear()
        self.ask(expression)
        self.loaded()

    def ask(self, expression):
        """Evaluate a JavaScript expression in the page. Returns its value."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise OSError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def picture(self, whole=False):
        """Returns a screenshot of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png",
                                          captureBeyondViewport=whole)["data"])
