"""The page in a real browser: it draws everything, answers the pointer, and logs no error."""

import re
import shutil
import subprocess

import pytest

from ucpo.reports import build

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr", "--window-size=1200,4000"),
)
HOOK = """<script>
const note = (text) => {
  const line = document.createElement("pre");
  line.className = "noted";
  line.textContent = text;
  document.documentElement.appendChild(line);
};
addEventListener("error", (event) => note("error: " + event.message));
addEventListener("unhandledrejection", (event) => note("error: " + event.reason));
for (const kind of ["error", "warn"]) console[kind] = (...all) => note("error: " + all.join(" "));
addEventListener("load", () => {
  const mark = document.querySelector(".chart svg circle[r='3.6']");
  const box = mark.getBoundingClientRect();
  const place = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
  mark.dispatchEvent(new PointerEvent("pointermove", place));
  note("hover: " + document.getElementById("hover").textContent);
  const before = document.querySelectorAll(".chart svg circle").length;
  document.querySelector(".legend button").click();
  note("hidden: " + (before - document.querySelectorAll(".chart svg circle").length));
});
</script>"""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)


def opened(page, profile):
    """What the page looks like to the browser after its scripts ran, and what it logged."""
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_page_draws_everything_without_errors(runs, tmp_path):
    page = build([runs], tmp_path / "report", against_paper=True)
    watched = page.with_name("watched.html")
    # The hook must be there before the page's own scripts.
    watched.write_text(page.read_text().replace("<style>", f"{HOOK}<style>", 1))
    seen, logged = opened(watched, tmp_path / "profile")
    noted = re.findall(r'<pre class="noted">(.*?)</pre>', seen, re.S)
    assert logged == []
    assert [text for text in noted if text.startswith("error")] == []
    assert seen.count('<svg class="plot"') == 2 * seen.count("<section id=") == 14
    hovered = next(text for text in noted if text.startswith("hover"))
    assert re.search(r"UCP.*return of an episode.*at budget.*2 seeds, 12 episodes", hovered)
    assert int(next(text for text in noted if text.startswith("hidden")).split()[1]) > 0


def test_the_browser_would_tell_of_an_error(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<html><head></head><body><script>nowhere.go()</script></body></html>")
    _, logged = opened(page, tmp_path / "profile")
    assert any("nowhere is not defined" in line for line in logged)


def test_the_page_asks_the_network_for_nothing(runs, tmp_path):
    text = build([runs], tmp_path / "report").read_text()
    outside = re.findall(
        r"""(?:src|href)\s*=\s*["'](?!#)|url\(|@import|fetch\(|https?://\S+""", text
    )
    assert set(outside) <= {'http://www.w3.org/2000/svg";'}  # a name, not an address
