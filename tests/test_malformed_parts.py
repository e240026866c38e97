"""400 malformed compositions: each is refused by an error of our own, in one readable sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae import PartsBatch, problems
from compvae.errors import PartsError
from compvae.parts import MAX_PARTS, Multiset
from junk import JUNK, KEYS, ODDITIES, SCALARS, assert_readable, assert_refused, thousands_of_digits

SINES, COLOURS = problems.get("sines"), problems.get("colours", size=4)


FREQUENCIES, COLOUR_NAMES = SINES.schema.categories, COLOURS.schema.categorical[0].categories


NO_COUNT = JUNK.filter(lambda value: not is_count(value))


NO_PLACE = JUNK.filter(lambda value: not is_place(value))


NO_PARTS = SCALARS | ODDITIES.filter(lambda value: not isinstance(value, list) or value)


MAPPINGS = st.dictionaries(st.sampled_from(FREQUENCIES), st.integers(1, 5), max_size=4)


SITES = st.lists(
    st.fixed_dictionaries(
        {"colour": st.sampled_from(COLOUR_NAMES), "x": st.floats(-1, 1), "y": st.floats(-1, 1)},
    ),
    max_size=4,
)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    return is_number(value) and 0 <= value <= MAX_PARTS and value == int(value)


def is_place(value: object) -> bool:
    return is_number(value) and -1 <= value <= 1


def spells_one_of(names: tuple[str, ...], value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        value = str(value)
    return isinstance(value, str) and value in names


@st.composite
def broken_mappings(draw) -> dict:
    """A composition by counts with one entry that is wrong."""
    if draw(st.booleans()):
        bad_key = draw(
            (KEYS | st.builds(thousands_of_digits, st.booleans())).filter(lambda k: not spells_one_of(FREQUENCIES, k))
        )
        entry = {bad_key: draw(st.integers(1, 5))}
    else:
        entry = {draw(st.sampled_from(FREQUENCIES)): draw(NO_COUNT)}
    return {**draw(MAPPINGS), **entry}


@st.composite
def broken_sites(draw) -> list:
    """A list of sites with one that is wrong."""
    sites = draw(SITES)
    site = {"colour": "red", "x": 0.5, "y": -0.5}
    way = draw(st.sampled_from(["missing", "unknown", "colour", "place", "count", "no dict"]))
    if way == "missing":
        del site[draw(st.sampled_from(sorted(site)))]
    elif way == "unknown":
        site[draw(KEYS.filter(lambda key: key not in {"colour", "x", "y", "count"}))] = draw(JUNK)
    elif way == "colour":
        site["colour"] = draw(JUNK.filter(lambda value: not spells_one_of(COLOUR_NAMES, value)))
    elif way == "place":
        site[draw(st.sampled_from("xy"))] = draw(NO_PLACE)
    elif way == "count":
        site["count"] = draw(NO_COUNT)
    bad = draw(JUNK.filter(lambda value: not isinstance(value, dict))) if way == "no dict" else site
    sites.insert(draw(st.integers(0, len(sites))), bad)
    return sites


@settings(derandomize=True, deadline=None, max_examples=120)
@given(parts=broken_mappings())
def test_a_mapping_with_a_wrong_entry_is_refused_everywhere(parts):
    assert_refused(PartsError, lambda: SINES.schema.parse(parts))
    assert_refused(PartsError, lambda: SINES.truth(parts, 1))
    assert_refused(PartsError, lambda: PartsBatch([{"3": 1}, parts]).parse(SINES.schema))


@settings(derandomize=True, deadline=None, max_examples=120)
@given(parts=broken_sites())
def test_a_list_with_a_wrong_part_is_refused_everywhere(parts):
    assert_refused(PartsError, lambda: COLOURS.schema.parse(parts))
    assert_refused(PartsError, lambda: COLOURS.truth(parts, 1))
    assert_refused(PartsError, lambda: PartsBatch([parts]).parse(COLOURS.schema))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(parts=NO_PARTS)
def test_something_that_is_no_composition_is_refused_everywhere(parts):
    for problem in (SINES, COLOURS):
        assert_refused(PartsError, lambda problem=problem: problem.schema.parse(parts))
        assert_refused(PartsError, lambda problem=problem: problem.truth(parts, 1))


@pytest.mark.parametrize("problem", [SINES, COLOURS], ids=["sines", "colours"])
@settings(derandomize=True, deadline=None, max_examples=40)
@given(parts=JUNK)
def test_anything_at_all_is_a_composition_or_refused(problem, parts):
    try:
        read = problem.schema.parse(parts)
    except PartsError as error:
        assert_readable(error)
    else:
        assert isinstance(read, Multiset)
        assert read.size >= 1


@settings(derandomize=True, deadline=None, max_examples=40)
@given(compositions=JUNK)
def test_anything_at_all_is_a_batch_of_compositions_or_refused(compositions):
    try:
        read = PartsBatch(compositions).parse(SINES.schema)
    except PartsError as error:
        assert_readable(error)
    else:
        assert all(isinstance(one, Multiset) for one in read)
