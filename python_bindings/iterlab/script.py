"""Profiles a script as `python SCRIPT ARGS` would run it."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from iterlab.profile import Profile
from iterlab.record import record

# What a shell gives for a program that was interrupted.
_INTERRUPTED = 130


def _exit_code(reason: object) -> int:
    if reason is None or isinstance(reason, int):
        return reason or 0
    print(reason, file=sys.stderr)
    return 1


def _print_traceback(error: Exception, script: str) -> None:
    """Print the traceback from the script's own frames on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def profile_script(
    script: str, arguments: Sequence[str] = (), all_threads: bool = False
) -> tuple[Profile, int]:
    """Run a script under the profiler: (its profile, its exit code). With `all_threads`, what other
    threads run counts too.

    It runs once, imports and first calls included. Where it raises, its traceback is printed, as
    Python would, and the profile is of what ran until then. Raises ValueError where there is no
    such file.
    """
    if not Path(script).is_file():
        raise ValueError(f"iterlab: expected a Python file, got '{script}'")
    code = 0

    def work() -> None:
        nonlocal code
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as leaving:
            code = _exit_code(leaving.code)
        except KeyboardInterrupt:
            code = _INTERRUPTED
        except Exception as error:
            code = 1
            _print_traceback(error, script)

    before = sys.argv, sys.path
    sys.argv = [script, *arguments]
    sys.path = [str(Path(script).resolve().parent), *sys.path]
    try:
        trace = record(work, all_threads)
    finally:
        sys.argv, sys.path = before
    return Profile(trace), code
