"""ONNX in doubles: `TreeEnsemble` of ai.onnx.ml 5, proven under onnxruntime.

The nodes before the trees expand a row as `pipeline.splits` says, so that the trees compare numbers with "<=" and look
codes up in sets, and no runtime has to know LightGBM's rules for missing values. With one intra-op thread onnxruntime
adds the trees in order, and scores equal LightGBM's to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from features.errors import ExportError, MissingExtraError
from pipeline.export.model import ExportModel, Format, Outcome, refuse_linear, write_features, write_readme
from pipeline.forest import ZERO, Floats, Forest, Tree
from pipeline.splits import MAX_CODE, Splits, Treatment, plan_splits

MODEL = "model.onnx"
INPUT, OUTPUT = "rows", "scores"
OPSET, ML_OPSET = 18, 5
BRANCH_LEQ, BRANCH_MEMBER = 0, 6
SUM = 1
NO_CODE = -2.0
"""Below every code, -1 included: what an empty set is compared with."""


def write(model: ExportModel, folder: Path, _version: str | None) -> None:
    refuse_linear(model, "onnx")
    onnx = _need("onnx")
    content = _graph(model, onnx)
    try:
        onnx.checker.check_model(content, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ExportError(
            f"onnx.checker refuses the model: {error}", expected="a valid model", fix="upgrade onnx, or export to c"
        ) from error
    (folder / MODEL).write_bytes(content.SerializeToString(deterministic=True))
    write_features(model, folder)
    write_readme(folder, "A ranking model in ONNX", _README)


def evaluate(folder: Path, rows: Floats, _version: str | None) -> Outcome:
    scores = session(folder / MODEL, threads=1).run([OUTPUT], {INPUT: rows})[0]
    return Outcome(np.asarray(scores, np.float64).reshape(-1))


def session(path: Path, *, threads: int) -> Any:
    """An onnxruntime session on the CPU; 0 threads means as many as it likes. Raises MissingExtraError."""
    runtime = _need("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _need(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingExtraError(library, "onnx") from error


def _graph(model: ExportModel, onnx: Any) -> Any:
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    splits = plan_splits(model.forest)
    constants = _Constants(onnx)
    nodes: list[Any] = []
    expanded = _expansion(splits, constants, helper.make_node, nodes)
    average = model.forest.average
    nodes.append(_Ensemble(model.forest, splits).node(onnx, expanded, "sum" if average else OUTPUT))
    if average:
        count = constants.add("count", [float(len(model.forest.trees))])
        nodes.append(helper.make_node("Div", ["sum", count], [OUTPUT]))
    graph = helper.make_graph(
        nodes,
        "rankloom",
        [helper.make_tensor_value_info(INPUT, double, ["N", len(model.features)])],
        [helper.make_tensor_value_info(OUTPUT, double, ["N", 1])],
        initializer=constants.tensors,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    content = helper.make_model(graph, opset_imports=opsets, producer_name="rankloom", ir_version=10)
    helper.set_model_props(content, {"fingerprint": model.fingerprint})
    return content


class _Constants:
    """The initializers of a graph."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.tensors: list[Any] = []

    def add(self, name: str, values: list[float] | list[int]) -> str:
        dtype = np.int64 if isinstance(values[0], int) else np.float64
        self.tensors.append(self.onnx.numpy_helper.from_array(np.array(values, dtype), name))
        return name


def _expansion(splits: Splits, constants: _Constants, make: Callable[..., Any], nodes: list[Any]) -> str:
    """Appends the nodes that turn rows into columns, treatment by treatment; returns the name of their result.

    Columns keep their place: those of one treatment are gathered together, and the last Gather puts all in order.
    """
    by_treatment = {
        treatment: [index for index, column in enumerate(splits.columns) if column.treatment is treatment]
        for treatment in Treatment
    }
    used = {treatment: indices for treatment, indices in by_treatment.items() if indices}
    if not used:
        return INPUT
    parts = []
    for treatment, indices in used.items():
        name = treatment.name.lower()
        features = constants.add(f"{name}_features", [splits.columns[index].feature for index in indices])
        nodes.append(make("Gather", [INPUT, features], [f"{name}_raw"], axis=1))
        parts.append(_treated(treatment, name, constants, make, nodes))
    nodes.append(make("Concat", parts, ["grouped"], axis=1))
    order = np.argsort(np.concatenate(list(used.values())))
    nodes.append(make("Gather", ["grouped", constants.add("order", [int(i) for i in order])], ["columns"], axis=1))
    return "columns"


def _treated(treatment: Treatment, name: str, constants: _Constants, make: Callable[..., Any], nodes: list[Any]) -> str:
    raw, blank, result = f"{name}_raw", f"{name}_blank", f"{name}_columns"
    if treatment is Treatment.RIGHT:
        return raw
    nodes.append(make("IsNaN", [raw], [blank]))
    if treatment in (Treatment.ZERO_LEFT, Treatment.ZERO_RIGHT):
        size, tiny, absent = f"{name}_size", f"{name}_tiny", f"{name}_absent"
        limit = constants.add(f"{name}_limit", [ZERO])
        nodes += [make("Abs", [raw], [size]), make("LessOrEqual", [size, limit], [tiny])]
        nodes.append(make("Or", [blank, tiny], [absent]))
        blank = absent
    if treatment is Treatment.CODE:
        return _codes(name, constants, make, nodes)
    filling = {Treatment.NUMBER: 0.0, Treatment.ZERO_RIGHT: math.nan}.get(treatment, -math.inf)
    nodes.append(make("Where", [blank, constants.add(f"{name}_filling", [filling]), raw], [result]))
    return result


