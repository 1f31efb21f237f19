"""Products of operands rounded to bf16: right numbers, the same for a row alone, f32 elsewhere."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from ucpo import UCP
from ucpo.learners import networks
from ucpo.learners.compiled.kernels import ahead, answers, back
from ucpo.learners.compiled.pairs import columns_in_pairs, rows_in_pairs
from ucpo.learners.compiled.registers import PAIRED
from ucpo.learners.networks import Layers

needs_bf16 = pytest.mark.skipif(not PAIRED, reason="this processor does not multiply bf16")
SIZES = [(63, 64, 50), (61, 128, 32, 4), (5, 7, 1), (64, 64, 64, 2)]


@pytest.fixture
def medium():
    torch.set_float32_matmul_precision("medium")


def matrix(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rounded(values):
    return values.bfloat16().float()


@pytest.mark.parametrize("shape", [(1, 1), (2, 32), (3, 31), (4, 33), (7, 100), (64, 64)])
def test_pairs_are_neighbours_rounded_as_pytorch_does(shape):
    numbers = matrix(*shape) * torch.logspace(-30, 30, shape[1])
    short = np.zeros((shape[0] + 1, shape[1] + 1), np.int16)  # what has no neighbour is beside 0
    short[:-1, :-1] = numbers.bfloat16().view(torch.int16).numpy()
    in_rows = rows_in_pairs(numbers.numpy()).view(np.int16)
    np.testing.assert_array_equal(in_rows, short[:-1, : in_rows.shape[1]])
    in_columns = columns_in_pairs(numbers.numpy())
    pairs = in_columns.view(np.int16).reshape(*in_columns.shape, 2)
    np.testing.assert_array_equal(pairs[:, :, 0], short[:-1][::2, :-1])
    np.testing.assert_array_equal(pairs[:, :, 1], short[1::2, :-1][: len(pairs)])


def test_what_is_not_a_number_stays_none():
    nothing = np.full((2, 2), np.nan, np.float32)
    for pairs in (rows_in_pairs(nothing), columns_in_pairs(nothing)):
        shown = torch.from_numpy(pairs.view(np.int16)).view(torch.bfloat16)
        assert shown.isnan().all()


def test_processors_that_cannot_round_by_an_instruction_round_all_the_same(tmp_path):
    # A process of its own: what went wrong once ended it while it compiled.
    code = """
import numpy as np
from ucpo.learners.compiled.pairs import rows_in_pairs
print(rows_in_pairs(np.float32([[1.00390625, -3.0]])).view(np.int16)[0, :2].tolist())
"""
    plain = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True)
    assert done.stdout == f"[{0x3F80}, {0xC040 - 0x10000}]\n", done.stderr


@needs_bf16
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("sizes", SIZES)
def test_passes_are_those_of_rounded_operands_summed_in_f32(medium, sizes, activation):
    layers = Layers(2, sizes, torch.Generator().manual_seed(3), activation=activation)
    inputs, slope = matrix(1, 37, sizes[0]), matrix(2, 37, sizes[-1], seed=1)
    said, seen = ahead(layers, inputs)
    gradient = torch.full_like(layers.flat, torch.nan)
    asked = back(layers, inputs, seen, slope, gradient, slice(2, 5))
    for member in range(2):
        # One output is a sum of products in f32, rounded nowhere.
        short = [rounded if high > 1 else lambda x: x for high in sizes[1:]]
        stack = layers.stack(layers.flat.detach()[member])
        hidden = [inputs[0]]
        for i, (weight, bias) in enumerate(stack):
            summed = short[i](hidden[-1]) @ short[i](weight) + bias
            hidden.append(getattr(torch, activation)(summed) if i < len(stack) - 1 else summed)
        torch.testing.assert_close(said[member], hidden[-1], rtol=1e-2, atol=3e-3)

        # From what the layers really said: one rounding that went the other way moves the rest.
        begins = np.cumsum([0, *(37 * size for size in sizes[1:-1])])
        parts = [seen[member, a:b].view(37, -1) for a, b in pairwise(begins)]
        expected, back_from = [], slope[member]
        for i in reversed(range(len(stack))):
            below = inputs[0] if i == 0 else parts[i - 1]
            expected[:0] = [(short[i](below).T @ short[i](back_from)).flatten(), back_from.sum(0)]
            back_from = rounded(back_from) @ rounded(stack[i][0]).T
            if i:
                flat = (below > 0).float() if activation == "relu" else 1.0 - below**2
                back_from = back_from * flat
        torch.testing.assert_close(gradient[member], torch.cat(expected), rtol=1e-2, atol=5e-3)
        torch.testing.assert_close(asked[member], back_from[:, 2:5], rtol=1e-2, atol=1e-3)


@needs_bf16
@pytest.mark.parametrize("sizes", SIZES)
def test_a_row_is_the_same_alone_and_in_a_batch(medium, sizes):
    layers, inputs = Layers(3, sizes, torch.Generator()), matrix(1, 300, sizes[0])
    together = answers(layers, inputs)
    assert torch.equal(answers(layers, inputs[:, 271:272]), together[:, 271:272])
    assert torch.equal(ahead(layers, inputs)[0], together)


@needs_bf16
def test_f32_and_bf16_differ_by_the_rounding_of_operands(medium):
    layers, inputs = Layers(1, (64, 128, 128, 50), torch.Generator()), matrix(1, 256, 64)
    short = answers(layers, inputs)
    torch.set_float32_matmul_precision("highest")
    exact = answers(layers, inputs)
    assert 1e-4 < (short - exact).norm() / exact.norm() < 1e-2


def test_without_such_a_processor_products_are_in_f32(medium, monkeypatch):
    layers, inputs = Layers(1, (64, 64, 2), torch.Generator()), matrix(1, 8, 64)
    monkeypatch.setattr(networks, "PAIRED", False)
    elsewhere = answers(layers, inputs)
    torch.set_float32_matmul_precision("highest")
    assert torch.equal(answers(layers, inputs), elsewhere)


def test_a_run_is_in_bf16_where_it_is_asked_for_and_the_processor_can():
    small = {
        "random_steps": 100,
        "num_envs": 4,
        "networks": {"hidden": [16], "quantiles": 8},
        "replay": {"batch": 16, "capacity": 600},
    }
    weights = []
    for precision in ("f32", "bf16", "f32"):
        agent = UCP("Courier-v0", precision=precision, **small)
        agent.learn(400, show=False)
        weights.append(agent.learner.critics.body.layers.flat.detach())
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(weights[0], weights[1]) != PAIRED
    torch.testing.assert_close(weights[0], weights[1], rtol=0.0, atol=0.05)
