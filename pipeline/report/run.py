"""The page of a training run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.findings import Findings, Group
from pipeline.metrics import Convention
from pipeline.report import charts
from pipeline.report.blocks import Block, Cell, Cells, Code, Fold, Page, Row, Section, Text, interval, number, table
from pipeline.results import BEST_FEATURE, MODEL, RANDOM
from pipeline.run import Run
from pipeline.strata import FEW
from pipeline.worst import WorstQuery

THIN_RULE = "A thin query has fewer than 3 relevant items: its value hangs on one or two of them."


def run_page(run: Run, found: Findings, title: str) -> Page:
    """What the data are, how the model does beside its rivals, where it fails, and why it ranks as it does."""
    return Page(
        title=title,
        lead=f"A ranking model of {run.ranker.best_iteration} trees, judged on test queries it has never seen.",
        figures=tuple(_figures(run)),
        warnings=found.warnings,
        sections=(
            _results(run, found),
            _slices(run),
            _queries(run, found),
            _groups(run, found),
            _worst(found),
            _explained(found),
            _training(run, found),
            _data(run, found),
            _reproduce(run, found),
        ),
    )


def ranker_name(ranker: str, metrics: Mapping[str, Any]) -> str:
    """A ranker as it is called on the page."""
    feature = metrics.get("best_feature_name")
    return f"best feature ({feature})" if ranker == BEST_FEATURE and feature else ranker


def _figures(run: Run) -> Iterator[tuple[str, str, str]]:
    first = f"ndcg@{run.config.k[0]}"
    value, counts = run.metrics["test"][MODEL][first], run.metrics["queries"]
    yield first, _short(value["mean"]), f"95 % interval {_short(value['low'])} to {_short(value['high'])}"
    rivals = {name: each[first]["mean"] for name, each in run.metrics["test"].items() if name != MODEL}
    best = max(rivals, key=lambda name: rivals[name] or 0.0)
    lead = run.metrics["diff"][best][first]
    said = f"[{lead['low']:+.3f}, {lead['high']:+.3f}]" if lead["mean"] is not None else ""
    yield f"lead over {ranker_name(best, run.metrics)}", _short(lead["mean"], "+.3f"), f"the best rival {said}"
    yield "above a random order", _short(run.metrics["diff"][RANDOM][first]["mean"], "+.3f"), "exact expectation"
    yield "test queries", f"{value['n']:,}", f"with a value, of {counts['test']:,}"


def _short(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else f"{value:{form}}"


def _results(run: Run, found: Findings) -> Section:
    ks = [f"ndcg@{k}" for k in run.config.k]
    rows: list[Cells] = []
    for ranker, values in run.metrics["test"].items():
        lead = run.metrics["diff"].get(ranker)
        ahead = _interval(lead[ks[0]], "+.4f") if lead else Cell("")
        own = ranker == MODEL
        rows.append((Cell(ranker_name(ranker, run.metrics), strong=own), *(_interval(values[k]) for k in ks), ahead))
    head = ("ranker", *(f"{k} [95 %]" for k in ks), f"model ahead by ({ks[0]})")
    shown = {ranker_name(name, run.metrics): curve for name, curve in found.over_k.items()}
    palette = dict(zip(shown, charts.colours(tuple(found.over_k)).values(), strict=True))
    convention = Convention(**run.metrics["convention"])
    return Section(
        "results",
        "Model and rivals",
        f"NDCG here is: {convention.describe()}. Intervals are bootstrapped over "
        "queries, all of a user's together; leads are paired, query by query.",
        (
            table(head, rows),
            charts.lines(
                "over-k",
                shown,
                x="k",
                y="mean ndcg@k",
                palette=palette,
                caption="ndcg over the cut-off; the band is the model's 95 % interval.",
            ),
            _conventions(run, found),
        ),
    )


def _conventions(run: Run, found: Findings) -> Fold:
    rows: list[Cells] = [
        (name, rule.gain if isinstance(rule.gain, str) else "table", rule.ties, rule.empty, number(value))
        for name, (rule, value) in found.conventions.items()
    ]
    head = ("convention", "gain", "ties", "empty queries", f"ndcg@{run.config.k[0]}")
    note = "The model's order under the conventions of other tools, so that figures from there can be compared."
    return Fold("The same order by other conventions", (Text(note), table(head, rows, left=4)))


def _slices(run: Run) -> Section:
    first, rows = f"ndcg@{run.config.k[0]}", list[Cells]()
    for name, part in run.metrics.get("slices", {}).items():
        for ranker, values in part["test"].items():
            lead = part["diff"].get(ranker)
            ahead = _interval(lead[first], "+.4f") if lead else Cell("")
            label = Cell(ranker_name(ranker, run.metrics), strong=ranker == MODEL)
            rows.append((name, label, _interval(values[first]), ahead))
    if not rows:
        note = "The data hold no randomised queries and no judgements of another kind."
        return Section("judgements", "By other judgements", note, ())
    head = ("judged by", "ranker", f"{first} [95 %]", "model ahead by")
    intro = "Logged labels favour what was shown on top; these judgements do not, or not as much."
    return Section("judgements", "By other judgements", intro, (table(head, rows, left=2),))


def _queries(run: Run, found: Findings) -> Section:
    first, counts = f"ndcg@{run.config.k[0]}", run.metrics["queries"]
    intro = (
        f"{counts['test_empty']} of {counts['test']} test queries have no relevant item, {counts['test_thin']} are "
        f"thin, {counts['test_trivial']} score 1 whatever the model does. {THIN_RULE}"
    )
    spread = charts.columns("distribution", found.distribution, x=first, y="queries", caption=f"Queries by {first}.")
    calibrated = charts.calibration(
        "calibration", found.calibration, caption="Relevance over score, ten groups of rows of the same size."
    )
    return Section("queries", "Query by query", intro, (Row((spread, calibrated)),))


def _groups(run: Run, found: Findings) -> Section:
    first = f"ndcg@{run.config.k[0]}"
    rivals = [name for name in run.metrics["test"] if name != MODEL]
    head = ("group", "queries", f"model {first} [95 %]", *(ranker_name(name, run.metrics) for name in rivals))
    blocks: list[Block] = []
    for name, groups in found.strata.items():
        rows = [_group_row(group, rivals) for group in groups]
        blocks.append(table(head, rows, caption=f"By {name}"))
    intro = f"Every query stands in one group of each table. Groups of fewer than {FEW} queries say little."
    return Section("groups", "Groups of queries", intro, tuple(blocks))


def _group_row(group: Group, rivals: list[str]) -> Cells:
    few = " (few)" if group.queries < FEW else ""
    model = interval(group.model.mean, group.model.low, group.model.high)
    return (group.name + few, number(group.queries, "d"), model, *(number(group.rivals[name]) for name in rivals))


def _worst(found: Findings) -> Section:
    rows: list[Cells] = [
        (each.query, each.user or "–", number(each.value), number(each.relevant, "d"), number(each.size, "d"))
        for each in found.worst
    ]
    head = ("query", "user", "ndcg", "relevant", "candidates")
    intro = "The queries the model serves worst. Click a column to sort by it; open a query for its list."
    folds = tuple(Fold(f"Query {each.query}: {each.value:.4f}", tuple(_query(each))) for each in found.worst)
    return Section("worst", "Worst queries", intro, (table(head, rows, left=2), *folds))


def _query(each: WorstQuery) -> Iterator[Block]:
    head = ("rank", "best", "shown", "item", *each.text_names, "relevance", "score", *each.feature_names)
    rows: list[Cells] = []
    for item in each.items:
        place = number(item.rank, "d"), number(item.ideal_rank, "d"), number(item.shown, "d")
        label = Cell(item.item, strong=item.relevance > 0)
        rows.append(
            (*place, label, *item.texts, number(item.relevance, "g"), number(item.score, ".3f"), *item.features)
        )
    caption = "The model's order, the place in the best order, the place as shown, and the leading features."
    yield table(head, rows, left=4 + len(each.text_names), caption=caption)
    if each.above != each.below:
        yield _why(each)


def _why(each: WorstQuery) -> Block:
    largest = max((abs(part.share) for part in each.why), default=1.0) or 1.0
    rows: list[Cells] = [
        (part.feature, Cell(f"{part.share:+.4f}", part.share, bar=part.share / largest), part.upper, part.lower)
        for part in each.why
    ]
    total = sum(part.share for part in each.why)
    rows.append(
        (Cell("sum = difference of the scores", strong=True), Cell(f"{total:+.4f}", total, strong=True), "", "")
    )
    head = ("feature", "adds to the lead", each.above, each.below)
    return table(head, rows, caption=f"Why {each.above} stands above the more relevant {each.below}")


def _explained(found: Findings) -> Section:
    by_gain = sorted(found.importance, key=lambda each: -each.gain)
    shap = charts.bars(
        "shap",
        [each.feature for each in found.importance],
        [each.shap for each in found.importance],
        x="moved by",
        caption="SHAP: how far a feature moves the items of a query apart.",
    )
    gain = charts.bars(
        "gain",
        [each.feature for each in by_gain],
        [each.gain for each in by_gain],
        x="share of the gain",
        caption="Gain: what its splits were worth in training.",
    )
    dependence = tuple(charts.dots(f"dependence-{place}", each) for place, each in enumerate(found.dependences))
    rows = tuple(Row(dependence[place : place + 2]) for place in range(0, len(dependence), 2))
    intro = (
        "SHAP values of a sample of test rows. What is the same for all items of a query is left out: it ranks nothing."
    )
    return Section("features", "What the model looks at", intro, (Row((shap, gain)), *rows))


def _training(run: Run, found: Findings) -> Section:
    names = tuple(found.learning)
    palette = {names[0]: "var(--model)", **dict.fromkeys(names[1:], "var(--rival-2)")}
    curve = charts.lines(
        "learning",
        found.learning,
        x="trees",
        y=f"ndcg@{run.config.train_k} of the validation queries",
        thin=names[1:],
        palette=palette,
        caption="The best round was kept. LightGBM counts tied scores in row order, we average them.",
    )
    parity = run.metrics["parity"]
    notes = [f"LightGBM's ndcg and ours differ by at most {parity['max_abs_diff']:.1g} over the same labels and gains."]
    if "level_error" in parity:
        notes.append(
            f"Relevance was cut into levels, off by at most {parity['level_error']:.3g}, which moves the mean ndcg by "
            f"{parity['level_ndcg_diff']:.3g}."
        )
    rows: list[Cells] = [(name, number(value, ".2f")) for name, value in run.metrics["timings"].items()]
    said = tuple(Text(note) for note in (*notes, *run.ranker.notes))
    blocks: tuple[Block, ...] = (curve, *said, table(("step", "seconds"), rows))
    return Section("training", "Training", f"{run.ranker.best_iteration} trees were kept.", blocks)


def _data(run: Run, found: Findings) -> Section:
    rows: list[Cells] = [
        (
            each.part,
            each.first or "–",
            each.last or "–",
            *(number(n, ",d") for n in (each.queries, each.rows, each.empty)),
        )
        for each in found.parts
    ]
    head = ("part", "first query (UTC)", "last query (UTC)", "queries", "rows", "without a relevant item")
    blocks: list[Block] = [table(head, rows, left=3), *(Text(note) for note in run.origin.notes)]
    if found.rejected:
        counts: list[Cells] = [(rule, number(count, ",d")) for rule, count in found.rejected.items()]
        blocks.append(table(("rejected because of", "rows"), counts))
    if found.missing:
        shares: list[Cells] = [
            (name, number(before, ".1%"), number(after, ".1%")) for name, (before, after) in found.missing.items()
        ]
        blocks.append(Fold("Missing values", (table(("feature", "in training", "in test"), shares),)))
    return Section("data", "Data", f"Split: {run.origin.split}. {label_rule(run)}", tuple(blocks))


def label_rule(run: Run) -> str:
    """How relevance came about, in words."""
    rule = run.config.relevance
    if rule.tiers is not None:
        tiers = ", ".join(f"{kind} {grade}" for kind, grade in sorted(rule.tiers.items(), key=lambda tier: -tier[1]))
        return f"Relevance: the strongest event of an item within its query's window ({tiers}, nothing 0)."
    if rule.watch is not None:
        return f"Relevance: the watched share of an item, up to 1 (target: {rule.watch.target})."
    if rule.column is not None:
        return f"Relevance: the column {rule.column}" + (" by a table of grades." if rule.map else ".")
    return "Relevance: as the table gives it."


def _reproduce(run: Run, found: Findings) -> Section:
    rows: list[Cells] = list(found.origin.items())
    note = "Save the config as run.toml: the same data, seed and number of threads give the same model, byte by byte."
    blocks = (
        table(("what", "value"), rows, left=2),
        Code("rankloom train run.toml --out runs/again"),
        Fold("config.toml", (Code(run.config.to_toml()),)),
    )
    return Section("reproduce", "How to make it again", note, blocks)


def _interval(value: Mapping[str, Any], form: str = ".4f") -> Cell:
    return interval(value["mean"], value["low"], value["high"], form)
