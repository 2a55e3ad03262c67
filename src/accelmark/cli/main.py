"""The command `accelmark`. Importing it is cheap: each verb imports what it needs when it runs."""

from __future__ import annotations

import io
import sys

import typer

from accelmark.cli.audit import audit
from accelmark.cli.ceiling import ceiling
from accelmark.cli.choose import choose
from accelmark.cli.compare import compare
from accelmark.cli.doctor import doctor
from accelmark.cli.import_ import import_
from accelmark.cli.list import list_
from accelmark.cli.report import report
from accelmark.cli.reproduce import reproduce
from accelmark.cli.run import run
from accelmark.cli.show import show
from accelmark.errors import EXIT_INTERRUPTED, AccelmarkError
from accelmark.text import safe

app = typer.Typer(
    name="accelmark",
    help="Measure deep-learning performance, say how sure each number is, and compare it with others.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("show")(show)
app.command("list")(list_)
app.command("compare")(compare)
app.command("import")(import_)
app.command("reproduce")(reproduce)
app.command("report")(report)
app.command("audit")(audit)
app.command("choose")(choose)
app.command("ceiling")(ceiling)
app.command("doctor")(doctor)


def _version(wanted: bool) -> None:
    if wanted:
        from accelmark import __version__

        print(f"accelmark {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Measure deep-learning performance, say how sure each number is, and compare it with others."""


def main() -> None:
    """Run the command line; an error of the user's becomes one sentence and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show ± gets \\xb1, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except AccelmarkError as error:
        print(f"accelmark: {safe_message(error)}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("accelmark: interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of the pipe has had enough; Python would complain once more when it closes stdout.
        sys.stderr.close()
        raise SystemExit(0) from None


def safe_message(error: AccelmarkError) -> str:
    """The error's sentence, line by line harmless for a terminal."""
    return "\n".join(safe(line) for line in str(error).splitlines())


if __name__ == "__main__":
    main()
