"""compvae bench: ratios are right on known inputs, counts are what was promised; nothing here looks at a clock."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import compvae
from compvae import problems
from compvae.bench import SECTIONS, Scope, about, document, table
from compvae.bench.memory import allocated, peak
from compvae.bench.rows import rows_of
from compvae.bench.sampling import shared_out
from compvae.bench.timing import quartiles, race
from compvae.bench.training import configured, sized, stepper
from compvae.cli import app
from compvae.posterior.climbing import Place, climb
from compvae.train.needs import operations
from compvae.train.schedule import RECIPES, learning_rate


class Clock:
    """Time that passes only where a case says so, faster from call to call, as on a machine that gets busier."""

    def __init__(self) -> None:
        self.now, self.busy = 0.0, 1.0

    def __call__(self) -> float:
        return self.now

    def case(self, seconds: float, busier: float = 1.0) -> Callable[[], object]:
        def run() -> None:
            self.now += seconds * self.busy
            self.busy *= busier

        return run


def test_a_ratio_is_that_of_two_calls_of_the_same_round() -> None:
    clock = Clock()
    found = race({"ours": clock.case(1.0), "beside": clock.case(4.0, busier=3.0)}, "beside", 5, clock)
    assert found["ours"].ratio.median == pytest.approx(0.25)
    assert found["ours"].ratio.low == found["ours"].ratio.high == pytest.approx(0.25)
    assert found["beside"].ratio.median == 1
    assert found["ours"].seconds.high / found["ours"].seconds.low > 3  # the seconds alone would tell nothing


def test_short_calls_are_repeated_and_told_one_by_one() -> None:
    clock = Clock()
    calls = []
    short = clock.case(0.001)
    found = race({"short": lambda: (calls.append(1), short()), "long": clock.case(1.0)}, "long", 2, clock)
    assert found["short"].seconds.median == pytest.approx(0.001)
    assert len(calls) == 2 + 2 * 10


def test_median_and_quartiles_of_known_numbers() -> None:
    found = quartiles([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]).low == 7.0


def test_rows_carry_what_was_counted_and_the_document_is_json() -> None:
    rows = rows_of("here", {"a": lambda: sum(range(1000)), "b": lambda: None}, "a", 2, {"b": {"operations": 12.0}})
    found = json.loads(json.dumps(document(rows, about("compvae bench", Scope(2)))))
    assert {"date", "machine", "commit", "command", "python", "torch", "threads", "version", "rows"} <= set(found)
    assert [row["case"] for row in found["rows"]] == ["a", "b"]
    assert found["rows"][1]["counts"] == {"operations": 12.0}
    assert set(found["rows"][0]["timing"]) == {"seconds", "ratio", "rounds"}
    assert "operations 12" in table(rows)


def fill(megabytes: int) -> None:
    torch.ones(megabytes * 2**18)


def test_the_peak_of_a_fresh_process_holds_what_its_work_allocates() -> None:
    little, much = (peak(fill, size) for size in (1, 400))
    assert 395 < much - little < 420


def test_counted_operations_and_bytes_are_those_of_a_product() -> None:
    a, b = torch.ones(30, 40), torch.ones(40, 50)
    assert operations(lambda: a @ b) == 2 * 30 * 40 * 50
    assert abs(allocated(lambda: a @ b) - 30 * 50 * 4) <= 64


def steps(kind: str, size: int) -> int:
    batch = sized(problems.get("sines"), size, 4, 0)
    return operations(stepper(configured(kind, width=32), batch, 0))  # type: ignore[arg-type]


def test_a_collapsed_step_counts_the_same_operations_whatever_k_is() -> None:
    assert steps("collapsed", 1) == steps("collapsed", 4) == steps("collapsed", 64)


def test_a_graph_step_counts_more_with_every_part() -> None:
    few, more, many = (steps("graph", size) for size in (2, 4, 8))
    assert many - more == pytest.approx(2 * (more - few))
    assert many > 10 * steps("collapsed", 8)


@pytest.mark.parametrize("name", ["sines", "households"])
def test_sampling_allocates_as_much_for_ten_parts_as_for_a_million(name: str) -> None:
    model = compvae.load(name)
    ten, million = (allocated(lambda s=s: model.sample(shared_out(model, s), 64)) for s in (10, 1_000_000))
    assert million <= 1.01 * ten


def test_a_call_for_one_whole_does_the_work_of_one_tile() -> None:
    model = compvae.load("sines")
    one, tile, two = (operations(lambda n=n: model.sample({"3": 2}, n)) for n in (1, 64, 65))
    assert one == tile == two / 2


class Bowl(Place):
    """The bottom of sum_d (v_d - goal_d)^4, which Newton's steps approach by a third of the way each."""

    def step(self, damping: Tensor) -> Tensor:
        return self.slope / (self.seen[:, 0] + damping[:, None])


