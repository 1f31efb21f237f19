"""Messages nobody would send, and some that somebody would."""

import json
import random
import string
from typing import Any

WISHES: tuple[dict[str, Any], ...] = (
    {"do": "pause", "on": True},
    {"do": "pause", "on": False},
    {"do": "step"},
    {"do": "speed", "value": 8.0},
    {"do": "restart"},
    {"do": "seed", "value": 12},
    {"do": "keep", "on": True},
    {"do": "budget", "lane": 0, "values": [5.0]},
    {"do": "spend", "lane": 0, "extra": [1.0]},
    {"do": "add", "source": 0, "values": [5.0]},
    {"do": "remove", "lane": 1},
)
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 2**70, "", "../../etc/passwd", [], {}, [[]], [None], "\x00", -0.0),
    *([1e12], [-5.0], [2.5], 3, 64, 0.1, [0.0, 0.0]),
)


def random_message(draw: random.Random) -> str:
    """A wish as it should be, one with something odd in it, or no wish at all."""
    kind = draw.random()
    if kind < 0.15:
        return "".join(draw.choices(string.printable, k=draw.randrange(60)))
    wish = dict(draw.choice(WISHES))
    if "lane" in wish:
        wish["lane"] = draw.randrange(4)
    if "values" in wish:
        wish["values"] = [draw.choice([0.0, 3.5, 12.0, 25.0, 30.0])]
    if kind < 0.5:
        wish[draw.choice([*wish, "path", "__class__"])] = draw.choice(ODD)
    text = json.dumps(wish)
    if kind > 0.93:
        cut = draw.randrange(len(text))
        text = text[:cut] + draw.choice('{}[]",:\\\u2028') + text[cut + 1 :]
    return text
