"""SVMLight / LETOR files: what they say, in any order, and what is refused by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from features.errors import DataError, DatasetError
from pipeline.letor import content_ids, read_letor


def written(folder: Path, text: str, sizes: str | None = None, name: str = "rank.train") -> Path:
    path = folder / name
    path.write_text(text)
    if sizes is not None:
        (folder / f"{name}.query").write_text(sizes)
    return path


def test_qid_sparse_rows_comments_and_blank_lines(tmp_path: Path) -> None:
    text = (
        "# a comment\n2 qid:7 1:0.5 3:-1e2 # docid = A1 inc = 3\n\n0 qid:7  2:1   # docid = A2\n1 qid:9 # docid = A3\n"
    )
    file = read_letor(written(tmp_path, text))
    assert file.matrix.tolist() == [[0.5, 0, -100], [0, 1, 0], [0, 0, 0]]
    assert file.labels.tolist() == [2, 0, 1]
    assert file.queries.to_list() == [7, 7, 9]
    assert file.items is not None
    assert file.items.to_list() == ["A1", "A2", "A3"]


def test_gz_reads_like_plain(tmp_path: Path) -> None:
    text = "1 qid:1 1:1\n0 qid:1 2:1\n"
    plain = read_letor(written(tmp_path, text))
    packed = tmp_path / "rank.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert np.array_equal(read_letor(packed).matrix, plain.matrix)


def test_sizes_beside_the_rows_group_them(tmp_path: Path) -> None:
    file = read_letor(written(tmp_path, "1 1:1\n0 1:2\n1 1:3\n", "1\n2\n"))
    first, second, third = file.queries
    assert first != second == third


def test_ids_come_from_content_so_order_does_not_matter(tmp_path: Path) -> None:
    one = read_letor(written(tmp_path, "1 1:1\n0 1:2\n1 1:3 2:4\n", "1\n2\n"))
    two = read_letor(written(tmp_path, "1 2:4 1:3\n0 1:2\n1 1:1\n", "2\n1\n", name="other"))
    ids = [
        set(zip(file.queries, content_ids(file.matrix, file.labels, file.queries), file.labels, strict=True))
        for file in (one, two)
    ]
    assert ids[0] == ids[1]


def test_identical_rows_get_ids_of_their_own(tmp_path: Path) -> None:
    file = read_letor(written(tmp_path, "1 qid:1 1:1\n1 qid:1 1:1\n0 qid:1 1:1\n"))
    assert content_ids(file.matrix, file.labels, file.queries).n_unique() == 3


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("", None, "has no rows"),
        ("# only a comment\n", None, "has no rows"),
        ("1 1:1\n", None, "no qid in the rows and no rank.train.query beside it"),
        ("1 qid:1 1:1\n1 1:1\n", None, "1 of 2 rows have no qid"),
        ("x qid:1 1:1\n", None, "line 1: label 'x'"),
        ("1 qid:1 1:1\n1 qid:1 1:a\n", None, "line 2: feature '1:a'"),
        ("1 qid:1 0:1\n", None, "line 1: feature '0:1'"),
        ("1 qid:1 -3:1\n", None, "line 1: feature '-3:1'"),
        ("1 qid:1 99999999999:1\n", None, "line 1: feature"),
        ("1 qid:1 1:1 1:2\n", None, "line 1: repeated feature"),
        ("1 qid:1 banana\n", None, "line 1: feature 'banana'"),
    ],
)
def test_what_is_not_svmlight_is_refused_by_line(tmp_path: Path, text: str, sizes: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_letor(written(tmp_path, text, sizes))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("4\n4\n", "group sizes sum 8, rows 12"),
        ("4\n4\n5\n", "group sizes sum 13, rows 12"),
        ("7\n7\n7\n3\n3\n3\n5\n5\n5\n5\n5\n5\n", "did you pass ids"),
        ("4\nfour\n4\n", "holds other things than sizes"),
        ("6\n0\n6\n", "holds other things than sizes"),
        ("", "holds other things than sizes"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(tmp_path: Path, sizes: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_letor(written(tmp_path, "1 1:1\n" * 12, sizes))


def test_interleaved_queries_in_a_file_with_sizes_are_refused(tmp_path: Path) -> None:
    text = "1 qid:1 1:1\n0 qid:1 1:2\n1 qid:2 1:3\n0 qid:1 1:4\n"
    with pytest.raises(DatasetError, match="query 1 appears in 2 blocks"):
        read_letor(written(tmp_path, text, "2\n1\n1\n"))
    assert read_letor(written(tmp_path, text, name="free")).queries.to_list() == [1, 1, 2, 1]


def test_binary_rubbish_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank.gz"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(DataError, match="cannot be read"):
        read_letor(path)
    path.rename(tmp_path / "rank.train")
    with pytest.raises(DataError, match="cannot be read"):
        read_letor(tmp_path / "rank.train")


def test_lightgbms_example_is_read_whole(shared_data: Path) -> None:
    file = read_letor(shared_data / "letor" / "rank.train")
    assert file.matrix.shape == (3005, 300)
    assert file.queries.n_unique() == 201
    assert set(file.labels) == {0, 1, 2, 3, 4}
