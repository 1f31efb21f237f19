"""UCP's gradients that are written down, beside those autograd finds of its equations."""

import numpy as np
import pytest
import torch

from tests.learners.test_ucp import SPEC, batch, make
from ucpo.envs.interface import TaskSpec
from ucpo.learners.compiled.ucp_by_hand import ByHand
from ucpo.learners.ucp import Graph
from ucpo.problem import EXCESS, MEAN, Constraint, Problem, register_utility

TWO = TaskSpec("Test", 3, (-1.0, -1.0), (1.0, 1.0), ("first", "second"), None)


def both(spec=SPEC, **options):
    """The gradients of one agent, both ways."""
    agent = make(spec, entropy={"weight": 0.3}, **options)
    given = {
        "problem": agent.problem,
        "entropy": agent.entropy,
        "expect_mean": agent.settings.next_action == "mean",
    }
    networks = agent.actor, agent.critics, agent.target_actor, agent.target_critics
    if spec is TWO:  # each seen in units of its own
        for network in networks:
            network.body.stock_scale = 10.0, 3.0
            network.body.set_scales()
    return agent, ByHand(*networks, **given), Graph(*networks, **given)


def noise():
    return torch.Generator().manual_seed(3)


OPTIONS = [
    {},
    {"utility": "mean", "stock": "hidden", "budget_range": "25:25", "budget_levels": 1},
    {"networks": {"show_excess": False}, "critic": {"reward_unit": 3.0, "cost_unit": 0.5}},
    {"critic": {"next_action": "mean"}},
    {"networks": {"normalise": True, "hidden": [16]}},
]


def merged(options):
    networks = {"hidden": [16, 16], "quantiles": 8, "stock_scale": 10.0}
    return {**options, "networks": {**networks, **options.get("networks", {})}}


@pytest.mark.parametrize("costs", [1, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_targets_losses_and_gradients_are_those_of_the_equations(options, costs):
    options = merged(options)
    agent, by_hand, graph = both(TWO if costs == 2 else SPEC, **options)
    data = batch(costs=costs)
    price = torch.rand(32, costs, generator=noise()) * 4.0

    targets = graph.targets(data, noise())
    torch.testing.assert_close(by_hand.targets(data, noise()), targets, rtol=1e-5, atol=1e-5)

    found = []
    for gradients in (by_hand, graph):
        losses = gradients.of_critics(data, targets)
        critics = [weight.grad.clone() for weight in agent.critics.parameters()]
        judged = gradients.of_actor(data, price, 0.07, noise())
        actor = [weight.grad.clone() for weight in agent.actor.parameters()]
        found.append([losses, *judged, *critics, *actor])
    assert all(part.abs().max() > 1e-4 for part in found[0])
    for ours, book in zip(*found, strict=True):
        torch.testing.assert_close(ours, book, rtol=1e-4, atol=1e-5)


def test_the_actors_gradient_leaves_the_critics_alone():
    agent, by_hand, _ = both()
    before = torch.full_like(agent.critics.body.layers.gradient(), 7.0)
    agent.critics.body.layers.gradient()[:] = before
    by_hand.of_actor(batch(), torch.ones(32, 1), 0.07, noise())
    assert (agent.critics.body.layers.gradient() == before).all()


def test_a_target_that_is_no_number_shows_in_the_loss_of_its_critic():
    _, by_hand, _ = both()
    targets = torch.zeros(3, 32, 8)
    targets[2, 1, 3] = torch.nan
    assert by_hand.of_critics(batch(), targets).isnan().tolist() == [False, False, True]


def test_a_prediction_that_is_no_number_shows_in_the_actors_loss():
    _, by_hand, _ = both()
    data = batch(stock=torch.full((32, 1), np.nan))
    assert by_hand.of_actor(data, torch.ones(32, 1), 0.07, noise()).loss.isnan()


def test_ordinary_networks_learn_by_hand_and_others_by_the_equations():
    small = {"hidden": [16, 16], "quantiles": 8, "stock_scale": 10.0}
    assert isinstance(make()._gradients, ByHand)
    assert isinstance(make(networks={**small, "stock_features": 4})._gradients, Graph)
    assert isinstance(make(networks={**small, "quantiles": 300})._gradients, Graph)


def test_utilities_without_written_slopes_are_left_to_the_equations():
    squared = register_utility("squared-for-slopes", lambda z: z.clip(min=0.0) ** 2)
    agent = make()

    def possible(*utilities):
        limits = tuple(Constraint(f"cost{i}", u) for i, u in enumerate(utilities))
        return ByHand.possible(agent.actor, agent.critics, Problem(limits))

    assert possible(EXCESS, MEAN)
    assert not possible(EXCESS, squared)
