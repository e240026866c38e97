"""Figures show what they were given: number of axes and lines, labels, and the data itself.  Warnings are errors."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from compvae.figures import Frame, curves, images, inline_svg, live_coordinates, rel_ed_by_size, training_curves
from compvae.figures.style import INK, canvas

T = 12
FRAME = Frame(np.arange(T) / 6, "t (periods)", "x(t)")
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.uniform(size=(20, 3, 4, 4))


def given(axis, *expected):
    """The lines of an axis hold these curves, in this order."""
    assert len(axis.lines) == len(expected)
    for line, curve in zip(axis.lines, expected, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), FRAME.time)
        np.testing.assert_array_equal(line.get_ydata(), curve)


def labels(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def row(name, size, value, se=0.001, floor=0.002, of="model"):
    return {"of": of, "name": name, "K": size, "value": value, "se": se, "floor": floor, "n": 100}


def test_aggregation_shows_each_part_the_whole_and_the_sum():
    parts, whole = RANDOM.normal(size=(3, T)), RANDOM.normal(size=T)
    left, right = curves.aggregation(FRAME, ["1", "3", "5"], parts, whole).axes
    given(left, *parts)
    given(right, whole, parts.sum(0))
    assert labels(left) == ["part 1", "part 3", "part 5"]
    assert labels(right) == ["the whole", "sum of the parts"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("t (periods)", "x(t)")


def test_draws_stand_beside_the_truth_on_one_scale():
    truth, model = RANDOM.normal(size=(5, T)), 10 * RANDOM.normal(size=(7, T))
    left, right = curves.beside_truth(FRAME, truth, model).axes
    given(left, *truth)
    given(right, *model)
    assert left.get_ylim() == right.get_ylim()


def test_a_growing_composition_has_a_row_for_each_part():
    parts, wholes, exact = RANDOM.normal(size=(3, 4, T))
    axes = curves.growing(FRAME, ["a", "b", "c", "d"], parts, wholes, exact).axes
    assert len(axes) == 8
    for index in range(4):
        given(axes[2 * index], parts[index])
        given(axes[2 * index + 1], exact[index], wholes[index])
    assert axes[1].get_title(loc="left") == "whole of 1 part"
    assert axes[7].get_title(loc="left") == "whole of 4 parts"


def test_impact_and_edit_show_their_curves():
    one, two, three = RANDOM.normal(size=(3, T))
    (axis,) = curves.impact(FRAME, {"C = 1": one, "C = 3": two, "plain sum": three}).axes
    given(axis, one, two, three)
    assert labels(axis) == ["C = 1", "C = 3", "plain sum"]
    before, after = curves.edit(FRAME, one, two, three, "part 7 removed").axes
    given(before, one)
    given(after, three, two)
    assert after.get_title(loc="left") == "part 7 removed"


def test_the_tail_shows_both_kinds_and_where_it_begins():
    typical, extreme, scores = RANDOM.normal(size=(4, T)), RANDOM.normal(size=(6, T)), RANDOM.normal(size=200)
    left, middle, right = curves.tail(FRAME, typical, extreme, scores, 2.5, "peak (kW)").axes
    given(left, *typical)
    given(middle, *extreme)
    assert right.get_xlabel() == "peak (kW)"
    assert right.lines[0].get_xdata()[0] == 2.5
    area = sum(patch.get_width() * patch.get_height() for patch in right.patches)
    assert area == pytest.approx(1.0)


def test_a_grid_shows_every_image_in_its_place():
    figure = images.grid(["exact", "model"], ["a", "b", "c"], IMAGES[:6].reshape(2, 3, 3, 4, 4))
    shown = [axis.images[0].get_array() for axis in figure.axes]
    np.testing.assert_array_equal(np.stack(shown), IMAGES[:6].transpose(0, 2, 3, 1))
    assert [axis.get_title(loc="left") for axis in figure.axes[:3]] == ["a", "b", "c"]
    assert figure.axes[3].get_ylabel() == "model"


def test_the_growing_grid_has_sites_truth_and_realisations():
    sites = [("red", -0.5, 0.5), ("green", 0.2, 0.1)]
    figure = images.growing(sites, IMAGES[:2], IMAGES[2:8].reshape(3, 2, 3, 4, 4))
    axes = np.array(figure.axes).reshape(5, 2)
    assert [len(axis.lines) for axis in axes[0]] == [1, 2]
    assert [float(line.get_xdata()[0]) for line in axes[0, 1].lines] == [-0.5, 0.2]
    assert axes[0, 0].get_ylim() == (1.0, -1.0)  # y counts rows downward
    np.testing.assert_array_equal(axes[1, 1].images[0].get_array(), IMAGES[1].transpose(1, 2, 0))
    np.testing.assert_array_equal(axes[4, 0].images[0].get_array(), IMAGES[6].transpose(1, 2, 0))


def test_the_tail_of_images_is_tiled():
    left, middle, right = images.tail(IMAGES[:9], IMAGES[9:18], RANDOM.normal(size=100), 2.0, "brightness").axes
    tiled = np.asarray(left.images[0].get_array())
    assert tiled.shape == (14, 14, 3)
    np.testing.assert_array_equal(tiled[:4, 5:9], IMAGES[1].transpose(1, 2, 0))
    np.testing.assert_array_equal(tiled[5:9, :4], IMAGES[3].transpose(1, 2, 0))
    assert middle.get_title(loc="left") == "highest 1%"
    assert right.get_xlabel() == "brightness"


LINES = [
    {"step": 10, "w_bits": 5.0, "z_bits": 0.0, "x": -300.0, "bound": -303.5, "held_out": -310.0},
    {"step": 20, "w_bits": 15.0, "z_bits": 0.0, "x": None, "bound": None},
    {"step": 30, "w_bits": 40.0, "z_bits": 0.0, "x": -100.0, "bound": -128.0, "rel_ed": {"2": 0.5, "16": None}},
    {"step": 40, "w_bits": 41.0, "z_bits": 0.0, "x": 100.0, "bound": 71.0, "rel_ed": {"2": 0.05, "16": -0.001}},
]


def test_training_curves_show_what_is_known_at_each_step():
    bits, nats, watched = training_curves(LINES).axes
    assert labels(bits) == ["w"]  # a z without bits is no line
    assert bits.get_yscale() == watched.get_yscale() == "log"
    np.testing.assert_array_equal(bits.lines[0].get_ydata(), [5.0, 15.0, 40.0, 41.0])
    assert labels(nats) == ["x", "total", "total, held out"]
    np.testing.assert_array_equal(nats.lines[1].get_xdata(), [10, 30, 40])
    np.testing.assert_array_equal(nats.lines[2].get_ydata(), [-310.0])
    assert labels(watched) == ["K = 2", "K = 16"]
    np.testing.assert_array_equal(watched.lines[0].get_ydata(), [0.5, 0.05])
    assert watched.lines[1].get_ydata()[0] > 0
    assert len(training_curves(LINES[:2]).axes) == 2
    silent = training_curves([{"step": 1, "w_bits": 0.0, "z_bits": 0.0, "x": 1.0, "bound": 1.0}])
    assert not silent.axes[0].lines


def test_large_terms_of_the_bound_have_a_logarithmic_axis():
    huge = [{**line, "x": 1e5 * (i + 1)} for i, line in enumerate(LINES)]
    assert training_curves(huge).axes[1].get_yscale() == "symlog"
    assert training_curves(LINES).axes[1].get_yscale() == "linear"


def test_rel_ed_by_size_shades_what_lies_beyond_training():
    rows = [row("relED", 2, 0.01), row("relED", 30, 0.02), row("relED", 8, -0.001), row("C2ST", 2, 0.5)]
    rows += [row("relED", 2, 0.1, of="gaussian"), row("relED", 4, None)]
    (axis,) = rel_ed_by_size(rows, 16).axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert labels(axis) == ["beyond training", "floor: truth against truth", "model", "gaussian"]
    ours = axis.containers[0].lines[0]
    np.testing.assert_array_equal(ours.get_xdata(), [2, 8, 30])
    np.testing.assert_array_equal(ours.get_ydata(), [0.01, 1e-4, 0.02])
    assert axis.patches[0].get_x() == 16
    (inside,) = rel_ed_by_size(rows[:1], 16).axes
    assert not inside.patches


def test_live_coordinates_are_filled_and_counted():
    bits = np.array([[1.0, 2.0, 0.01], [np.nan] * 3])
    (axis,) = live_coordinates(["a", "b"], bits, 0.1).axes
    assert [text.get_text() for text in axis.get_xticklabels()] == ["a\n2", "b\n0"]
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), [1.0, 2.0])
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), [0.01])


class Checker(HTMLParser):
    """Tags that open and close."""

    def __init__(self):
        super().__init__()
        self.open, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_svg_stands_in_a_page_without_strangers_and_takes_the_colour_of_its_text():
    figure = curves.impact(FRAME, {"C = 1": FRAME.time})
    svg, again = (inline_svg(figure, "one", 'a "curve" <of> & more') for _ in range(2))
    assert svg == again
    checker = Checker()
    checker.feed(svg)
    assert not checker.open
    assert 'aria-label="a &quot;curve&quot; &lt;of&gt; &amp; more"' in svg
    assert "currentColor" in svg
    assert INK not in svg
    assert "http" not in svg
    assert "<style" not in svg
    other = Checker()
    other.feed(inline_svg(figure, "two", ""))
    assert not set(checker.ids) & set(other.ids)  # two figures in one page do not share ids
    assert all(len(number) <= 3 for path in re.findall(r' d="([^"]*)"', svg) for number in re.findall(r"\.\d+", path))


def test_figures_leave_the_settings_of_matplotlib_alone():
    before = dict(mpl.rcParams)
    figure = training_curves(LINES)
    inline_svg(figure, "training", "")
    assert dict(mpl.rcParams) == before
    assert isinstance(figure, Figure)
    assert canvas(2, 3, 1.0)[1].shape == (2, 3)