def _codes(name: str, constants: _Constants, make: Callable[..., Any], nodes: list[Any]) -> str:
    """trunc(x) where -1 < x < 2^31, else -1: Floor of what is not below 0, as ONNX has no Trunc."""
    minus, top = constants.add(f"{name}_none", [-1.0]), constants.add(f"{name}_top", [float(MAX_CODE)])
    zero = constants.add(f"{name}_zero", [0.0])
    nodes += [
        make("Greater", [f"{name}_raw", minus], [f"{name}_above"]),
        make("Less", [f"{name}_raw", top], [f"{name}_below"]),
        make("And", [f"{name}_above", f"{name}_below"], [f"{name}_valid"]),
        make("Where", [f"{name}_valid", f"{name}_raw", minus], [f"{name}_kept"]),
        make("Max", [f"{name}_kept", zero], [f"{name}_positive"]),
        make("Floor", [f"{name}_positive"], [f"{name}_floor"]),
        make("Where", [f"{name}_valid", f"{name}_floor", minus], [f"{name}_columns"]),
    ]
    return f"{name}_columns"


class _Ensemble:
    """The attributes of TreeEnsemble; a tree of one leaf becomes a split whose both sides are that leaf."""

    def __init__(self, forest: Forest, splits: Splits) -> None:
        self.roots: list[int] = []
        self.features: list[int] = []
        self.modes: list[int] = []
        self.splits: list[float] = []
        self.true_ids: list[int] = []
        self.false_ids: list[int] = []
        self.true_leaves: list[int] = []
        self.false_leaves: list[int] = []
        self.members: list[float] = []
        self.weights: list[float] = []
        for tree, columns in zip(forest.trees, splits.by_tree, strict=True):
            self._add_tree(tree, [int(column) for column in columns])

    def _add_tree(self, tree: Tree, columns: list[int]) -> None:
        root, leaf = len(self.features), len(self.weights)
        self.roots.append(root)
        for node, column in enumerate(columns):
            self._add_condition(tree, node)
            self.features.append(column)
            for child, ids, leaves in (
                (int(tree.left[node]), self.true_ids, self.true_leaves),
                (int(tree.right[node]), self.false_ids, self.false_leaves),
            ):
                ids.append(root + child if child >= 0 else leaf + ~child)
                leaves.append(int(child < 0))
        if not columns:
            self.features.append(0)
            self.modes.append(BRANCH_LEQ)
            self.splits.append(0.0)
            for ids, leaves in ((self.true_ids, self.true_leaves), (self.false_ids, self.false_leaves)):
                ids.append(leaf)
                leaves.append(1)
        self.weights += [float(value) for value in tree.value]

    def _add_condition(self, tree: Tree, node: int) -> None:
        codes = tree.codes[tree.category[node]] if tree.category[node] >= 0 else None
        is_set = codes is not None and codes.size > 0
        self.modes.append(BRANCH_MEMBER if is_set else BRANCH_LEQ)
        self.splits.append(float(tree.threshold[node]) if codes is None else NO_CODE)
        if codes is not None and is_set:
            self.members += [*(float(code) for code in codes), math.nan]

    def node(self, onnx: Any, columns: str, output: str) -> Any:
        def tensor(values: list[Any], dtype: Any) -> Any:
            return onnx.numpy_helper.from_array(np.array(values, dtype))

        members = {"membership_values": tensor(self.members, np.float64)} if self.members else {}
        return onnx.helper.make_node(
            "TreeEnsemble",
            [columns],
            [output],
            domain="ai.onnx.ml",
            aggregate_function=SUM,
            n_targets=1,
            tree_roots=self.roots,
            nodes_featureids=self.features,
            nodes_modes=tensor(self.modes, np.uint8),
            nodes_splits=tensor(self.splits, np.float64),
            nodes_truenodeids=self.true_ids,
            nodes_trueleafs=self.true_leaves,
            nodes_falsenodeids=self.false_ids,
            nodes_falseleafs=self.false_leaves,
            leaf_targetids=[0] * len(self.weights),
            leaf_weights=tensor(self.weights, np.float64),
            **members,
        )


FORMAT = Format("onnx", "ONNX TreeEnsemble in doubles", exact=True, write=write, evaluate=evaluate)

_README = """
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1          # sums in LightGBM's order: equal to the last bit
    session = onnxruntime.InferenceSession("model.onnx", options)
    scores = session.run(["scores"], {"rows": rows})[0][:, 0]

`rows` is (N, F) float64 in the order of `features.json`; missing values are NaN, categories their codes. With more
threads sums come in another order and differ by at most 1e-12 or so. Needs `ai.onnx.ml` 5 (onnxruntime 1.20 or newer).
"""
