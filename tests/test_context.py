"""Covariates: how they are encoded, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae.context import context_size, encode_context
from compvae.errors import PartsError
from compvae.parts import Categorical, Continuous
from schemas import schemas, shown, values_of

COVARIATES = (
    Continuous(name="temperature", low=-20, high=40, unit="C"),
    Categorical(name="day", categories=("work", "rest", "feast")),
)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (None, [0, 0, 0, 0, 0, 0]),
        ({}, [0, 0, 0, 0, 0, 0]),
        ({"temperature": None, "day": None}, [0, 0, 0, 0, 0, 0]),
        ({"temperature": 10}, [1, 0, 0, 0, 0, 0]),
        ({"temperature": -20.0, "day": "work"}, [1, -1, 1, 1, 0, 0]),
        ({"day": "feast", "temperature": np.float32(25)}, [1, 0.5, 1, 0, 0, 1]),
        ({"day": "rest"}, [0, 0, 1, 0, 1, 0]),
    ],
)
def test_covariates_are_encoded_as_a_flag_and_a_value_or_a_one_hot_vector(context, expected):
    encoded = encode_context(COVARIATES, context)
    assert encoded.dtype == torch.float32
    assert encoded.tolist() == expected
    assert context_size(COVARIATES) == len(expected)


def test_a_model_without_covariates_encodes_nothing():
    assert context_size(()) == 0
    assert encode_context((), None).shape == (0,)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(schema=schemas(), data=st.data())
def test_the_size_of_a_context_fits_its_encoding(schema, data):
    attributes = schema.attributes
    given_values = data.draw(st.fixed_dictionaries({}, optional={a.name: values_of(a) for a in attributes}))
    encoded = encode_context(attributes, given_values)
    assert encoded.shape == (context_size(attributes),)
    at = 0
    for attribute in attributes:
        width = len(attribute.categories) if isinstance(attribute, Categorical) else 1
        known, value = encoded[at].item(), encoded[at + 1 : at + 1 + width].tolist()
        assert known == float(attribute.name in given_values)
        assert value == expected_encoding(attribute, given_values.get(attribute.name))
        at += 1 + width


def expected_encoding(attribute, value) -> list[float]:
    if isinstance(attribute, Categorical):
        return [float(value == name) for name in attribute.categories]
    if value is None:
        return [0.0]
    return [float(np.float32((2 * (value - attribute.low)) / (attribute.high - attribute.low) - 1))]


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"wind": 3}, ["unknown covariate 'wind'", "temperature, day"]),
        ({"temperature": 50}, ["context: temperature is 50.0", "[-20, 40] C"]),
        ({"temperature": math.nan}, ["context: temperature is nan", "[-20, 40] C"]),
        ({"temperature": "warm"}, ["temperature must be a number", "'warm'"]),
        ({"day": "fest"}, ["day 'fest' is unknown", "work, rest, feast", "did you mean"]),
        ({"day": 3}, ["day 3 is unknown"]),
    ],
)
def test_wrong_covariates_are_refused(context, words):
    with pytest.raises(PartsError) as caught:
        encode_context(COVARIATES, context)
    shown(str(caught.value), *words)


def test_covariates_given_to_a_model_that_takes_none_are_refused():
    with pytest.raises(PartsError, match="unknown covariate 'temperature', this model takes none"):
        encode_context((), {"temperature": 3})


@pytest.mark.parametrize("context", [5, "cold", [1, 2], b"x", 2.5])
def test_a_context_that_is_no_mapping_is_refused(context):
    with pytest.raises(PartsError, match="context"):
        encode_context(COVARIATES, context)
