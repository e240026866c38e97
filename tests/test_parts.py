"""Parts: how compositions are read, described, ordered and refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae import CompVAEError
from compvae.errors import PartsError
from compvae.parts import MAX_PARTS, Categorical, Continuous, Multiset, Part, PartsBatch, PartsSchema
from models import schema_of
from schemas import schemas, shown, values_of

SINES = schema_of(Categorical(name="frequency", categories=tuple(str(f) for f in range(1, 11))))
SITES = schema_of(
    Categorical(name="colour", categories=("red", "green", "blue")),
    Continuous(name="x", low=-1, high=1, unit="half widths"),
    Continuous(name="y", low=0, high=10),
)
PLACES = schema_of(Continuous(name="x", low=-1, high=1))
HOMES = schema_of(
    Categorical(name="profile", categories=("flat", "house")),
    Continuous(name="area", low=10, high=500, unit="m2"),
    Categorical(name="heating", categories=("gas", "heat_pump", "none")),
)
NAMES = st.sampled_from(SINES.categories)
MAPPINGS = st.dictionaries(NAMES, st.integers(0, 50), min_size=1).filter(lambda parts: any(parts.values()))


@st.composite
def described_parts(draw) -> tuple[PartsSchema, list[dict[str, object]]]:
    schema = draw(schemas())
    part = st.fixed_dictionaries({a.name: values_of(a) for a in schema.attributes})
    return schema, draw(st.lists(part, min_size=1, max_size=8))


def refused(schema: PartsSchema, parts: object) -> str:
    """The message with which these parts are refused."""
    with pytest.raises(PartsError) as caught:
        schema.parse(parts)
    message = str(caught.value)
    assert isinstance(caught.value, CompVAEError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in message
    assert len(message) < 400
    return message


def site(**changes: object) -> dict[str, object]:
    return {"colour": "red", "x": 0.0, "y": 5.0, **changes}


# -- what is read ------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=100)
@given(parts=MAPPINGS)
def test_a_mapping_and_a_list_of_dicts_are_the_same_composition(parts):
    by_name = SINES.parse(parts)
    one_by_one = SINES.parse([{"frequency": name} for name, count in parts.items() for _ in range(count)])
    with_counts = SINES.parse([{"frequency": name, "count": count} for name, count in parts.items()])
    expected = tuple(parts.get(name, 0) for name in SINES.categories)
    assert by_name.counts == one_by_one.counts == with_counts.counts == expected
    assert by_name.size == one_by_one.size == with_counts.size == sum(parts.values())
    assert by_name.canonical() == one_by_one.canonical() == with_counts.canonical()


@settings(derandomize=True, deadline=None, max_examples=50)
@given(parts=MAPPINGS)
def test_integer_keys_and_integral_floats_are_read_like_names_and_counts(parts):
    spelled = {int(name): float(count) for name, count in parts.items()}
    assert SINES.parse(spelled) == SINES.parse(parts)


@pytest.mark.parametrize("integer", [int, np.int64, np.int8, np.uint16])
@pytest.mark.parametrize("number", [int, float, np.int32, np.uint8, np.float32, np.float64, Fraction])
def test_numpy_scalars_and_fractions_are_accepted(integer, number):
    assert SINES.parse({integer(3): number(2), np.str_("7"): number(1)}).runs == ((Part(2), 2), (Part(6), 1))
    assert SITES.parse([site(x=number(1), y=number(7), count=number(3))]).runs == ((Part(0, (1.0, 7.0)), 3),)


def test_features_become_plain_floats():
    ((part, _count),) = SITES.parse([site(x=np.float32(0.5), y=3)]).runs
    assert [type(value) for value in part.features] == [float, float]


def test_zero_counts_are_dropped():
    assert SINES.parse({"3": 0, "7": 1, "1": 0.0}).runs == ((Part(6), 1),)
    assert SITES.parse([site(count=0), site(x=0.5)]).runs == ((Part(0, (0.5, 5.0)), 1),)


def test_the_order_of_the_caller_is_kept():
    assert [part.kind for part in SINES.parse({"7": 2, "3": 1, "10": 1}).listed()] == [6, 6, 2, 9]
    given_parts = [site(colour="blue", x=0.5), site(x=-1), site(colour="blue", x=-0.25), site(x=-1)]
    assert SITES.parse(given_parts).dicts() == given_parts


@pytest.mark.parametrize("container", [list, tuple])
def test_any_sequence_of_dicts_is_a_composition(container):
    assert SINES.parse(container([{"frequency": 3}, {"frequency": "7"}])).counts == (0, 0, 1, 0, 0, 0, 1, 0, 0, 0)


def test_the_bounds_of_a_continuous_attribute_are_allowed():
    assert SITES.parse([site(x=-1, y=10)]).runs == ((Part(0, (-1.0, 10.0)), 1),)


def test_a_parsed_composition_is_read_again_as_itself():
    parsed = SINES.parse({"3": 2})
    assert SINES.parse(parsed) is parsed


def test_a_million_parts_as_a_mapping_stay_one_run():
    million = SINES.parse({"3": 1_000_000})
    assert million.runs == ((Part(2), 1_000_000),)
    assert million.canonical().runs == million.runs
    assert million.counts[2] == million.size == 1_000_000


def test_the_largest_composition_is_accepted_and_one_more_part_is_not():
    assert SINES.parse({"3": MAX_PARTS}).size == MAX_PARTS
    shown(refused(SINES, {"3": MAX_PARTS, "7": 1}), str(MAX_PARTS + 1), "at most", str(MAX_PARTS))


def test_the_example_of_the_docstring_holds():
    schema = PartsSchema(attributes=(Categorical(name="frequency", categories=("1", "2", "3")),))
    assert schema.parse({"3": 2, 1: 1}).counts == (1, 0, 2)


# -- kinds, descriptions and order -------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=150)
@given(example=described_parts())
def test_describing_a_parsed_part_gives_back_what_was_given(example):
    schema, parts = example
    read = schema.parse(parts)
    assert read.dicts() == parts
    assert [list(described) for described in read.dicts()] == [[a.name for a in schema.attributes]] * len(parts)
    assert all(0 <= part.kind < schema.n_kinds for part in read.listed())


@settings(derandomize=True, deadline=None, max_examples=60)
@given(schema=schemas())
def test_every_kind_is_another_combination_of_categories(schema):
    sizes = [len(a.categories) for a in schema.categorical]
    assert schema.n_kinds == int(np.prod(sizes, dtype=int))
    middle = tuple((a.low + a.high) / 2 for a in schema.continuous)
    described = [schema.describe(Part(kind, middle)) for kind in range(schema.n_kinds)]
    named = {tuple(d[a.name] for a in schema.categorical) for d in described}
    assert len(named) == schema.n_kinds
    assert [schema.parse([d]).listed()[0].kind for d in described] == list(range(schema.n_kinds))


def test_kinds_count_the_last_categorical_attribute_fastest():
    combinations = [("flat", "gas"), ("flat", "heat_pump"), ("flat", "none"), ("house", "gas")]
    parts = [{"profile": profile, "heating": heating, "area": 80.0} for profile, heating in combinations]
    assert [part.kind for part in HOMES.parse(parts).listed()] == [0, 1, 2, 3]
    assert HOMES.n_kinds == 6
    assert HOMES.n_features == 1


@settings(derandomize=True, deadline=None, max_examples=100)
@given(example=described_parts(), data=st.data())
def test_the_canonical_form_is_the_same_for_every_order(example, data):
    schema, parts = example
    shuffled = data.draw(st.permutations(parts))
    canonical = schema.parse(parts).canonical()
    assert canonical == schema.parse(shuffled).canonical()
    assert canonical.canonical() == canonical
    assert canonical.listed() == sorted(schema.parse(parts).listed())
    assert canonical.counts == schema.parse(parts).counts


def test_the_canonical_form_merges_alike_parts():
    merged = SINES.parse([{"frequency": 7}, {"frequency": 3, "count": 2}, {"frequency": 7}]).canonical()
    assert merged.runs == ((Part(2), 2), (Part(6), 2))


def test_a_composition_too_long_to_list_says_so():
    with pytest.raises(PartsError, match=r"1000001 parts cannot be listed.*at most 1000000"):
        SINES.parse({"3": 1_000_001}).listed()


def test_a_schema_knows_whether_counts_say_everything():
    assert SINES.countable
    assert not SITES.countable
    assert SINES.categories == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
    with pytest.raises(PartsError, match="one categorical attribute, this schema has 2"):
        _ = HOMES.categories


@settings(derandomize=True, deadline=None, max_examples=50)
@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), share=st.floats(0, 1))
def test_scaling_maps_the_range_linearly_to_minus_one_and_one(low, width, share):
    attribute = Continuous(name="x", low=low, high=low + width)
    assert attribute.scaled(attribute.low) == -1
    assert attribute.scaled(attribute.high) == 1
    value = low + share * width
    assert attribute.scaled(value) == pytest.approx(2 * share - 1, abs=1e-6)


# -- what is refused ---------------------------------------------------------------------------------------------


def test_an_unknown_category_is_named_with_the_allowed_ones_and_a_hint():
    message = refused(SITES, [site(colour="gren")])
    shown(message, "parts[0]", "colour 'gren' is unknown", "red, green, blue", "did you mean 'green'?")


def test_an_unknown_category_far_from_all_others_gets_no_hint():
    message = refused(SINES, {"zzz": 1})
    shown(message, "frequency 'zzz' is unknown", "must be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10")
    assert "did you mean" not in message


@pytest.mark.parametrize("key", [0, 11, -3, 3.0, None, True, (3,), b"3", "03", " 3", np.int64(11)])
def test_a_key_that_names_no_category_is_refused(key):
    shown(refused(SINES, {key: 1}), repr(key), "is unknown", "must be one of 1, 2")


def test_long_lists_of_categories_are_shortened():
    schema = schema_of(Categorical(name="home", categories=tuple(f"h{i}" for i in range(500))))
    shown(refused(schema, {"x": 1}), "h0, h1", "(500 in all)")


@pytest.mark.parametrize(
    "count", [-1, -1.0, 0.5, 2.25, math.nan, math.inf, -math.inf, True, False, None, "2", [2], 2j, np.float64("nan")]
)
def test_a_count_that_is_no_whole_number_is_refused(count):
    for message in (refused(SINES, {"3": count}), refused(SINES, [{"frequency": "3", "count": count}])):
        shown(message, "count must be a whole number >= 0", "got", repr(count))


def test_the_place_of_a_bad_count_is_named():
    shown(refused(SINES, {"1": 1, "3": -1}), "parts['3']")
    shown(refused(SITES, [site(), site(count=-2)]), "parts[1]['count']", "-2")


@pytest.mark.parametrize("count", [10**5000, -(10**5000)], ids=["positive", "negative"])
def test_counts_too_long_to_print_are_refused(count):
    shown(refused(SINES, {"3": count}), "parts")
    shown(refused(SITES, [site(count=count)]), "parts")


def test_keys_too_long_to_print_are_refused():
    shown(refused(SINES, {10**5000: 1}), "is unknown", "must be one of 1, 2")


def test_values_nested_too_deep_to_print_are_refused():
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    shown(refused(SINES, nested), "parts[0] must be a dict")
    shown(refused(SINES, {"3": nested}), "count must be a whole number")
    shown(refused(SITES, [site(x=nested)]), "x must be a number")


@pytest.mark.parametrize("parts", [{}, [], (), {"3": 0}, {"3": 0, "7": 0.0}])
def test_an_empty_composition_is_refused(parts):
    shown(refused(SINES, parts), "parts is empty", "at least one part")


@pytest.mark.parametrize("value", [-1.001, 1.001, 1e300, math.inf, -math.inf, math.nan, 10**400, np.float32(-2)])
def test_a_value_out_of_range_is_refused(value):
    shown(refused(SITES, [site(), site(x=value)]), "parts[1]: x is", "in [-1, 1] half widths")


@pytest.mark.parametrize("value", ["0.5", None, True, [0.5], 1j, {}, b"0", np.array([0.5])])
def test_a_value_that_is_no_number_is_refused(value):
    shown(refused(SITES, [site(y=value)]), "parts[0]: y must be a number in [0, 10], got", repr(value))


def test_a_missing_attribute_is_named():
    shown(refused(SITES, [site(), {"colour": "red", "x": 0.0}]), "parts[1]", "attribute 'y' is missing")


@pytest.mark.parametrize("key", ["hue", 3, None, ("x",)])
def test_an_unknown_attribute_is_named_with_the_known_ones(key):
    message = refused(SITES, [{**site(), key: 1}])
    shown(message, "parts[0]", "unknown attribute", repr(key), "the attributes are colour, x, y")


@pytest.mark.parametrize("parts", [None, 3, 2.5, "3:2", b"3", {3}, object(), iter([]), np.zeros(3)])
def test_a_composition_of_the_wrong_type_is_refused_with_the_allowed_forms(parts):
    message = refused(SINES, parts)
    shown(message, "parts must be a mapping name -> count or a list of dicts with keys frequency, got")
    assert "mapping" not in refused(SITES, parts)


@pytest.mark.parametrize("item", [None, 3, "3", ["frequency", "3"], [{"frequency": "3"}]])
def test_an_entry_of_the_list_that_is_no_dict_is_refused(item):
    message = refused(SINES, [{"frequency": "3"}, item])
    shown(message, "parts[1] must be a dict with keys frequency", "got", repr(item))


@pytest.mark.parametrize("schema", [SITES, PLACES, HOMES])
def test_a_mapping_for_a_schema_with_other_attributes_is_refused(schema):
    message = refused(schema, {"red": 2})
    shown(message, "mapping name -> count needs parts with one categorical attribute", "give a list of dicts")
    shown(message, *(a.name for a in schema.attributes))


def test_parts_read_with_another_schema_are_refused():
    shown(refused(SITES, SINES.parse({"3": 1})), "another schema", "list of dicts")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ((), ["at least 1"]),
        ((Categorical(name="a", categories=("x",)), Continuous(name="a", low=0, high=1)), ["differ", "a, a"]),
        ((Categorical(name="count", categories=("x",)),), ["'count'"]),
        (
            tuple(Categorical(name=f"a{i}", categories=tuple("abcdefghijklmnopq")) for i in range(4)),
            ["83521", "at most 65536"],
        ),
    ],
    ids=["none", "twice the same name", "reserved name", "too many kinds"],
)
def test_attributes_that_do_not_go_together_are_refused(attributes, words):
    with pytest.raises(PartsError) as caught:
        schema_of(*attributes)
    shown(str(caught.value), *words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical(name="a", categories=("x", "y", "x")), "names a category twice"),
        (lambda: Categorical(name="a", categories=()), "at least 1"),
        (lambda: Categorical(name="", categories=("x",)), "at least 1"),
        (lambda: Continuous(name="a", low=1, high=1), "low < high"),
        (lambda: Continuous(name="a", low=0, high=math.inf), "finite"),
    ],
    ids=["category twice", "no category", "no name", "empty range", "infinite range"],
)
def test_attributes_check_themselves(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# -- one composition for each row --------------------------------------------------------------------------------


def test_a_parts_batch_reads_one_composition_for_each_row():
    batch = PartsBatch([{"3": 2}, [{"frequency": 7}], SINES.parse({"1": 1})])
    assert len(batch) == 3
    read = batch.parse(SINES)
    assert all(isinstance(composition, Multiset) for composition in read)
    assert [composition.runs for composition in read] == [((Part(2), 2),), ((Part(6), 1),), ((Part(0), 1),)]


def test_a_parts_batch_takes_any_iterable():
    assert len(PartsBatch({"3": count} for count in (1, 2))) == 2


@pytest.mark.parametrize("given_value", [{"3": 2}, "3:2", b"3", None, 7])
def test_a_parts_batch_of_something_else_is_refused(given_value):
    with pytest.raises(PartsError, match="takes a list of compositions, one for each row, got") as caught:
        PartsBatch(given_value)
    shown(str(caught.value), repr(given_value))


def test_an_empty_parts_batch_is_refused():
    with pytest.raises(PartsError, match="one composition for each row"):
        PartsBatch([])


def test_errors_of_a_parts_batch_name_the_row():
    with pytest.raises(PartsError) as caught:
        PartsBatch([{"3": 1}, {"3": 1}, {"3": -1}]).parse(SINES)
    shown(str(caught.value), "parts[row 2]['3']", "-1")
