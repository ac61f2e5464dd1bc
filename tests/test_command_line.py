"""The command line: explain in every mode and form; one line and exit code 2 for wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

import iterlab
from iterlab import bench, overhead, spec
from iterlab.cases import Case
from iterlab.cli import main
from iterlab.planning import dtype_name

ADD = ["explain", "add", "f32[64,64]", "f32[64,64].t()"]

FLOAT8 = {name for name in spec.DTYPES if name.startswith("float8")}

LAST_LAYER = {
    "none": ("CPU", "runs"),
    "grad": ("CPU", "runs"),
    "no_grad": ("CPU", "runs"),
    "inference_mode": ("CPU", "runs"),
    "autocast": ("CPU", "runs"),
    "fake": ("CPU", "not reached"),
    "vmap": ("CPU", "runs"),
}


@pytest.mark.parametrize("mode", LAST_LAYER)
def test_explain_in_a_mode(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, "--mode", mode, "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["dispatch"]["layers"]
    states = {layer["key"]: layer["state"] for layer in layers}
    assert (layers[-1]["key"], layers[-1]["state"]) == LAST_LAYER[mode]
    assert states["AutogradCPU"] == ("skipped" if mode == "inference_mode" else "runs")
    assert ("FuncTorchBatched" in states) == (mode == "vmap")
    assert ("Meta" in states) == (mode == "fake")


@pytest.mark.parametrize("command", [ADD, ["ops"], ["doctor"]], ids=["explain", "ops", "doctor"])
def test_output_is_plain_when_piped(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) > 8 and "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"iterlab {iterlab.__version__}\n"


def test_profile_prints_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint('hello')\ntorch.ones(9) + 1\n")
    assert main(["profile", "--json", str(script)]) == 0
    printed = capsys.readouterr()
    assert "hello" in printed.err
    assert any("script.py:3" in row["name"] for row in json.loads(printed.out)["rows"])


def test_a_script_that_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(9) + 1\ntorch.ones(2) @ torch.ones(3)\n")
    assert main(["profile", str(script)]) == 1
    printed = capsys.readouterr()
    assert "script.py:2" in printed.out  # what ran until then
    error = printed.err.splitlines()
    assert error[0].startswith("Traceback") and "script.py" in error[1] and "line 3" in error[1]
    assert error[-1].startswith("RuntimeError")


def test_explain_runs_and_writes_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "call.html"
    assert main([*ADD, "--run", "--html", str(page)]) == 0
    assert "Measured" in page.read_text() and capsys.readouterr().out == ""


def test_explain_reductions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sum", "f32[8,16]", "--dim", "0", "--keepdim", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["output_shape"] == [1, 16]
    assert main(["explain", "argmax", "f32[8,16]", "--dim", "1", "--run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["output_shape"] == [8] and found["measured"]["seconds"] > 0


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (["gelu", "f32[4]"], "approximate=tanh"),
        (["div", "f32[4]", "2"], "rounding_mode=floor"),
        (["clone", "f32[1,2,3,4]"], "memory_format=channels_last"),
        (["norm", "f32[4]"], "p=inf"),
        (["norm", "f32[4]"], "dtype=f64"),
        (["sum", "f32[4,4]"], "dim=[0,1]"),
    ],
)
def test_arguments_of_every_type(call: list[str], argument: str) -> None:
    assert main(["explain", *call, "--arg", argument]) == 0


def test_a_path_is_forced_on_what_has_paths(capsys: pytest.CaptureFixture[str]) -> None:
    for call in (["add", "f32[4]", "1"], ["clamp", "f32[4]", "0", "1"]):
        assert main(["explain", *call, "--path", "generic"]) == 0
        assert "generic, because force_path asked for it" in capsys.readouterr().out


def test_a_plan_needs_no_memory(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", "add", "f32[10000000,10000000].t()", "f32[10000000,1]"]
    assert main([*call, "--out", "f32[10000000,10000000]", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["plan"]["shape"] == [10000000, 10000000]
    assert printed.err == "iterlab: too large for memory: explained without data, on meta\n"


def test_two_tensors_are_not_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "max", "f32[4,4]", "f32[4,4]", "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["summary"] == "calls iterlab::maximum" and explained["plan"] is None


def test_every_dtype_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    assert set(spec.DTYPES) <= set(capsys.readouterr().out.split())
    assert {dtype_name(spec.parse(f"{name}[2]").dtype) for name in FLOAT8} == FLOAT8


def test_the_list_of_operators_shows_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    assert "to [eps, 1 - eps] if eps" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["ops", "doctor"])
def test_lists_as_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 5


WRONG = {
    "no command": [],
    "unknown command": ["explane"],
    "unknown operator": ["explain", "ad", "f32[2]", "f32[2]"],
    "unknown operator of torch": ["explain", "aten::ad", "f32[2]"],
    "bad operand": ["explain", "add", "f32[2", "f32[2]"],
    "unknown dtype": ["explain", "add", "f31[2]", "f32[2]"],
    "shapes": ["explain", "add", "f32[2]", "f32[3]"],
    "too few operands": ["explain", "add", "f32[2]"],
    "unknown mode": [*ADD, "--mode", "fast"],
    "run in a mode that computes nothing": [*ADD, "--mode", "fake", "--run"],
    "argument": ["explain", "add", "f32[2]", "f32[2]", "--arg", "alpha"],
    "nothing to map over": ["explain", "add", "1", "f32[]", "--mode", "vmap"],
    "no script": ["profile"],
    "missing script": ["profile", "missing.py"],
    "a folder as script": ["profile", "."],
    "too many operands": ["explain", "add", "f32[2]", "f32[2]", "f32[2]"],
    "a size that is no int64": ["explain", "add", "f32[99999999999999999999]", "1"],
    "a call that no overload takes": ["explain", "aten::softmax", "f32[2,2]"],
    "a page in no folder": [*ADD, "--html", "no/such/folder/page.html"],
    "a report in no folder": ["profile", "--html", "no/such/folder/page.html", __file__],
    "a page that is a folder": [*ADD, "--html", "."],
    "a case that is none": ["bench", "--case", "no such case"],
    "a path of a reduction": ["explain", "sum", "f32[4]", "--path", "tiled"],
    "a path of torch's operator": ["explain", "aten::add", "f32[4]", "1", "--path", "generic"],
    "a run of more than memory": ["explain", "add", "f32[10000000,10000000]", "1", "--run"],
    "a choice that is none": ["explain", "gelu", "f32[4]", "--arg", "approximate=fast"],
    "no threads": ["bench", "--threads", "0"],
    "no rounds": ["bench", "--rounds", "0"],
    "no operands": ["bench", "--mb", "0"],
    "a picture in no folder": ["demo", "--picture", "no/such/folder/picture.png"],
}


@pytest.mark.parametrize("option", ["mb", "rounds", "threads"])
def test_counts_of_a_benchmark(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"--{option}", "-3"]) == 2
    assert capsys.readouterr().err == f"iterlab: expected --{option} of at least 1, got -3\n"


def test_the_table_of_a_benchmark_is_not_cut() -> None:
    peers = dict.fromkeys(bench.COLOURS, bench.Timing(0.001, 0.1, 1e10, 0.5))
    result = bench.Result("HWC u8 × f32 → CHW f32", "layout", 1, "new", "short inner", 9, peers)
    console = Console(width=80)
    with console.capture() as captured:
        bench.print_results(console, [result], {1: {"copy": 1e10}})
    lines = captured.get().splitlines()
    assert result.case in lines[-1] and "…" not in captured.get()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(WRONG[name])
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == "" and len(printed.err.splitlines()) == 1
    assert printed.err.startswith("iterlab")


def test_an_interrupted_benchmark_keeps_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure(case: Case, form: str, settings: bench.Settings) -> bench.Result | None:
        if measured:
            raise KeyboardInterrupt
        measured.append(case.name)
        return measure_one(case, form, settings)

    measure_one = bench.measure
    monkeypatch.setattr(bench, "measure", measure)
    results, picture = tmp_path / "results.json", tmp_path / "picture.png"
    options = ["--quick", "--mb", "1", "--rounds", "1", "--threads", "1", "--case", "add"]
    assert main(["bench", *options, "--json", str(results), "--picture", str(picture)]) == 0
    assert [one["case"] for one in json.loads(results.read_text())["results"]] == measured
    assert picture.exists()


def test_the_overhead_names_the_stages_of_planning() -> None:
    plans = overhead.measure_plans(rounds=1)
    assert set(plans) == set(overhead.planned_calls())
    stages = {"broadcast", "dtypes", "layout", "overlap", "loop"}
    for name, times in plans.items():
        planned = set() if name == "contiguous" else stages
        assert set(times) == planned | {"plan", "iterlab.add", "torch.add"}
        assert 0 < times["plan"] < times["iterlab.add"]