def looker(goal: Tensor, looks: list[int]) -> Callable[[Tensor], Bowl]:
    def look(v: Tensor) -> Bowl:
        looks.append(len(v))
        gap = v - goal
        return Bowl(v, (gap**4).sum(1), -4 * gap**3, 12 * gap[:, None] ** 2 + 1e-12)

    return look


def test_a_climb_ends_when_no_step_promises_anything_and_rows_do_not_hang_on_others() -> None:
    goal = torch.tensor([[0.0], [3.0]], dtype=torch.float64)
    looks: list[int] = []
    both = climb(looker(goal, looks), torch.zeros(2, 1, dtype=torch.float64), 60, 1e-6)
    assert len(looks) < 60
    alone = climb(looker(goal[1:], []), torch.zeros(1, 1, dtype=torch.float64), 60, 1e-6)
    assert both.at[0] == 0
    assert torch.equal(both.at[1:], alone.at)
    assert abs(float(both.at[1]) - 3) < 0.05


def test_a_short_run_warms_up_in_a_fifth_of_it_and_a_long_one_as_before() -> None:
    recipe = RECIPES["sines", "small"]
    for step in (0, 57, 150, 199, 200, 2500):
        cosine = 0.495 * (1 + math.cos(math.pi * step / 3000)) + 0.01
        assert learning_rate(recipe, step) == recipe.rate * min(1.0, (step + 1) / 200) * cosine
    short = recipe.model_copy(update={"steps": 100})
    assert learning_rate(short, 19) > 0.9 * recipe.rate > 5 * learning_rate(short, 2)
    assert learning_rate(recipe.model_copy(update={"steps": 1}), 0) == pytest.approx(recipe.rate)


def test_the_command_measures_what_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    done = CliRunner().invoke(app, ["bench", "--quick", "--only", "inference", "--json", "--out", str(out)])
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert {row["section"] for row in found["rows"]} == {"inference"}
    assert found["command"] == "compvae bench --only inference --rounds 9 --seed 0 --quick"
    assert all(row["timing"]["ratio"]["median"] > 0 for row in found["rows"])
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == found["rows"]


@pytest.mark.parametrize("section", ["training", "sampling"])
def test_every_section_runs_a_little_of_everything(section: str) -> None:
    rows = SECTIONS[section](Scope(quick=True))
    assert len(rows) > 5
    for row in rows:
        assert row.timing.seconds.median > 0
        assert any(other.case == row.beside for other in rows)


def test_sections_that_do_not_exist_and_places_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    for words, code, text in (
        (["--only", "speed"], 2, "the sections are training, sampling"),
        (["--out", str(tmp_path / "none" / "b.json")], 1, "is not a directory"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "compvae", "bench", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert text in done.stderr


def test_help_imports_neither_torch_nor_rich() -> None:
    code = (
        "import sys; sys.argv = ['compvae', '--help']\n"
        "from compvae.cli import main\n"
        "try: main()\n"
        "except SystemExit: sys.exit(any(name in sys.modules for name in ('torch', 'rich', 'numpy')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bench" in done.stdout
