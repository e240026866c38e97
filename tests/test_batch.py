"""Ragged batches: the padded and the counted view are the same compositions; groups with a shared factor."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae.batch import Batch, CountedParts, PaddedParts, Shared, collate, pad
from compvae.errors import DataError, PartsError
from compvae.parts import MAX_PARTS, Categorical, Continuous
from models import schema_of

CATEGORIES = ("a", "b", "c", "d")
LETTERS = schema_of(Categorical(name="letter", categories=CATEGORIES))
SITES = schema_of(
    Categorical(name="colour", categories=("red", "green", "blue")),
    Continuous(name="x", low=-1, high=1),
    Continuous(name="y", low=0, high=10),
)
PLACES = schema_of(Continuous(name="x", low=-2, high=2))

LETTER_LISTS = st.lists(st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=9), min_size=1, max_size=6)
SITE = st.fixed_dictionaries(
    {"colour": st.sampled_from(("red", "green", "blue")), "x": st.floats(-1, 1), "y": st.floats(0, 10)}
)
SITE_LISTS = st.lists(st.lists(SITE, min_size=1, max_size=6), min_size=1, max_size=5)
IDS = st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), min_size=1, max_size=12)


def of_letters(rows: list[list[str]]):
    return [LETTERS.parse([{"letter": letter} for letter in row]) for row in rows]


def of_sites(rows: list[list[dict[str, object]]]):
    return [SITES.parse(row) for row in rows]


def letter_counts(rows: list[list[str]]) -> list[list[float]]:
    return [[float(row.count(letter)) for letter in CATEGORIES] for row in rows]


def kinds_of(parts: PaddedParts) -> list[list[int]]:
    return [kind[mask].tolist() for kind, mask in zip(parts.kind, parts.mask, strict=True)]


def assert_same(one: PaddedParts, other: PaddedParts) -> None:
    assert torch.equal(one.kind, other.kind)
    assert torch.equal(one.features, other.features)
    assert torch.equal(one.mask, other.mask)
    assert one.n_kinds == other.n_kinds


# -- two views ---------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=150)
@given(rows=LETTER_LISTS)
def test_padded_and_counted_views_hold_the_same_compositions(rows):
    padded = pad(of_letters(rows))
    counted = padded.counted()
    sizes = [float(len(row)) for row in rows]
    assert padded.counts.tolist() == counted.counts.tolist() == letter_counts(rows)
    assert padded.sizes.tolist() == counted.sizes.tolist() == sizes
    assert len(padded) == len(counted) == len(rows)
    assert padded.n_kinds == counted.n_kinds == len(CATEGORIES)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(rows=LETTER_LISTS)
def test_padding_counted_parts_gives_the_parts_in_ascending_kinds(rows):
    back = pad(of_letters(rows)).counted().padded()
    assert kinds_of(back) == [sorted(CATEGORIES.index(letter) for letter in row) for row in rows]
    assert back.kind.shape == (len(rows), max(len(row) for row in rows))
    assert back.features.shape == (*back.kind.shape, 0)
    assert back.counted().counts.tolist() == letter_counts(rows)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(rows=LETTER_LISTS)
def test_collating_countable_parts_counts_them(rows):
    counted = collate(of_letters(rows))
    assert isinstance(counted, CountedParts)
    assert counted.counts.dtype == torch.float64
    assert counted.counts.tolist() == letter_counts(rows)


def test_each_view_is_its_own_view():
    padded = pad(of_letters([["a", "c"], ["b"]]))
    counted = padded.counted()
    assert padded.padded() is padded
    assert counted.counted() is counted


def test_a_row_without_parts_pads_to_nothing():
    padded = CountedParts(torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])).padded()
    assert kinds_of(padded) == [[1, 1], [], [0, 2, 2, 2]]


def test_counts_of_a_huge_composition_are_exact():
    counted = collate([LETTERS.parse({"a": MAX_PARTS - 1, "d": 1})])
    assert counted.counts.tolist() == [[MAX_PARTS - 1, 0, 0, 1]]
    assert counted.sizes.tolist() == [MAX_PARTS]


# -- the padded view ---------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=100)
@given(rows=SITE_LISTS)
def test_padding_keeps_order_and_kinds_and_scales_features(rows):
    padded = pad(of_sites(rows), torch.float64)
    for b, row in enumerate(rows):
        for k, part in enumerate(row):
            assert padded.kind[b, k] == ("red", "green", "blue").index(part["colour"])
            assert padded.features[b, k].tolist() == pytest.approx([part["x"], part["y"] / 5 - 1], abs=1e-12)
    assert padded.sizes.tolist() == [len(row) for row in rows]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(rows=SITE_LISTS)
def test_the_mask_is_true_for_parts_and_everything_is_zero_where_padded(rows):
    padded = pad(of_sites(rows))
    width = max(len(row) for row in rows)
    assert padded.mask.tolist() == [[k < len(row) for k in range(width)] for row in rows]
    assert not padded.kind[~padded.mask].any()
    assert not padded.features[~padded.mask].any()
    assert padded.kind.dtype == torch.int64
    assert padded.mask.dtype == torch.bool


@settings(derandomize=True, deadline=None, max_examples=60)
@given(rows=SITE_LISTS)
def test_padded_kinds_are_not_counted(rows):
    counts = pad(of_sites(rows)).counts
    expected = [[sum(part["colour"] == c for part in row) for c in ("red", "green", "blue")] for row in rows]
    assert counts.tolist() == expected


def test_collating_parts_with_continuous_attributes_pads_them():
    compositions = of_sites([[{"colour": "blue", "x": 0.25, "y": 10}], [{"colour": "red", "x": 0, "y": 0, "count": 3}]])
    padded = collate(compositions, torch.float64)
    assert isinstance(padded, PaddedParts)
    assert_same(padded, pad(compositions, torch.float64))
    assert kinds_of(padded) == [[2], [0, 0, 0]]
    assert padded.features[0].tolist() == [[0.25, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "compositions",
    [of_sites([[{"colour": "red", "x": 0, "y": 1}]]), [PLACES.parse([{"x": 1.5}])]],
    ids=["kind and place", "place alone"],
)
def test_parts_with_continuous_attributes_refuse_to_be_counted(compositions):
    with pytest.raises(PartsError, match="continuous attributes cannot be given as counts"):
        collate(compositions).counted()


def test_features_take_the_dtype_asked_for():
    compositions = [PLACES.parse([{"x": 1.5}])]
    assert pad(compositions).features.dtype == torch.float32
    assert pad(compositions, torch.float64).features.dtype == torch.float64
    assert pad(compositions).features.tolist() == [[[0.75]]]


@pytest.mark.parametrize("rows", [slice(1, 3), torch.tensor([2, 0]), torch.tensor([True, False, True])])
def test_some_rows_are_the_parts_of_these_wholes(rows):
    letters = [["a", "c", "c"], ["b"], ["d", "a"]]
    padded = pad(of_letters(letters))
    chosen = np.arange(3)[rows if isinstance(rows, slice) else rows.numpy()].tolist()
    expected = letter_counts([letters[i] for i in chosen])
    assert padded.rows(rows).counts.tolist() == expected
    assert padded.counted().rows(rows).counts.tolist() == expected
    assert kinds_of(padded.rows(rows)) == [kinds_of(padded)[i] for i in chosen]


# -- shared factors ----------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=150)
@given(ids=IDS)
def test_rows_have_one_group_exactly_when_their_ids_are_equal(ids):
    shared = Shared.of(torch.tensor(ids))
    group = shared.group.tolist()
    assert shared.size == len(set(ids))
    assert sorted(set(group)) == list(range(shared.size))
    assert all((group[i] == group[j]) == (ids[i] == ids[j]) for i in range(len(ids)) for j in range(len(ids)))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(ids=IDS)
def test_members_and_first_rows_of_groups(ids):
    shared = Shared.of(torch.tensor(ids))
    names = [ids[shared.group.tolist().index(g)] for g in range(shared.size)]
    assert shared.members.tolist() == [ids.count(name) for name in names]
    assert shared.first.tolist() == [ids.index(name) for name in names]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(ids=IDS, depth=st.integers(0, 3), data=st.data())
def test_totals_are_sums_over_the_rows_of_each_group(ids, depth, data):
    numbers = st.lists(st.integers(-1000, 1000), min_size=depth, max_size=depth)
    value = data.draw(st.lists(numbers, min_size=len(ids), max_size=len(ids)))
    shared = Shared.of(torch.tensor(ids))
    expected = np.zeros((shared.size, depth))
    for row, group in enumerate(shared.group.tolist()):
        expected[group] += value[row]
    total = shared.total(torch.tensor(value, dtype=torch.float64).view(len(ids), depth))
    np.testing.assert_array_equal(total.numpy(), expected)


def test_a_group_without_rows_has_no_members():
    shared = Shared(torch.tensor([2, 0, 2]), 4)
    assert shared.members.tolist() == [1, 0, 2, 0]
    assert shared.total(torch.tensor([[1.0], [2.0], [4.0]])).tolist() == [[2.0], [0.0], [5.0], [0.0]]


# -- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_whose_rows_agree_is_accepted():
    parts = pad(of_letters([["a"], ["b"], ["c"]]))
    batch = Batch(torch.zeros(3, 8), parts, torch.zeros(3, 2), Shared.of(torch.tensor([5, 5, 1])))
    assert len(batch) == 3
    assert len(Batch(torch.zeros(3, 8), parts.counted())) == 3


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("name", ["parts", "context", "shared"])
def test_a_batch_whose_rows_do_not_agree_is_refused(name, rows):
    letters = of_letters([["a"]] * (rows if name == "parts" else 3))
    context = torch.zeros(rows if name == "context" else 3, 2)
    shared = Shared.of(torch.arange(rows if name == "shared" else 3))
    for parts in (pad(letters), collate(letters)):
        with pytest.raises(DataError, match=rf"{name} has {rows} rows but x has 3"):
            Batch(torch.zeros(3, 8), parts, context, shared)
