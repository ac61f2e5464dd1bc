"""The command line: `iterlab demo | explain | profile | bench | ops | doctor`."""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

import torch
from rich.console import Console

import iterlab
from iterlab import spec
from iterlab.planning import force_path
from iterlab.table import composite_table, op_table

MODES = ("none", "grad", "no_grad", "inference_mode", "autocast", "fake", "vmap")
NO_RUN = ("fake", "vmap")
PATHS = ("vectorized", "strided", "tiled", "generic")


_INDENT = " " * 28
_DTYPES = fill(" ".join(spec.DTYPES), 100, initial_indent=_INDENT, subsequent_indent=_INDENT)
_SPECS = f"""operands:
  f32[4096,4096]            dtype and shape; the dtypes are, by these or torch's names,
{_DTYPES}
  f32[4096,4096].t()        a view of it: .transpose(0,1) .permute(..) .expand(..) .channels_last()
  f32[64,64][:,::2]         .unsqueeze(0) .squeeze(0) .contiguous() .T .mT and slices
  f32[]                     a 0-d tensor
  2  1.5  True  1+2j        a number

examples:
  iterlab explain add 'f32[4096,4096]' 'bf16[4096,4096].t()' --run
  iterlab explain sum 'i8[8,64,128]' --dim 1 --dim 2
  iterlab explain div 'f32[64,64]' 'f32[64]' --arg rounding_mode=floor
  iterlab explain aten::add 'f32[64,64]' 'f32[64]' --mode inference_mode --json
"""


