"""A policy as an ONNX graph, for runtimes without Python.

Inputs ``observation`` (n, obs) and ``stock`` (n, C), output ``action`` (n, action) in the
environment's own units, all float32 with any number of rows; of a policy that chooses, ``action``
(n,) holds the numbers of its choices, int64. The stock is for the caller to keep:
minus the budget at first, then plus the cost of every step (`STOCK` says it in the file too).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ucpo.envs.adapters import chosen, to_bounds
from ucpo.envs.interface import Bools
from ucpo.errors import UsageError
from ucpo.learners.actors import ChoiceActor, GaussianActor, OnPolicyActor
from ucpo.learners.networks import Actor, Layers
from ucpo.learners.normaliser import Scaled
from ucpo.policies.policy import Policy, PolicyInfo
from ucpo.problem import Floats
from ucpo.storage import files

STOCK = (
    "stock: one column per cost; -budget when an episode begins, then after every step "
    "stock = (stock + cost) / stock_discount"
)
TOLERANCE = 1e-5
"""Of the range of an action, between the policy and the exported graph. Where float32 itself is
coarser, as in files of before observations had a scale of their own, four times its rounding."""
_OPSET, _IR = 17, 8  # old enough for runtimes of the last years
_ACTIONS = np.array(-1.0, np.float32), np.array(1.0, np.float32)  # scalars, as `Clip` wants them


def export(policy: Policy, path: str | Path) -> float:
    """Write a policy as an ONNX file, once it was seen to act as the policy does.

    Args:
        policy: What to export.
        path: Where to; must end in ``.onnx``.

    Returns:
        The largest difference from the policy's own actions that was found, as a share of their
        range.
    """
    target = Path(path)
    if target.suffix != ".onnx":
        raise UsageError(f"a policy is exported as .onnx, got {target.name!r}")
    files.must_be_writable(target, "name another file")
    data: bytes = _model(policy).SerializeToString()
    difference, rounding = _difference(policy, data)
    if not difference <= max(TOLERANCE, 4.0 * rounding):
        raise RuntimeError(
            f"the exported graph acts otherwise than the policy (by {difference:.1e} of the range "
            "of an action); nothing was written. Please report this with the policy file"
        )
    files.replace(target, data)
    return difference


def _model(policy: Policy) -> Any:
    onnx = _needed("onnx")
    graph = _Graph(onnx)
    info, actor = policy.info, policy.actor
    if info.network is not None:
        raise UsageError(
            f"the networks of this policy are made by {info.network}, whose layers are not known "
            "here; export them with torch.onnx.export(policy.actor, ...)"
        )
    actions = len(info.action_low)
    output = _output(graph, actor, actions)
    _act(graph, actor, output, info)
    number, count = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    values = [
        onnx.helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("observation", number, ["n", info.observation_size]),
            ("stock", number, ["n", len(info.cost_names)]),
            ("action", *((count, ["n"]) if info.chooses else (number, ["n", actions]))),
        )
    ]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes, "policy", values[:2], values[2:], graph.constants, doc_string=STOCK
        ),
        producer_name="ucpo",
        ir_version=_IR,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
    )
    about = dataclasses.asdict(info) | {"stock": STOCK}
    onnx.helper.set_model_props(made, {name: json.dumps(said) for name, said in about.items()})
    onnx.checker.check_model(made)
    return made


def _act(graph: _Graph, actor: Actor | OnPolicyActor, output: str, info: PolicyInfo) -> None:
    """From outputs to actions in the environment's own units."""
    low, high = (np.array(each, np.float32) for each in (info.action_low, info.action_high))
    if isinstance(actor, ChoiceActor):
        largest = graph.add("ArgMax", output, axis=1, keepdims=0)
        graph.add("Add", largest, np.array([info.action_low[0]], np.int64), to="action")
        return
    clipped = isinstance(actor, GaussianActor) and not actor.squashed
    action = graph.add("Clip", output, *_ACTIONS) if clipped else graph.add("Tanh", output)
    share = graph.add("Mul", action, (high - low) / 2.0)
    graph.add("Add", share, (high + low) / 2.0, to="action")


