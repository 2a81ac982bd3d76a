# SPDX-License-Identifier: Apache-2.0
"""Opens a page in a browser and prints as JSON what the page shows. Needs an environment with requirements/browser.txt.

Arguments: the page, the file for the screenshot, the width of the window.
"""

import json
import os
import sys
from typing import Any

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# The browser runs without a sandbox because tests run as root in containers; the page is our own.
os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--no-sandbox --disable-gpu"

from PyQt6.QtCore import QTimer, QUrl
from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile, QWebEngineUrlRequestInterceptor
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication

HEIGHT = 3000
#: Milliseconds from loading to the screenshot. Two frames are enough, but they take longer on a busy machine.
SETTLED = 1500

LOOK = """(() => {
  const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const figures = [...document.querySelectorAll("svg")].map(svg => ({
    id: svg.id, box: box(svg),
    bars: [...svg.querySelectorAll("rect")].map(r => ({
      box: box(r), kind: r.getAttribute("class"), fill: getComputedStyle(r).fill, title: r.textContent })),
    texts: [...svg.querySelectorAll("text")].map(t => ({ box: box(t), text: t.textContent })),
  }));
  const sections = [...document.querySelectorAll("section")].map(s => ({
    id: s.id, box: box(s), heading: s.querySelector("h2")?.textContent ?? "", text: s.innerText }));
  return JSON.stringify({
    title: document.title, width: document.documentElement.scrollWidth, window: window.innerWidth,
    scripts: document.scripts.length, figures, sections, links: document.querySelectorAll("[src], link").length });
})()"""


class Requests(QWebEngineUrlRequestInterceptor):
    """Records every address that the page requests."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def interceptRequest(self, info: Any) -> None:  # noqa: N802
        self.seen.append(info.requestUrl().toString())


class Page(QWebEnginePage):
    """Records the errors and warnings of the browser's console."""

    complaints: list[str]

    def javaScriptConsoleMessage(self, level: Any, message: str, line: int, source: str) -> None:  # noqa: N802
        self.complaints.append(message)


def main() -> None:
    file, picture, width = sys.argv[1], sys.argv[2], int(sys.argv[3])
    application = QApplication(sys.argv[:1])
    profile = QWebEngineProfile()
    requests = Requests()
    profile.setUrlRequestInterceptor(requests)
    page = Page(profile)
    page.complaints = []
    view = QWebEngineView()
    view.setPage(page)
    view.resize(width, HEIGHT)

    def looked(text: str) -> None:
        found = json.loads(text)
        image = view.grab().toImage()
        image.save(picture)
        for figure in found["figures"]:
            for bar in figure["bars"]:
                left, _, right, bottom = (image.devicePixelRatio() * side for side in bar["box"])
                # The pixel is below the label of the bar.
                bar["painted"] = image.pixelColor(int((left + right) / 2), int(bottom - 3)).getRgb()[:3]
        print(json.dumps({**found, "requests": requests.seen, "complaints": page.complaints}))
        application.quit()

    def loaded(ok: bool) -> None:
        if not ok:
            sys.exit("the page does not load")
        QTimer.singleShot(SETTLED, lambda: page.runJavaScript(LOOK, looked))

    page.loadFinished.connect(loaded)
    view.load(QUrl.fromLocalFile(file))
    view.show()
    application.exec()
    # The view lets go of the page first, because a profile must outlive its pages.
    view.setPage(None)
    page.deleteLater()


if __name__ == "__main__":
    main()
