"""The command line: `iterlab demo | explain | bench | ops | doctor`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import torch
from rich.console import Console

from iterlab import spec
from iterlab.planning import force_path
from iterlab.table import op_table

PATHS = ("vectorized", "strided", "tiled", "generic")


class _Parser(argparse.ArgumentParser):
    """Reports wrong input in one line and exits 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _value(text: str) -> Any:
    """Read the value of an argument: a number, a dtype, or text."""
    try:
        return spec.dtype(text)
    except ValueError:
        pass
    value = spec.parse(text)
    if not isinstance(value, bool | int | float | complex):
        raise ValueError(f"iterlab: expected a number or a dtype, got '{text}'")
    return value


def _call_arguments(options: argparse.Namespace) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for pair in options.arg:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"iterlab: expected --arg NAME=VALUE, got '{pair}'")
        arguments[name] = _value(text)
    if options.dtype is not None:
        arguments["dtype"] = spec.dtype(options.dtype)
    if options.dim:
        arguments["dim"] = options.dim
    if options.keepdim:
        arguments["keepdim"] = True
    return arguments


def explain(options: argparse.Namespace) -> None:
    """Print the plan of a call on operands written as specs."""
    from iterlab.explain import explain as explain_call

    operands = [spec.parse(text, "meta") for text in options.operands]
    out = None if options.out is None else spec.parse(options.out, "meta")
    if not isinstance(out, torch.Tensor | None):
        raise ValueError(f"iterlab: expected a tensor as --out, got '{options.out}'")
    with force_path(options.path) if options.path else nullcontext():
        explanation = explain_call(options.op, *operands, out=out, **_call_arguments(options))
    if options.html is not None:
        Path(options.html).write_text(explanation.html_page(), encoding="utf-8")
        print(f"wrote {options.html}", file=sys.stderr)
    if options.json:
        print(json.dumps(explanation.to_dict(), indent=2))
    elif options.html is None:
        console().print(explanation if sys.stdout.isatty() else str(explanation))


def console() -> Console:
    """Give a console with colour on a terminal, and wide plain text where output is piped."""
    return (
        Console(highlight=False)
        if sys.stdout.isatty()
        else Console(highlight=False, width=150, color_system=None)
    )


def ops(options: argparse.Namespace) -> None:
    """Print the operators of this build."""
    from iterlab import operators_page

    if options.markdown:
        print(operators_page.markdown(), end="")
    elif options.json:
        print(json.dumps([vars(entry) for entry in op_table()], indent=2, default=vars))
    else:
        console().print(operators_page.table())


def demo(options: argparse.Namespace) -> None:
    """Show what iterlab does on a photograph and on a language model's sizes."""
    from iterlab.demo import run

    run(console(), Path(options.picture))


def bench(options: argparse.Namespace) -> None:
    """Measure the table of cases, or the overhead of a call."""
    from iterlab import bench as benchmark

    benchmark.run(console(), options)


def doctor(options: argparse.Namespace) -> int:
    """Say what this installation is, what works, and what to do about what does not."""
    from iterlab.doctor import report

    return report(console())


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help="say which loop a call gets, and why")
    parser.add_argument(
        "op", metavar="OP", help="an operator: add, add_, sum ... (`iterlab ops` lists them)"
    )
    parser.add_argument(
        "operands", metavar="SPEC", nargs="+", help="an operand: 'f32[4096,4096].t()', or a number"
    )
    parser.add_argument("--out", metavar="SPEC", help="the output given as out=")
    parser.add_argument("--dim", type=int, action="append", help="a dim to reduce; may be repeated")
    parser.add_argument("--keepdim", action="store_true", help="keep reduced dims with size 1")
    parser.add_argument("--dtype", help="the dtype argument: f32, bf16 ...")
    parser.add_argument(
        "--arg", metavar="NAME=VALUE", action="append", default=[], help="another argument: alpha=2"
    )
    parser.add_argument("--path", choices=PATHS, help="force this path")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page that opens from disk")
    parser.set_defaults(run=explain)


def _add_bench(commands: Any) -> None:
    parser = commands.add_parser(
        "bench", help="share of the memory rate by operator, layout and dtype"
    )
    parser.add_argument(
        "--quick", action="store_true", help="16 MB operands, few rounds, no compiled peers"
    )
    parser.add_argument(
        "--case", action="append", metavar="TEXT", help="only cases whose name contains TEXT"
    )
    parser.add_argument(
        "--mb", type=int, metavar="MB", help="size of a float32 operand (64; 16 with --quick)"
    )
    parser.add_argument(
        "--threads", type=int, action="append", metavar="N", help="number of threads (1 and all)"
    )
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="rounds of interleaved peers (7; 5 with --quick)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    parser.add_argument(
        "--picture", metavar="FILE", default="iterlab-bench.png", help="where the picture goes"
    )
    parser.add_argument(
        "--overhead", action="store_true", help="nanoseconds a call on 16 elements instead"
    )
    parser.set_defaults(run=bench)


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    top = _Parser(
        prog="iterlab", description="Elementwise and reduction operators for PyTorch, explained."
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    show = commands.add_parser("demo", help="the tour, in about a minute")
    show.add_argument(
        "--picture", metavar="FILE", default="iterlab-demo.png", help="where the picture goes"
    )
    show.set_defaults(run=demo)
    _add_explain(commands)
    _add_bench(commands)
    listing = commands.add_parser("ops", help="list the operators")
    listing.add_argument("--markdown", action="store_true", help="print docs/operators.md")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=ops)
    commands.add_parser(
        "doctor", help="what works here, and what to do about the rest"
    ).set_defaults(run=doctor)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 2 for wrong input, with one line that says what was expected."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except (ValueError, TypeError, RuntimeError, NotImplementedError, IndexError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
