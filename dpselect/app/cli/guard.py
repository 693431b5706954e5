"""Common behavior of all commands: errors in one line with an exit status, and help with sections.

No line holds private data. Errors that may hold some are not printed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from accounting import AccountingError, RelationMismatch
from accounting.errors import (
    FIELD,
    CalibrationError,
    InvalidArgument,
    InvalidBudget,
    OutputRefused,
)
from accounting.wording import printable
from dpselect.errors import (
    NO_MEMORY,
    DomainMismatch,
    HorizonError,
    HorizonUnavailable,
    InvalidMechanism,
    InvalidRequest,
    Note,
    SensitivityMismatch,
    UncomposedLabels,
    is_memory_fault,
)

FAILED: Final = 1
USAGE: Final = 2
SPENT: Final = 3
HORIZON: Final = 4
EXPLAINED: Final = 5
INTERNAL: Final = 70
INTERRUPTED: Final = 130
TERMINATED: Final = 143

# Its tracebacks show local variables, and those are private data.
PLAIN: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
# the option that names a file of tables, and where the paths of its errors begin
CONFIG: Final = "config"
_MOST_USED: Final = "Most used"
_ALL: Final = "dpselect.all"  # of the context: --help-all was asked for
DEBUG: Final = "dpselect.debug"  # of the context: --debug was asked for, wherever it stands
_ASKED_WRONGLY = (
    CalibrationError,
    DomainMismatch,
    InvalidArgument,
    InvalidBudget,
    InvalidMechanism,
    InvalidRequest,
    OutputRefused,
    RelationMismatch,
    SensitivityMismatch,
)


# -- options that commands have beside the fields of their spec ------------------------------------


def _remember_debug(context: typer.Context, is_set: bool) -> bool:
    if is_set:
        context.meta[DEBUG] = True
    return is_set


def _show_all(context: typer.Context, is_set: bool) -> None:
    if is_set:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


output = partial(typer.Option, rich_help_panel="Output")

Debug = Annotated[
    bool,
    output(
        "--debug",
        callback=_remember_debug,
        is_eager=True,
        help="Show the traceback of an error. It may hold private data.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show all options.")
]
"""Flag of commands with many options, of which `--help` shows only the first section."""


# -- help and errors -------------------------------------------------------------------------------


class Terminated(KeyboardInterrupt):
    """An interruption by SIGTERM, before which a command reports its progress."""


class _WithExamples:
    """Help that ends with valid calls of the command.

    Lines have at most 76 characters, and a shell accepts them.
    """

    @property
    def examples(self) -> list[str]:
        """Calls below the command's own name.

        For a group, they are the first call of each of its first commands.
        """
        below = list(getattr(self, "commands", {}).items())[:3]
        firsts = [f"{name} {call}" for name, command in below for call in command.examples[:1]]
        return [*getattr(getattr(self, "callback", None), "examples", ()), *firsts]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        calls = (f"{ctx.command_path} {call}" for call in self.examples)
        wrapped = (
            textwrap.wrap(call, 72, break_long_words=False, break_on_hyphens=False)
            for call in calls
        )
        if lines := [line for parts in wrapped for line in " \\\n    ".join(parts).splitlines()]:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in lines))


class GuardedGroup(_WithExamples, TyperGroup):
    """Commands whose errors are one line on stderr, with tracebacks only for `--debug`."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        try:
            return super().make_context(*args, **settings)
        # of --help and --version, which are printed while options are read
        except OSError as error:
            if _is_closed_pipe(error):
                raise
            _leave(error, {})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A whole sentence per command, which typer's own list would cut off with dots."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, self.commands[name].get_short_help_str(1000))
                    for name in self.list_commands(ctx)
                ]
            )

    def invoke(self, ctx: Any) -> Any:
        def warn(message: Warning | str, *_: object, **__: object) -> None:
            text = spell_options(str(message), _options(self, ctx.invoked_subcommand))
            typer.echo(f"warning: {printable(text)}", err=True)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UncomposedLabels)
                warnings.showwarning = warn
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, Exception) and (
                ctx.meta.get(DEBUG) or _is_usage(error) or _is_closed_pipe(error)
            ):
                raise
            _leave(error, _options(self, ctx.invoked_subcommand))

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        settings["standalone_mode"] = False
        try:
            status = super().main(*args, **settings)
        except Exception as error:
            if not _is_usage(error):
                raise
            usage: Any = error
            message = printable(" ".join(usage.format_message().split()))
            context = getattr(usage, "ctx", None)
            path = "dpselect" if context is None else context.command_path
            for pattern, plain in _PLAINER:
                message = re.sub(pattern, plain, message)
            _complain(
                f"{message.rstrip('.')}{'' if message.endswith('?') else '.'} See '{path} --help'."
            )
            sys.exit(USAGE)
        sys.exit(status if isinstance(status, int) else 0)


