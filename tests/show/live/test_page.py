"""The page in a real browser: what a person does, and what they then see."""

import random
import time

import pytest

from .conftest import BROWSER, FLAGS, needs_browser, serving

pytestmark = needs_browser

KEYS = (" ", "ArrowRight", "r", "Tab", "Enter", "Escape", "7")
TURN = """(input, share) => {
  input.value = +input.min + share * (input.max - input.min);
  for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind));
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture
def opened(browser, with_critics):
    """The page of a policy with critics, under a budget of 10, and what it complains of."""
    with serving(with_critics, budgets=[[10.0]], seed=3) as server:
        page, complaints = look_at(browser, server)
        yield page
        page.close()
        assert complaints == []


def look_at(browser, server):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.goto(server.address)
    wait(page, "page.lanes.length > 0 && page.lanes[0].point[0] > 0")
    return page, complaints


def wait(page, what, seconds=30.0):
    """Until something is true; asked from outside, as the page lets nothing be evaluated inside."""
    until = time.monotonic() + seconds
    while not page.evaluate(what):
        assert time.monotonic() < until, f"never came true: {what}"
        time.sleep(0.02)


def shown(page, what, lane=0):
    return page.locator(".lane").nth(lane).locator(f"[data-shows={what}]").first.inner_text()


def set_slider(page, kind, value, lane=0):
    """As a person does it: the value changes while it is turned, and it is let go of."""
    slider = page.locator(".lane").nth(lane).locator(f"input[data-turns={kind}]")
    slider.evaluate(
        "(input, value) => { input.focus(); input.value = value; "
        "for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind)); "
        "input.blur(); }",
        value,
    )


def painted(page, selector):
    """How many different colours a canvas shows."""
    return page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector);
          const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < all.length; i += 4)
            seen.add((all[i] << 16) | (all[i + 1] << 8) | all[i + 2]);
          return seen.size;
        }""",
        selector,
    )


def test_an_episode_runs_and_is_drawn(opened):
    before = int(shown(opened, "age").split()[0])
    wait(opened, f"page.lanes[0].point[0] > {before + 20}")
    assert int(shown(opened, "age").split()[0]) > before
    assert painted(opened, ".picture") > 10  # floor, hazards, goal, vase, trail, robot
    assert painted(opened, ".gauge") > 3
    assert painted(opened, ".course") > 3
    assert shown(opened, "holds").endswith("%")
    assert "of 10" in shown(opened, "left")


def test_the_slider_changes_the_budget_of_the_episode_that_follows(opened):
    set_slider(opened, "next", 21)
    wait(opened, "page.settings.lanes[0].budget[0] === 21")
    assert "of 10" in shown(opened, "left")  # this episode goes on as it began
    opened.click("#restart")
    wait(opened, "page.lanes[0].point[2][0] === 21")
    assert "of 21" in shown(opened, "left")


def test_spending_midway_changes_what_is_left(opened):
    opened.click("#play")
    wait(opened, "page.settings.paused")
    left = opened.evaluate("page.lanes[0].point[2][0] - page.lanes[0].point[1][0]")
    set_slider(opened, "now", 16)
    wait(opened, "page.lanes[0].point[2][0] === 16")
    assert opened.evaluate("page.lanes[0].point[2][0] - page.lanes[0].point[1][0]") == left + 6
    assert "of 16" in shown(opened, "left")


def test_pause_step_speed_and_seed(opened):
    opened.click("#play")
    wait(opened, "page.settings.paused")
    age = opened.evaluate("page.lanes[0].point[0]")
    opened.click("#step")
    wait(opened, f"page.lanes[0].point[0] === {age + 1}")
    opened.select_option("#speed", "8")
    wait(opened, "page.settings.speed === 8")
    opened.fill("#seed", "123")
    opened.press("#seed", "Enter")
    wait(opened, "page.settings.seed === 123")
    opened.click("#restart")
    wait(opened, "document.querySelector('.lane .head span').textContent.includes('seed 123')")
    opened.locator("body").press("Space")
    wait(opened, "!page.settings.paused")


def test_another_budget_plays_beside_it_on_the_same_seed(opened):
    opened.click("#add")
    wait(opened, "page.lanes.length === 2 && page.lanes[1].point[0] > 0")
    heads = opened.locator(".lane .head span").all_inner_texts()
    assert heads[0] == heads[1]
    assert "of 10" in shown(opened, "left", 0)
    assert "of 0" in shown(opened, "left", 1) or "too much" in shown(opened, "left", 1)
    opened.locator(".lane").nth(1).get_by_text("Remove").click()
    wait(opened, "page.lanes.length === 1")


def test_a_refusal_is_shown(opened):
    opened.evaluate("page.socket.send(JSON.stringify({ do: 'budget', lane: 0, values: [999] }))")
    opened.wait_for_selector("#refusal:not([hidden])")
    assert "outside the range trained for" in opened.inner_text("#refusal")


def test_the_page_finds_its_way_back_to_the_server(opened):
    opened.evaluate("page.socket.close()")
    wait(
        opened,
        "page.socket.readyState === 1 && document.getElementById('state').className.includes('on')",
    )


def test_what_a_budget_buys_has_a_ring_at_the_chosen_budget(browser):
    """With an entry of the zoo, which comes with an evaluation and with curves."""
    with serving("zoo:SafetyPointGoal1-v0", budgets=[[10.0]]) as server:
        page, complaints = look_at(browser, server)
        ring = page.locator("#frontier-charts svg circle[r='7']")
        assert ring.count() == 2
        before = ring.first.get_attribute("cx")
        assert "% of episodes kept a budget of 10" in page.locator(".explain").inner_text()
        set_slider(page, "next", 25)
        wait(page, "page.settings.lanes[0].budget[0] === 25")
        assert float(ring.first.get_attribute("cx")) > float(before)
        assert page.locator("#training-figures svg.plot").count() == 4
        page.close()
        assert complaints == []


def test_without_critics_the_page_says_that_nothing_is_predicted(browser, alone):
    with serving(alone) as server:
        page, complaints = look_at(browser, server)
        assert shown(page, "holds") == "\u2013"
        assert "There are no critics for this policy" in page.locator(".explain").inner_text()
        page.close()
        assert complaints == []


def test_robots_that_run_are_drawn_from_the_side(browser):
    with serving("zoo:SafetyHalfCheetahVelocity-v1", budgets=[[10.0]]) as server:
        page, complaints = look_at(browser, server)
        assert painted(page, ".picture") > 5
        page.close()
        assert complaints == []


def test_random_clicking_does_no_harm(opened):
    click_about(opened, random.Random(1), seconds=4.0)
    opened.evaluate("page.socket.send(JSON.stringify({ do: 'pause', on: false }))")
    opened.evaluate("page.socket.send(JSON.stringify({ do: 'restart' }))")
    wait(opened, "!page.settings.paused && page.lanes[0].point[0] > 0")


def click_about(page, draw, seconds):
    """Click, turn and type anywhere for a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        kind = draw.random()
        if kind < 0.5:
            page.mouse.click(draw.randrange(1280), draw.randrange(900))
        elif kind < 0.8:
            sliders = page.locator("input[type=range]:enabled")
            if sliders.count():
                which = sliders.nth(draw.randrange(sliders.count()))
                which.evaluate(TURN, draw.random())
        else:
            page.keyboard.press(
                draw.choice([" ", "ArrowRight", "r", "Tab", "Enter", "Escape", "7"])
            )