def _output(graph: _Graph, actor: Actor | OnPolicyActor, actions: int) -> str:
    """From the inputs to what becomes an action."""
    body = actor.body
    seen = "observation"
    if isinstance(body, Scaled):
        seen = graph.add("Div", graph.add("Sub", seen, body.shift), body.scale)
    if body.stock_size:
        scale = np.asarray(body.stock_scale, np.float32).reshape(-1)
        stock = "stock"
        if body.stock_ceiling is not None:
            stock = graph.add("Min", stock, np.array([body.stock_ceiling], np.float32))
        stock = graph.add("Div", stock, scale)
        if body.embedding is not None:
            stock = graph.layers(body.embedding, stock)
        seen = graph.add("Concat", seen, stock, axis=1)
    return graph.layers(body.layers, seen, outputs=actions)  # deviations come after the means


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: ModuleType) -> None:
        self._onnx: Any = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str | Tensor | Floats, to: str = "", **how: Any) -> str:
        """A node; inputs are names of other nodes or constants. Returns its name."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        name = to or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, names, [name], name=name, **how))
        return name

    def layers(self, layers: Layers, seen: str, outputs: int | None = None) -> str:
        """A multilayer perceptron, of its last layer only the first outputs."""
        stack = layers.stack(layers.flat.detach()[0])
        for i, (weight, bias) in enumerate(stack):
            last = outputs if i + 1 == len(stack) else None
            seen = self.add("Gemm", seen, weight[:, :last], bias[:last])
            if i < layers.activated:
                seen = self.add("Relu" if layers.activation == "relu" else "Tanh", seen)
        return seen

    def _constant(self, value: Tensor | Floats) -> str:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        name = f"constant{len(self.constants)}"
        array = np.asarray(array, None if array.dtype == np.int64 else np.float32, order="C")
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name


def _difference(policy: Policy, data: bytes, rows: int = 256) -> tuple[float, float]:
    """How far a graph is from the policy, and the policy from itself in double precision.

    Both at most over some rows, as shares of the actions' range.
    """
    runtime: Any = _needed("onnxruntime")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    obs, stock = _rows(policy, rows)
    found = session.run(["action"], {"observation": obs, "stock": stock})[0]
    low, high = np.array(policy.info.action_low), np.array(policy.info.action_high)
    expected = policy.act(obs, stock)
    if policy.info.chooses:
        return float((found != chosen(expected, low))[_decided(policy, obs, stock)].any()), 0.0
    with torch.no_grad():
        exact = (
            deepcopy(policy.actor)
            .double()
            .mode(*map(torch.from_numpy, (obs.astype(float), stock.astype(float))))
        )
    rounding = float(np.abs(expected - exact.numpy()).max()) / 2.0
    difference = np.abs(found - to_bounds(expected, low, high)) / (high - low)
    return float(difference.max()), rounding


def _decided(policy: Policy, obs: Floats, stock: Floats) -> Bools:
    """Rows whose best choice is ahead of the next by more than rounding, (n,)."""
    with torch.no_grad():
        output = policy.actor(torch.from_numpy(obs), torch.from_numpy(stock))
    best, second = output.topk(2, dim=-1).values.unbind(-1)
    decided: Bools = (best - second > TOLERANCE * (1.0 + best.abs())).numpy()
    return decided


def _rows(policy: Policy, count: int) -> tuple[Floats, Floats]:
    """Observations and stocks to compare on, as in training where the policy says what it saw."""
    info, body = policy.info, policy.actor.body
    generator = np.random.default_rng(0)
    obs = generator.normal(size=(count, info.observation_size))
    if isinstance(body, Scaled):
        obs = obs * body.scale.numpy() + body.shift.numpy()
    budgets = np.maximum(np.array(info.budget_high), 1.0)
    stock = generator.uniform(-1.0, 0.5, (count, len(budgets))) * budgets
    return obs.astype(np.float32), stock.astype(np.float32)


def _needed(name: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"exporting needs {name}, which is not installed ({error}): pip install 'ucpo[export]'"
        ) from None


def describe(names: Sequence[str], discount: float) -> str:
    """How to use an exported policy, in a line or two for people."""
    later = "stock += cost" if discount == 1.0 else f"stock = (stock + cost) / {discount:g}"
    return (
        "inputs observation and stock, output action, all float32 with a row each; "
        f"stock ({', '.join(names)}) = -budget when an episode begins, then {later} after each step"
    )
