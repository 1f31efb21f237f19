"""How much of a processor the live page takes, and whether it survives strangers.

    python benchmarks/live.py [--seconds 10]             # pictures a second, share of a core
    python benchmarks/live.py --fuzz 600                 # ten minutes of random clicks and messages

A server is started as a user starts it. The first table counts the pictures each viewer is sent and
the processor time of the server, with one and with two viewers, and with one that never reads. The
second sends it random messages, requests and, where there is a Chromium, random clicks, and then
asks whether it still answers as it should. `--json` prints the first one for machines.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

ROOT = Path(__file__).resolve().parents[1]
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATHS = (
    *("/", "/?token=x", "/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//"),
    *("/stream", "/policy.safetensors", "/static/../../x", "/?token=%00", "/" + "a" * 9000, "/*"),
)


@contextmanager
def serving(policy: str):
    """A server in a process of its own; its process number and the address of its page."""
    command = [sys.executable, "-m", "ucpo", "live", policy, "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = []
    address = None
    for line in server.stderr:
        said.append(line)
        found = re.search(r"open (http\S+)", line)
        if found:
            address = found.group(1)
            break
    if address is None:
        raise SystemExit("".join(said))
    rest = threading.Thread(target=lambda: said.extend(server.stderr), daemon=True)
    rest.start()
    try:
        yield server, address, said
    finally:
        server.terminate()
        server.wait(20)


def processor_seconds(number: int) -> float:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stream(address: str, **options):
    where = urlsplit(address)
    return connect(f"ws://{where.netloc}/stream?{where.query}", proxy=None, **options)


class Viewer(threading.Thread):
    """Counts the pictures it is sent."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.pictures, self.ended = address, 0, threading.Event()

    def run(self) -> None:
        with stream(self.address, max_size=None) as socket:
            while not self.ended.is_set():
                self.pictures += socket.recv(timeout=10).startswith('{"kind":"frame"')


def measure(address: str, number: int, viewers: int, idle: int, seconds: float) -> dict:
    """Pictures a second of each viewer and the server's share of a core."""
    made = [Viewer(address) for _ in range(viewers)]
    with ExitStack() as open_:
        for viewer in made:
            viewer.start()
        for _ in range(idle):
            open_.enter_context(stream(address, max_queue=1))
        time.sleep(1.0)
        begun, used = time.perf_counter(), processor_seconds(number)
        before = [viewer.pictures for viewer in made]
        time.sleep(seconds)
        passed = time.perf_counter() - begun
        share = (processor_seconds(number) - used) / passed
        rates = [(v.pictures - b) / passed for v, b in zip(made, before, strict=True)]
        for viewer in made:
            viewer.ended.set()
    for viewer in made:
        viewer.join(10)
    return {"viewers": viewers, "that never read": idle, "pictures": rates, "core": share}


def fuzz(address: str, server: subprocess.Popen, seconds: float, seed: int) -> dict[str, int]:
    """Random messages, requests and clicks from several at once; how many of each."""
    sys.path.insert(0, str(ROOT))
    from tests.show.live.fuzzing import random_message

    until = time.monotonic() + seconds
    counts = {"messages": 0, "requests": 0, "clicks": 0, "shown out": 0, "leaks": 0}
    where = urlsplit(address)

    def send(draw: random.Random) -> None:
        while time.monotonic() < until:
            try:
                with stream(address, max_size=None) as socket:
                    while time.monotonic() < until:
                        text = random_message(draw)
                        if draw.random() < 0.001:
                            text = "x" * draw.choice([5000, 100_000])
                        socket.send(text if draw.random() < 0.97 else text.encode())
                        counts["messages"] += 1
                        time.sleep(draw.choice([0.0, 0.02, 0.05]))
                        if draw.random() < 0.01:
                            break
            except (ConnectionClosed, InvalidStatus, OSError):
                counts["shown out"] += 1

    def request(draw: random.Random) -> None:
        while time.monotonic() < until:
            try:
                connection = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
                method = draw.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE"])
                headers = {"Origin": "http://evil.example"} if draw.random() < 0.3 else {}
                connection.request(method, draw.choice(PATHS), headers=headers)
                answer = connection.getresponse()
                text = answer.read()
                counts["leaks"] += answer.status == 200 or b"root:" in text
                connection.close()
            except (http.client.HTTPException, OSError):
                counts["shown out"] += 1
            counts["requests"] += 1
            time.sleep(0.05)

    work = [threading.Thread(target=send, args=(random.Random(seed + i),)) for i in range(2)]
    work.append(threading.Thread(target=request, args=(random.Random(seed + 9),)))
    for each in work:
        each.start()
    if BROWSER is not None:
        counts["clicks"], complaints = click(address, random.Random(seed + 10), until)
        counts["complaints of the page"] = len(complaints)
        for text in complaints[:5]:
            print("page:", text)
    for each in work:
        each.join()
    assert server.poll() is None, "the server is gone"
    return counts


def click(address: str, draw: random.Random, until: float) -> tuple[int, list[str]]:
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    clicks = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        while time.monotonic() < until:
            if draw.random() < 0.8:
                page.mouse.click(draw.randrange(1200), draw.randrange(800))
            else:
                page.keyboard.press(draw.choice([" ", "ArrowRight", "r", "Tab", "Enter"]))
            clicks += 1
            time.sleep(0.05)
            if draw.random() < 0.002:
                page.goto(address)
        browser.close()
    return clicks, complaints


def still_well(address: str, server: subprocess.Popen) -> None:
    """The server plays on, and refuses what it refused before."""
    with stream(address, max_size=None) as socket:
        socket.send('{"do": "pause", "on": false}')
        socket.send('{"do": "restart"}')
        until = time.monotonic() + 20.0
        pictures = 0
        while pictures < 30 and time.monotonic() < until:
            pictures += json.loads(socket.recv(timeout=10))["kind"] == "frame"
        assert pictures >= 30, "it does not play on"
    try:
        with stream(address.partition("=")[0] + "=wrong"):
            raise AssertionError("a wrong token was accepted")
    except InvalidStatus:
        pass
    kilobytes = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1])
    print(f"it plays on and refuses a wrong token; {kilobytes / 1024:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", nargs="?", default="zoo:SafetyPointGoal1-v0")
    parser.add_argument("--budgets", type=float, nargs="*", default=[], help="of more lanes")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--fuzz", type=float, default=0.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with serving(given.policy) as (server, address, said):
        if given.fuzz:
            for what, count in fuzz(address, server, given.fuzz, given.seed).items():
                print(f"{what:24} {count:,}")
            still_well(address, server)
            print("".join(said[1:]) or "it said nothing\n", end="")
            return
        if given.budgets:
            with stream(address) as socket:
                for budget in given.budgets:
                    socket.send(json.dumps({"do": "add", "source": 0, "values": [budget]}))
        tables = ((1, 0), (2, 0), (2, 1))
        rows = [measure(address, server.pid, *who, given.seconds) for who in tables]
        if given.json:
            print(json.dumps(rows))
            return
        print(f"{given.policy}\nviewers  that never read  pictures a second  share of a core")
        for row in rows:
            rates = ", ".join(f"{rate:.1f}" for rate in row["pictures"])
            print(f"{row['viewers']:7}{row['that never read']:17}{rates:>19}{row['core']:16.2f}")


if __name__ == "__main__":
    main()