class Option(NamedTuple):
    """An option as it is typed, True if it takes no value, and the flag that turns it off."""

    typed: str
    is_flag: bool = False
    off: str = ""


def spell_options(text: str, options: Mapping[str, Option]) -> str:
    """The text with fields (see `accounting.errors.FIELD`) replaced by the options' spelling."""

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name not in options:
            return match[0]
        if value == "False" and options[name].off:
            return options[name].off
        setting = "" if not value or (options[name].is_flag and value == "True") else f"={value}"
        return options[name].typed + setting

    return FIELD.sub(option, text)


def _options(group: Any, name: str | None) -> dict[str, Option]:
    """Options of the called command, by their names in messages."""
    return {
        key: Option(option.opts[0], getattr(option, "is_flag", False), *option.secondary_opts[:1])
        for option in getattr(group.commands.get(name), "params", ())
        if option.opts[0].startswith("--")
        for key in (option.name, option.opts[0][2:].replace("-", "_"))
    }


def _surface(error: AccountingError, options: Mapping[str, Option]) -> str:
    """An error's message in the words of the command.

    Its option comes first, unless the message names it.
    """
    message, first = printable(str(error)), options.get(str(next(iter(error.path), "")))
    if error.path[:1] != (CONFIG,):  # keys of a file are not options
        message = spell_options(message, options)
    return message if first is None or first.typed in message else f"{first.typed}: {message}"


def _leave(error: BaseException, options: Mapping[str, Option]) -> NoReturn:
    """Report an error in one line, and exit with its status."""
    message, status = _explain(error, options)
    # What the commands add; notes of anybody else may hold anything, and are not shown.
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Note)]
    _complain(": ".join([message, *(printable(spell_options(note, options)) for note in notes)]))
    _settle_output()
    raise typer.Exit(status) from None


def _explain(error: BaseException, options: Mapping[str, Option]) -> tuple[str, int]:
    """One line for an error, and the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return (
            ("terminated", TERMINATED)
            if isinstance(error, Terminated)
            else ("interrupted", INTERRUPTED)
        )
    if isinstance(error, AccountingError):
        # help, which fails at nothing, does without the curves that it brings
        from accounting import BudgetExceeded

        statuses = (
            (BudgetExceeded, SPENT),
            (HorizonUnavailable, FAILED),
            (HorizonError, HORIZON),
            (_ASKED_WRONGLY, USAGE),
            (AccountingError, FAILED),
        )
        return _surface(error, options), next(
            status for kind, status in statuses if isinstance(error, kind)
        )
    if is_memory_fault(error):
        return NO_MEMORY, FAILED
    kind = type(error).__name__
    if isinstance(error, OSError) and error.errno:
        # the system's words for a number, not the message with a file's name
        kind += f": {os.strerror(error.errno)}"
    return (
        (
            f"internal error ({kind}); its message may hold private data and is not shown. Run"
            " again with --debug, where nobody else can read the output"
        ),
        INTERNAL,
    )


class SectionedCommand(_WithExamples, TyperCommand):
    """A command whose help has options in sections (`rich_help_panel`), and ends with examples.

    Options without a section come first, and of many, `--help` shows only these. An option with one
    value cannot be given twice.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, parsed = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(
            option
            for option in parsed
            if option.param_type_name == "option" and not option.multiple
        ).items():
            if times > 1:
                ctx.fail(
                    f"{option.opts[0]} is given {times} times, but has one value. Give it once"
                )
        return list(super().parse_args(ctx, args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[Any]] = {}
        has_more = any(parameter.name == "help_all" for parameter in self.params)
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(
                    getattr(parameter, "rich_help_panel", None) or _MOST_USED, []
                ).append(record)
        if has_more and not ctx.meta.get(_ALL):
            sections = {_MOST_USED: sections[_MOST_USED]}
        for name, records in sections.items():
            with formatter.section(name if len(sections) > 1 else "Options"):
                formatter.write_dl(records)


def abandon_standard_output() -> None:
    """Replace standard output, so that Python does not report the same error again at the end."""
    stream = sys.__stdout__
    if stream is not None and sys.stdout is stream:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _settle_output() -> None:
    """Flush standard output, and drop output whose error was already reported."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        abandon_standard_output()


# What typer and pydantic say of an option, and how it is said here.
_PLAINER: Final = (
    (
        r"^Invalid value for '(-[^']*)': Value error, ('[^']*') is not one of ",
        r"\1=\2 is not one of ",
    ),
    (
        r"^Invalid value for '(-[^']*)': Input should be (.*?)(, unable to parse .*)?$",
        r"\1 must be \2",
    ),
)


def _complain(message: str) -> None:
    typer.echo(f"error: {message}", err=True)


def _is_usage(error: Exception) -> bool:
    # The class has moved between releases of typer; what it can do has not.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _is_closed_pipe(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE
