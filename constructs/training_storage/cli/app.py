"""The command ``training-storage``: imports a command when it is called, and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from training_storage.cli.report import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, report, report_bug, report_usage
from training_storage.errors import TrainingStorageError

if TYPE_CHECKING:
    from typer.models import Context

PROGRAM: Final = "training-storage"

COMMANDS: Final[tuple[str, ...]] = ("validate", "plan", "preload", "emulate")
"""Commands in the order of the help. Each is a module of this package with a function of the same name, a text
``EXAMPLE`` for the end of its help, and, where it needs one, a mapping ``SETTINGS`` for the context of the parser."""


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when that command is asked for, and no other."""

    def list_commands(self, ctx: Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Return one command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"training_storage.cli.{cmd_name}")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, epilog=module.EXAMPLE, context_settings=getattr(module, "SETTINGS", None))(
            getattr(module, cmd_name)
        )
        return typer.main.get_command(single)


app = typer.Typer(
    name=PROGRAM,
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: training-storage plan examples/llama3-70b.yaml",
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Describe a GPU training workload, and get the AWS storage that keeps its GPUs busy.

    Deploying is `cdk deploy --all -c workload=FILE`. Exit codes: 0 done; 1 done, and the answer is no; 2 bad usage or
    bad input; 3 AWS refused or failed; 70 a mistake of this program.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing is raised.

    Args:
        arguments: What follows the program's name. Left out: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = _wants_json(given)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _run(given)
        sys.stdout.flush()
    except TrainingStorageError as error:
        return report(error, as_json=as_json)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return report_usage(error, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output once more at exit; it may not fail there either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:
        return report_bug(error, as_json=as_json)
    return code


def _run(arguments: list[str]) -> int:
    group = typer.main.get_command(app)
    try:
        with group.make_context(PROGRAM, arguments) as context:
            answer = group.invoke(context)
    except typer.Exit as done:
        return int(done.exit_code)
    return answer if isinstance(answer, int) and not isinstance(answer, bool) else 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors belong on standard output too; read here because bad usage is no parsed command."""
    own = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    return "--format=json" in own or ("--format", "json") in pairwise(own)
