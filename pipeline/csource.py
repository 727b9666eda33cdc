"""A model as C99: one source file and one header, no allocation, nothing needed beyond the standard library.

Trees are tables, not nested ifs: a hundred thousand nodes compile in seconds, and eight rows walk a tree side by side,
so that the processor has other rows to work on while one waits for its node. Rows are expanded first
(`pipeline.splits`), each step is then one comparison. Leaves point to themselves: their column holds minus infinity,
which is left of every leaf value. Scores are summed in LightGBM's order, so they equal its own to the last bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import isinf

import numpy as np

from pipeline.forest import ZERO, Forest, Ints, LinearLeaves, Tree
from pipeline.splits import MAX_CODE, Column, Splits, Treatment, plan_splits

LANES = 8
MAX_BLOCK_BYTES = 2**16
"""Of expanded rows on the stack, unless one row per lane needs more."""


def c_source(forest: Forest, names: Sequence[str], *, header: str) -> str:
    """The .c file; `header` is the name of the .h file that it includes, `names` the features in order."""
    splits = plan_splits(forest)
    tables = _Tables(forest, splits)
    parts = [
        _PREAMBLE.format(header=header),
        _sizes(forest, splits),
        _NODES.format(nodes=_rows(tables.nodes), roots=_rows(tables.roots), depths=_rows(tables.depths)),
        _SETS.format(words=_rows(f"{word}u" for word in tables.sets)) if tables.sets else _NO_SETS,
        _linear(tables) if tables.constants else _NO_LINEAR,
        _EXPAND.format(columns="\n".join(_column(i + 1, column) for i, column in enumerate(splits.columns))),
        _SCORE.format(score="sum[i] / (double)TREES" if forest.average else "sum[i]"),
        _NAMES.format(names=_rows(c_string(name) for name in names)),
    ]
    return "\n".join(parts)


def c_header(names: Sequence[str], fingerprint: str) -> str:
    """The .h file: what a row is, how many features it has, and the fingerprint of their names, types and levels."""
    return _HEADER.format(features=len(names), fingerprint=c_string(fingerprint))


def c_string(text: str) -> str:
    """A string literal that no character of `text` can leave: all but the plainest are octal escapes."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.- "
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def bitset(codes: Ints) -> list[int]:
    """Codes -> 32-bit words, with bit c % 32 of word c // 32 set for each code c."""
    words = np.zeros(int(codes.max(initial=-1)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, codes // 32, np.uint32(1) << (codes % 32).astype(np.uint32))
    return [int(word) for word in words]


class _Tables:
    """All trees as one table of nodes: {threshold or leaf value, left child, column}, right child behind left.

    Children count from the root of their tree. A column below 0 means a category split on column ~column, whose
    threshold is the place of its set in `sets`: the number of words, then the words.
    """

    def __init__(self, forest: Forest, splits: Splits) -> None:
        self.nodes: list[str] = []
        self.roots: list[int] = []
        self.depths: list[int] = []
        self.sets: list[int] = []
        self.models: dict[int, int] = {}
        """Node of a leaf -> its linear model, which holds `constants`, and terms from its `starts` to the next."""
        self.constants: list[float] = []
        self.starts = [0]
        self.terms: list[tuple[int, float]] = []
        for tree, columns in zip(forest.trees, splits.by_tree, strict=True):
            self._add_tree(tree, columns)

    def _add_tree(self, tree: Tree, columns: Ints) -> None:
        root, depth = len(self.nodes), 0
        self.roots.append(root)
        self.nodes.append("")
        waiting = deque([(0 if len(tree.feature) else -1, root, 0)])
        while waiting:
            node, place, depth = waiting.popleft()
            if node < 0:
                self._add_leaf(tree, ~node, place, root)
                continue
            child = len(self.nodes)
            self.nodes += ["", ""]
            threshold, column = self._condition(tree, node, int(columns[node]) + 1)
            self.nodes[place] = f"{{{_number(threshold)}, {child - root}, {column}}}"
            waiting += [(int(tree.left[node]), child, depth + 1), (int(tree.right[node]), child + 1, depth + 1)]
        self.depths.append(depth)

    def _condition(self, tree: Tree, node: int, column: int) -> tuple[float, int]:
        if tree.category[node] < 0:
            return float(tree.threshold[node]), column
        place = len(self.sets)
        words = bitset(tree.codes[tree.category[node]])
        self.sets += [len(words), *words]
        return float(place), ~column

    def _add_leaf(self, tree: Tree, leaf: int, place: int, root: int) -> None:
        self.nodes[place] = f"{{{_number(float(tree.value[leaf]))}, {place - root}, 0}}"
        if tree.linear is not None:
            self._add_model(tree.linear, leaf, place)

    def _add_model(self, linear: LinearLeaves, leaf: int, place: int) -> None:
        self.models[place] = len(self.constants)
        self.constants.append(float(linear.constant[leaf]))
        self.terms += [
            (int(feature), float(weight))
            for feature, weight in zip(linear.features[leaf], linear.coefficients[leaf], strict=True)
        ]
        self.starts.append(len(self.terms))


def _sizes(forest: Forest, splits: Splits) -> str:
    columns = len(splits.columns) + 1
    groups = max(1, min(8, MAX_BLOCK_BYTES // (8 * columns * LANES)))
    sizes = {"TREES": len(forest.trees), "COLUMNS": columns, "BLOCK": groups * LANES}
    return "\n".join(f"#define {name} {size}" for name, size in sizes.items())


def _linear(tables: _Tables) -> str:
    return _LINEAR.format(
        models=_rows(tables.models.get(place, -1) for place in range(len(tables.nodes))),
        constants=_rows(map(_number, tables.constants)),
        starts=_rows(tables.starts),
        terms=_rows(f"{{{feature}, {_number(weight)}}}" for feature, weight in tables.terms or [(0, 0.0)]),
    )


def _column(index: int, column: Column) -> str:
    x = f"x[{column.feature}]"
    zero = f"isnan({x}) || fabs({x}) <= {_number(ZERO)}"
    value = {
        Treatment.NUMBER: f"isnan({x}) ? 0.0 : {x}",
        Treatment.LEFT: f"isnan({x}) ? -INFINITY : {x}",
        Treatment.RIGHT: x,
        Treatment.ZERO_LEFT: f"{zero} ? -INFINITY : {x}",
        Treatment.ZERO_RIGHT: f"{zero} ? NAN : {x}",
        Treatment.CODE: f"{x} > -1.0 && {x} < {float(MAX_CODE)} ? {x} : -1.0",
    }[column.treatment]
    return f"    row[{index}] = {value};"


def _number(x: float) -> str:
    if isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    return x.hex()


def _rows(items: Iterable[object]) -> str:
    return ",\n    ".join(str(item) for item in items)


_HEADER = """\
/* A ranking model, written by rankloom. Compile model.c with any C99 compiler; it needs nothing but libm's header. */
#ifndef RANKLOOM_MODEL_H
#define RANKLOOM_MODEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define MODEL_FEATURES {features}
#define MODEL_FINGERPRINT {fingerprint}

/* The features of a row, in order (UTF-8). */
extern const char *const model_feature_names[MODEL_FEATURES];

/* Scores n rows of MODEL_FEATURES doubles, stored row after row, into out[0..n-1]; higher ranks first.
   A missing value is NaN. A category is its code (features.json): 0 for a level that training never saw.
   Doubles, not floats: a buffer of floats would be misread. Allocates nothing, keeps no state, is thread-safe. */
void score_rows(const double *rows, size_t n, double *out);

#ifdef __cplusplus
}}
#endif

#endif
"""

_PREAMBLE = """\
#include "{header}"

#include <math.h>
#include <stdint.h>

typedef char doubles_have_64_bits[sizeof(double) == 8 ? 1 : -1];
"""

_NODES = """
typedef struct {{
    double threshold; /* a leaf's value */
    int32_t left;     /* right is left + 1; a leaf's is the leaf itself */
    int32_t column;   /* below 0: a set of codes, on column ~column */
}} node;

static const node nodes[] = {{
    {nodes}
}};

static const int32_t roots[TREES] = {{
    {roots}
}};

static const int32_t depths[TREES] = {{
    {depths}
}};
"""

_NO_SETS = """\
static int32_t step(const node *at, const double *row) {
    return at->left + !(row[at->column] <= at->threshold);
}
"""

_SETS = """\
static const uint32_t sets[] = {{
    {words}
}};

static int holds(const uint32_t *set, double code) {{
    const int32_t c = (int32_t)code;
    return c >= 0 && (uint32_t)c / 32u < set[0] && (set[1 + c / 32] >> ((uint32_t)c % 32u) & 1u) != 0u;
}}

static int32_t step(const node *at, const double *row) {{
    if (at->column < 0) return at->left + !holds(sets + (size_t)at->threshold, row[~at->column]);
    return at->left + !(row[at->column] <= at->threshold);
}}
"""

_NO_LINEAR = """\
static double output(const node *leaf, const double *x) {
    (void)x;
    return leaf->threshold;
}
"""

_LINEAR = """\
typedef struct {{
    int32_t feature;
    double weight;
}} term;

static const int32_t models[] = {{
    {models}
}};

static const double constants[] = {{
    {constants}
}};

static const int32_t starts[] = {{
    {starts}
}};

static const term terms[] = {{
    {terms}
}};

/* The products are volatile: fused with the sum they would be rounded otherwise than LightGBM rounds them. */
static double output(const node *leaf, const double *x) {{
    const int32_t model = models[leaf - nodes];
    double total;
    if (model < 0) return leaf->threshold;
    total = constants[model];
    for (int32_t i = starts[model]; i < starts[model + 1]; ++i) {{
        const volatile double product = terms[i].weight * x[terms[i].feature];
        if (isnan(x[terms[i].feature])) return leaf->threshold;
        total += product;
    }}
    return total;
}}
"""

_EXPAND = """\
static void expand(const double *x, double *row) {{
    (void)x;
    row[0] = -INFINITY;
{columns}
}}
"""

_SCORE = """\
#define LANES(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define START(i) int32_t n##i = 0;
#define STEP(i) n##i = step(tree + n##i, first + i * COLUMNS);
#define CHECK(i) next = step(tree + n##i, first + i * COLUMNS); moved |= next ^ n##i; n##i = next;
#define ADD(i) sum[at + i] += output(tree + n##i, x[at + i]);

static void score_block(const double *rows, size_t n, double *out) {{
    double row[BLOCK][COLUMNS], sum[BLOCK];
    const double *x[BLOCK];
    const size_t lanes = (n + 7) / 8 * 8;
    for (size_t i = 0; i < lanes; ++i) {{
        x[i] = rows + (i < n ? i : n - 1) * MODEL_FEATURES;
        expand(x[i], row[i]);
        sum[i] = 0.0;
    }}
    for (size_t k = 0; k < TREES; ++k) {{
        const node *tree = nodes + roots[k];
        for (size_t at = 0; at < lanes; at += 8) {{
            const double *first = row[at];
            LANES(START)
            for (int32_t depth = depths[k]; depth > 0; depth -= 2) {{
                int32_t next, moved = 0;
                LANES(STEP)
                LANES(CHECK)
                if (moved == 0) break;
            }}
            LANES(ADD)
        }}
    }}
    for (size_t i = 0; i < n; ++i) out[i] = {score};
}}

void score_rows(const double *rows, size_t n, double *out) {{
    for (size_t start = 0; start < n; start += BLOCK) {{
        const size_t left = n - start;
        score_block(rows + start * MODEL_FEATURES, left < BLOCK ? left : BLOCK, out + start);
    }}
}}
"""

_NAMES = """\
const char *const model_feature_names[MODEL_FEATURES] = {{
    {names}
}};
"""
