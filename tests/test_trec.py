"""TREC files, line by line."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from features.columns import ITEM, QUERY, RELEVANCE, SCORE
from features.errors import DataError
from pipeline.trec import read_qrels, read_run


@pytest.fixture
def written(tmp_path):
    def write(content: str | bytes, name: str = "file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_qrels_keep_order_and_odd_ids(written):
    path = written("q2 0 doc#2_0 1\n\nq1\t0\tdoc#1 -1\n")
    assert read_qrels(path).to_dict(as_series=False) == {
        QUERY: ["q2", "q1"],
        ITEM: ["doc#2_0", "doc#1"],
        RELEVANCE: [1, -1],
    }
    assert read_qrels(path).schema[RELEVANCE] == pl.Int64


def test_graded_fractions_are_kept(written):
    assert read_qrels(written("1 0 a 0.5\n1 0 b 1\n"))[RELEVANCE].to_list() == [0.5, 1.0]


def test_run_ignores_ranks_and_what_follows_the_tag(written):
    path = written("1 Q0 a 7 0.25 tag more junk at\n1 Q0 b 1 1e3\n", "run.gz")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read_run(path).rows() == [("1", "a", 0.25), ("1", "b", 1000.0)]
    assert read_run(path).columns == [QUERY, ITEM, SCORE]


@pytest.mark.parametrize("name", ["file.txt", "file.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_id(written, name):
    content = "\ufeff1 0 a 1\n".encode()
    path = written(gzip.compress(content) if name.endswith(".gz") else content, name)
    assert read_qrels(path).rows() == [("1", "a", 1)]


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_qrels, "1 0 a 1\n1 0 b\n", r"line 2 of .* has 3 fields: '1 0 b'; expected 'query iteration document rel"),
        (read_qrels, "1 0 a 1 2\n", "line 1 of .* has 5 fields"),
        (read_qrels, "\n\n1 0 a high\n", "line 3 of .* has 'high' for a relevance"),
        (read_qrels, "1 0 a nan\n", "line 1 of .* has 'nan' for a relevance"),
        (read_qrels, "1 0 a 1_0\n", "line 1 of .* has '1_0'"),
        (read_qrels, "", "is empty; expected lines of 'query iteration"),
        (read_run, "1 Q0 a 1\n", "line 1 of .* has 4 fields: '1 Q0 a 1'; expected 'query Q0 document rank score tag'"),
        (read_run, "1 Q0 a 1 x tag\n", "line 1 of .* has 'x' for a score"),
        (read_run, "1 Q0 a 1 0.5 t\n1 Q0 b 2 inf t\n", "line 2 of .* has 'inf' for a score"),
        (read_run, "1 Q0 a 1 0.5 t\n\xff\xfe".encode("latin-1"), "cannot be read behind line 0"),
    ],
)
def test_faults_name_their_line(read, content, message, written):
    with pytest.raises(DataError, match=message):
        read(written(content))


def test_missing_and_broken_files_are_refused(written, tmp_path):
    with pytest.raises(DataError, match=r"no file .*absent"):
        read_run(tmp_path / "absent")
    for broken in (b"not gzip", gzip.compress(b"1 Q0 a 1 0.5 t\n" * 1000)[:60]):
        with pytest.raises(DataError, match="cannot be read behind line"):
            read_run(written(broken, "run.gz"))