class _Parser(argparse.ArgumentParser):
    """Reports wrong input in one line and exits 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _value(text: str) -> Any:
    """Read the value of an argument: one that Python can spell, a number such as inf, a dtype, a
    memory format, or text.
    """
    for read in (ast.literal_eval, float, spec.dtype):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            pass
    found = getattr(torch, text.removeprefix("torch."), None)
    return found if isinstance(found, torch.memory_format) else text


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
        arguments["dim"] = options.dim[0] if len(options.dim) == 1 else options.dim
    if options.keepdim:
        arguments["keepdim"] = True
    return arguments


def _operands(options: argparse.Namespace) -> list[spec.Operand]:
    """Make the operands, and at the end the output where one is given; without data where it does
    not fit into memory and is not needed.
    """
    texts = [*options.operands, *([] if options.out is None else [options.out])]
    try:
        return [spec.parse(text, filled=options.run) for text in texts]
    except spec.TooLarge:
        if options.run:
            raise
        operands = [spec.parse(text, device="meta") for text in texts]
        print("iterlab: too large for memory: explained without data, on meta", file=sys.stderr)
        return operands


def explain(options: argparse.Namespace) -> None:
    """Print what a call on operands written as specs does."""
    from iterlab.explain import explain as explain_call
    from iterlab.modes import call_in

    operands, arguments = _operands(options), _call_arguments(options)
    if options.out is not None:
        arguments["out"] = operands.pop()
        if not isinstance(arguments["out"], torch.Tensor):
            raise ValueError(f"iterlab: expected a tensor as --out, got '{options.out}'")
    if options.run and options.mode in NO_RUN:
        raise ValueError(f"iterlab: expected --run in a mode that computes, got {options.mode}")
    with force_path(options.path) if options.path else nullcontext():
        explanation = call_in(
            options.mode,
            lambda *given: explain_call(options.op, *given, run=options.run, **arguments),
            operands,
        )
    plans = [explanation.plan, *(one.plan for one in explanation.calls)]
    if options.path and not any(isinstance(one, iterlab.Plan) for one in plans):
        raise ValueError(
            "iterlab: expected one of iterlab's own elementwise operators with --path, "
            f"got '{options.op}'"
        )
    _write_page(options, explanation)
    if options.json or options.html is None:
        _print(options, explanation)


def _write_page(options: argparse.Namespace, result: Any) -> None:
    """Write a result as an HTML page where the options ask for one."""
    if options.html is not None:
        Path(options.html).write_text(result.html_page(), encoding="utf-8")
        print(f"wrote {options.html}", file=sys.stderr)


def _print(options: argparse.Namespace, result: Any) -> None:
    """Print a result as JSON, or as text."""
    if options.json:
        print(json.dumps(result.to_dict(), indent=2, default=str))
    else:
        console().print(result) if sys.stdout.isatty() else print(result)


def profile(options: argparse.Namespace) -> int:
    """Run a script under the profiler; print the tree and what to look at."""
    from iterlab.script import profile_script

    # What the script prints must not stand between the JSON.
    with redirect_stdout(sys.stderr) if options.json else nullcontext():
        result, code = profile_script(options.script, options.arguments, options.all_threads)
    if options.trace is not None:
        result.save_chrome_trace(options.trace)
        print(f"wrote {options.trace}", file=sys.stderr)
    _write_page(options, result)
    _print(options, result)
    return code


def console() -> Console:
    """Give a console with colour on a terminal, and wide plain text where output is piped. Text in
    brackets, such as x[1:] or [tiled], is text.
    """
    return (
        Console(highlight=False, markup=False)
        if sys.stdout.isatty()
        else Console(highlight=False, markup=False, width=150, color_system=None)
    )


def show(renderable: Any) -> None:
    """Print in colour on a terminal, and where output is piped as plain text: no blanks at ends."""
    if sys.stdout.isatty():
        console().print(renderable)
        return
    plain = console()
    with plain.capture() as captured:
        plain.print(renderable)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def ops(options: argparse.Namespace) -> None:
    """Print the operators of this build."""
    from iterlab import operators_page

    if options.markdown:
        print(operators_page.markdown(), end="")
    elif options.json:
        entries = [vars(one) | {"calls": operators_page.calls(one)} for one in op_table()]
        entries += [vars(one) | {"calls": [one.call]} for one in composite_table()]
        print(json.dumps(entries, indent=2, default=vars))
    else:
        show(operators_page.table())


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
    from iterlab.doctor import findings, table

    found = findings()
    if options.json:
        print(json.dumps([vars(finding) for finding in found], indent=2))
    else:
        show(table(found))
    return int(any(finding.state == "bad" for finding in found))


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="say which loop a call gets, and why",
        description="Say which layers of the dispatcher a call meets, which loop it gets, and why.",
        epilog=_SPECS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "op",
        metavar="OP",
        help="an operator: add, add_, sum ... (`iterlab ops` lists them), or torch's: aten::add",
    )
    parser.add_argument(
        "operands", metavar="SPEC", nargs="+", help="an operand: 'f32[4096,4096].t()', or a number"
    )
    parser.add_argument("--out", metavar="SPEC", help="the output given as out=")
    parser.add_argument("--dim", type=int, action="append", help="a dim to reduce; may be repeated")
    parser.add_argument("--keepdim", action="store_true", help="keep reduced dims with size 1")
    parser.add_argument("--dtype", help="the dtype argument: f32, bf16 ...")
    parser.add_argument(
        "--arg",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="another argument: alpha=2, rounding_mode=floor, memory_format=channels_last",
    )
    parser.add_argument("--mode", choices=MODES, default="none", help="explain it in this mode")
    parser.add_argument("--run", action="store_true", help="run the call and measure it, too")
    parser.add_argument("--path", choices=PATHS, help="force this path of iterlab's operator")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page that opens from disk")
    parser.set_defaults(run_command=explain)


def _add_profile(commands: Any) -> None:
    parser = commands.add_parser(
        "profile",
        help="run a script: its lines, operators and kernels as one tree",
        description="Run a script under the profiler: hidden copies, slow paths, gaps and graph "
        "breaks, each with its line, and a tree from Python lines to kernels. Options of iterlab "
        "stand before SCRIPT, the script's own after it. A few steps of a training run tell as "
        "much as all: torch's profiler keeps some 25 kB of memory for each operator that runs.",
    )
    parser.add_argument("--html", metavar="FILE", help="write a report that opens from disk, too")
    parser.add_argument("--trace", metavar="FILE", help="write a chrome trace (JSON)")
    parser.add_argument(
        "--json", action="store_true", help="print JSON; what the script prints goes to stderr"
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python file")
    parser.add_argument(
        "--all-threads",
        action="store_true",
        help="what other threads run counts too; repeated copies are not found then",
    )
    script_arguments = parser.add_argument(
        "arguments", metavar="ARG", nargs=argparse.REMAINDER, help="the script's arguments"
    )
    script_arguments.required = False  # as Python before 3.12 takes it to be
    parser.set_defaults(run_command=profile)


def _add_bench(commands: Any) -> None:
    parser = commands.add_parser(
        "bench", help="share of the memory rate by operator, layout and dtype"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="16 MB operands, few rounds, no compiled peers; the list of operators once",
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
    parser.set_defaults(run_command=bench)


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    top = _Parser(
        prog="iterlab", description="Elementwise and reduction operators for PyTorch, explained."
    )
    top.add_argument("--version", action="version", version=f"iterlab {iterlab.__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    show = commands.add_parser("demo", help="the tour, in about a minute")
    show.add_argument(
        "--picture", metavar="FILE", default="iterlab-demo.png", help="where the picture goes"
    )
    show.set_defaults(run_command=demo)
    _add_explain(commands)
    _add_profile(commands)
    _add_bench(commands)
    listing = commands.add_parser("ops", help="list the operators")
    listing.add_argument("--markdown", action="store_true", help="print docs/operators.md")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run_command=ops)
    check = commands.add_parser("doctor", help="what works here, and what to do about the rest")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run_command=doctor)
    return top


def _check_folders(options: argparse.Namespace) -> None:
    """Refuse files that cannot be written before anything runs."""
    for name in ("html", "trace", "picture", "json"):
        path = getattr(options, name, None)
        if isinstance(path, str) and not Path(path).resolve().parent.is_dir():
            raise ValueError(f"iterlab: expected a folder that exists for --{name}, got '{path}'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 2 for wrong input, with one line that says what was expected."""
    options = parser().parse_args(arguments)
    try:
        _check_folders(options)
        return options.run_command(options) or 0
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(f"iterlab: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, RuntimeError, NotImplementedError, IndexError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return 2
