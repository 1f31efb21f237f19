"""The server as a stranger meets it: what it shows, and what it does not."""

import http.client
import json
import random
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ucpo.cli.main import main
from ucpo.errors import UsageError
from ucpo.show.live.serving import listen

from .fuzzing import random_message


def get(server, path, host=None, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, text, answer.headers


def stream(server, token=None, **options):
    token = server.live.token if token is None else token
    return connect(f"ws://127.0.0.1:{server.port}/stream?token={token}", proxy=None, **options)


def heard(socket, kind, seconds=10.0):
    """The next message of a kind."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        told = json.loads(socket.recv(timeout=seconds))
        if told["kind"] == kind:
            return told
    raise AssertionError(f"no {kind}")


def test_the_page_needs_its_token_and_its_own_name(server):
    path = urlsplit(server.address)
    status, text, headers = get(server, f"/?{path.query}")
    assert status == 200
    assert "<title>SafetyPointGoal1-v0" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert get(server, "/")[0] == 403
    assert get(server, "/?token=wrong")[0] == 403
    assert get(server, f"/?{path.query}", host="evil.example")[0] == 403
    assert get(server, f"/?{path.query}", Origin="http://evil.example")[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"),
        *("/page/live.js", "/policy.safetensors", "/stream", "/static/..%2f..%2fpyproject.toml"),
        *("/?token=../../etc/passwd", "/?token=%00", "/docs", "/openapi.json"),
    ],
)
def test_nothing_else_is_there(server, path):
    status, text, _ = get(server, path)
    assert status in (403, 404)
    assert text.startswith("ucpo: ")
    assert len(text) < 200
    assert get(server, path, method="POST")[0] in (403, 404)


def test_a_stream_needs_the_token_and_no_other_site_gets_one(server):
    for token in ("", "wrong", server.live.token[:-1]):
        with pytest.raises(InvalidStatus) as refused:
            stream(server, token)
        assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus):
        stream(server, origin="http://evil.example")
    with pytest.raises(InvalidStatus):
        stream(server, additional_headers={"Host": "evil.example"})
    with stream(server, origin=f"http://127.0.0.1:{server.port}") as socket:
        assert heard(socket, "hello")["task"] == "SafetyPointGoal1-v0"


def test_someone_who_comes_is_told_everything_and_then_what_is_new(server):
    with stream(server) as socket:
        hello, charts = heard(socket, "hello"), heard(socket, "charts")
        assert hello["sources"][0]["high"] == [30.0]
        assert charts["frontier"] == []
        assert heard(socket, "settings")["lanes"][0]["budget"] == [10.0]
        assert heard(socket, "episode")["lanes"][0]["scenery"]["kind"] == "above"
        first, second = heard(socket, "frame"), heard(socket, "frame")
        ages = [frame["lanes"][0]["point"][0] for frame in (first, second)]
        assert 0 < ages[0] < ages[1]


def test_what_one_sets_everybody_sees(server):
    with stream(server) as one, stream(server) as other:
        heard(one, "episode"), heard(other, "episode")
        one.send(json.dumps({"do": "pause", "on": True}))
        assert heard(other, "settings")["paused"]
        one.send(json.dumps({"do": "spend", "lane": 0, "extra": [2.5]}))
        while True:
            frame = heard(other, "frame")
            if frame["lanes"][0]["point"][2] == [12.5]:
                break
        one.send(json.dumps({"do": "budget", "lane": 0, "values": [99.0]}))
        assert "outside the range" in heard(one, "refusal")["why"]


def test_messages_that_are_too_long_or_too_many_end_the_stream_and_nothing_else(server):
    with stream(server) as calm:
        with stream(server) as socket:
            heard(socket, "episode")
            socket.send("x" * 100_000)
            with pytest.raises(ConnectionClosed):
                for _ in range(1000):
                    socket.recv(timeout=5)
        with stream(server) as socket, pytest.raises(ConnectionClosed):
            for _ in range(3000):
                socket.send('{"do": "pause", "on": false}')
            for _ in range(5000):
                socket.recv(timeout=5)
        assert heard(calm, "frame")
    assert get(server, "/")[0] == 403


def test_somebody_who_does_not_read_keeps_nobody_waiting(server):
    with stream(server, max_queue=1) as idle, stream(server) as socket:
        heard(socket, "episode")
        socket.send(json.dumps({"do": "speed", "value": 8}))
        begun = time.monotonic()
        for _ in range(20):
            heard(socket, "frame")
        assert time.monotonic() - begun < 20.0
        assert idle is not None


def test_an_error_nobody_expected_is_told_and_the_page_goes_on(server, caplog):
    """A task of one's own may raise anything, in the middle of an episode and when it begins."""
    lane = server.live.stage.lanes[0]
    with stream(server) as socket:
        heard(socket, "frame")
        lane.step = lambda: 1 / 0
        assert "ZeroDivisionError" in heard(socket, "refusal")["why"]
        assert heard(socket, "settings")["paused"]
        socket.send('{"do": "step"}')
        assert "ZeroDivisionError" in heard(socket, "refusal")["why"]
        del lane.step
        socket.send('{"do": "pause", "on": false}')
        assert heard(socket, "frame")
    assert "met an error" in caplog.text


def test_nobody_looks_and_nothing_is_computed(server):
    with stream(server) as socket:
        heard(socket, "frame")
    until = time.monotonic() + 5.0
    while server.live.viewers and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.1)
    age = server.live.stage.lanes[0].age
    time.sleep(0.3)
    assert server.live.stage.lanes[0].age == age


def test_random_messages_do_no_harm(server):
    """A few seconds of what `benchmarks/live.py --fuzz` does for ten minutes."""
    draw = random.Random(0)
    with stream(server) as socket:
        for _ in range(150):
            socket.send(random_message(draw))
            time.sleep(0.01)
        socket.send('{"do": "pause", "on": false}')
        socket.send('{"do": "restart"}')
        assert heard(socket, "frame", 20.0)
        refusals = 0
        while refusals < 5:
            heard(socket, "refusal")
            refusals += 1


def test_a_port_that_is_taken_is_said(server):
    with pytest.raises(UsageError, match=f"port {server.port}.*another --port"):
        listen("127.0.0.1", server.port)
    with pytest.raises(UsageError, match="0 to 65535"):
        listen("127.0.0.1", 70_000)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["zoo:SafetyPointGoal9-v0"], "the zoo has no 'SafetyPointGoal9-v0'"),
        (["zoo:SafetyPointGoal1-v0", "zoo:SafetyPointCircle1-v0"], "only policies of one task"),
        (["zoo:SafetyPointGoal1-v0", "--budget", "99"], "outside the range trained for"),
        (["nowhere"], "there is no policy at nowhere"),
        ([], "which policy?"),
    ],
)
def test_the_command_says_what_is_wrong_before_it_serves(words, why, capsys):
    with pytest.raises(SystemExit):
        main(["live", *words])
    assert why in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_it_even_while_somebody_looks():
    command = [sys.executable, "-m", "ucpo", "live", "zoo:SafetyPointGoal1-v0", "--no-browser"]
    words = [*command, "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as started:
        said = [started.stderr.readline(), started.stderr.readline()]
        address = urlsplit(said[0].split()[1])
        with connect(f"ws://{address.netloc}/stream?{address.query}", proxy=None) as socket:
            heard(socket, "frame", 60.0)
            started.send_signal(signal.SIGINT)
            assert started.wait(30) == 0
        assert started.stderr.read() == "ended\n"
