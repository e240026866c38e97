"""The layout reads top to bottom: a file imports only from files above it; nothing unpickles; torch comes late."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "compvae"

ORDER = """
errors checks extras files noise parts batch context
data.flat data.text data.wholes texts results progress
data.tables data.times data.readings data.clocks data.meter_days data.split data.covariates data.homes data.dataset
data.citylearn
problems.source problems.blocks problems.base problems.sines problems.colours
problems.households.profiles problems.households.day problems.households.homes problems.households.feeder
problems.households problems problems.pools problems.meters problems.tables problems.own
distributions.normal distributions.of_parts distributions distributions.dense config aggregation
nn nn.residual nn.embedding nn.graph nn.trunks
scale prior.base prior.table prior.network prior.given_sum prior
posterior.climbing posterior.base posterior.collapsed posterior.graph
posterior.newton posterior
decoder.base decoder.paper decoder.linked decoder.placed decoder
transport transport.config transport.link transport.gaussian transport.base transport.expectation
transport.part_network transport.placed transport.given transport.units transport.covariates transport.field
transport.convolution transport.flow transport.network transport.observing transport.correlating
transport.starting transport.structure transport.places transport.editing transport.placed_editing
network inference objective
fitting fitting.calibration fitting.start
composing composing.walks composing.generation composing.live composing.history composing.editing composing.held
composing.wholes composing.composition
tails.events tails.simulator tails.base tails.rejection tails.subset tails.pareto tails.proposal tails.importance
tails presets
measures.measured measures.moments measures.energy measures.ks measures.edits measures.recovery measures.classifier
measures.tails measures.resampling measures.fitting measures.curves measures.images measures.information measures
storage parts_distribution model
planning.quantities planning.curves planning.daily planning.exceeding planning.diversity planning.changes
planning.scales planning.plan planning.answers planning
figures.style figures.curves figures.images figures.loads figures.unseen figures.numbers figures
train train.schedule train.signals train.engine train.sampled train.step train.quick
verdict verdict.scores verdict.verdict verdict.yardsticks verdict.judge
train.checkpoint train.settings train.watch train.loop train.needs train.budget train.choice train.observers
train.runs api
baselines.base baselines.inputs baselines.learned baselines.independent baselines.gaussian baselines.cvae
baselines.flow baselines.matching baselines.paper baselines
bench.timing bench.memory bench.rows bench.training bench.sampling bench.inference bench.startup bench
evaluation.plan evaluation.rows evaluation.averages evaluation.hidden evaluation.samples evaluation.observed
evaluation.properties evaluation.edits evaluation.harness evaluation.unseen evaluation
report.claims report.exhibit report.render report.curves report.images report.loads report.exhibits report.facts
report.measures report.own report.page report.plan report
server server.limits server.faults server.metrics server.access server.hosts server.guard server.protocol
server.schemas server.arrays server.lanes server.joining server.catalogue server.reading server.exact server.work
server.describing server.app server.running
commands commands.options commands.tally commands.generating commands.observing commands.plan commands.evaluate
commands.report commands.serve commands.bench commands.data
cli __main__
""".split()


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":  # the package itself names everything, lazily
            found[name] = path
    return found


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports anywhere, functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "compvae":
            base = node.module.removeprefix("compvae").removeprefix(".")
            names = [f"{base}.{alias.name}".removeprefix(".") for alias in node.names]
            found |= {name if name in ORDER else base for name in names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("compvae.") for a in node.names if a.name.startswith("compvae.")}
    return found


def test_every_file_has_its_place_in_the_order() -> None:
    assert sorted(ORDER) == sorted(modules())


def test_a_file_imports_only_from_files_above_it() -> None:
    for name, path in modules().items():
        for other in imports(path):
            assert other in ORDER, f"{name} imports {other!r}, which is not a module of the package"
            assert ORDER.index(other) < ORDER.index(name), f"{name} imports {other}, which stands below it"


def test_the_rule_would_notice_an_import_from_below(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from compvae.network import CompVAE\n    from compvae import measures\n")
    assert imports(bad) == {"network", "measures"}


def test_every_file_opens_with_what_it_is_about() -> None:
    for name, path in modules().items():
        assert ast.get_docstring(ast.parse(path.read_text())), name


def test_nothing_in_the_package_can_unpickle() -> None:
    for name, path in modules().items():
        tree = ast.parse(path.read_text())
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        assert not imported & {"pickle", "dill", "cloudpickle", "shelve", "marshal"}, name
        loads = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.load"]
        assert not loads, name
        assert "load_module" not in called, name


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import compvae, sys; compvae.PartsSchema; compvae.CompVAEError; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_resolves() -> None:
    import compvae

    for name in compvae.__all__:
        assert getattr(compvae, name) is not None
    assert dir(compvae) == sorted(compvae.__all__)


def test_the_mathematical_tests_are_all_there() -> None:
    """A file that is renamed would no longer run under the other instruction sets."""
    tests = Path(__file__).parent
    listed = re.findall(r'^    "(test_\w+\.py)",$', (tests / "conftest.py").read_text(), re.MULTILINE)
    assert len(listed) > 20
    assert [name for name in listed if not (tests / name).exists()] == []
