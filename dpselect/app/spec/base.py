"""`Spec`, the base class of questions, whose fields are command options, file keys and keywords.

A spec is public configuration and holds no data. Its validators find contradictions between fields,
and their messages name a field as Python does, `clip=`. A command shows its own spelling
(`cli.from_model`).
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections.abc import Callable, Collection, Mapping
from os import PathLike
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from accounting.address import Address, hide_password, hide_passwords
from accounting.arguments import quote_setting
from accounting.errors import locate_errors
from accounting.frozen import Frozen, PlainType, plain
from dpselect.errors import InvalidRequest

LOG, URL = "events.csv --user who --item shop", "--ledger sqlite:///privacy.db"
PAYS = f"{URL} --dataset visits"
"""A log, a ledger and the dataset to charge, for examples."""
LEDGER = "path or URL of a SQLite file, or postgresql://USER@HOST/NAME"
"""How a ledger is named, for help."""

F = TypeVar("F", bound=Callable[..., Any])
Column = str | int
"""A column by its name, or by its number from 1 if there are no names."""


def _flag(value: object) -> object:
    """Refuse 1 or "yes" in place of a boolean, because a declaration must be explicit."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


class Contradiction(ValueError):
    """A field that contradicts others, raised by a validator of a spec.

    Args:
        field: name of the field.
        rule: the rule and the remedy, as the end of a sentence that begins with the field.
        value: text that was stated for the field.
    """

    def __init__(self, field: str, rule: str, value: str | None = None) -> None:
        super().__init__(f"{field}={'' if value is None else repr(value)} {rule}")


Flag = Annotated[bool, BeforeValidator(_flag)]
Seed = Annotated[int, Field(ge=0, strict=True)]


def option(
    description: str,
    section: str | None = None,
    default: Any = None,
    *,
    place: int = 1000,
    metavar: str | None = None,
    flags: str | None = None,
    env: str | None = None,
    parse: Callable[[Any], Any] | None = None,
    many: bool = False,
    ge: float | None = None,
    rows: bool | None = None,
    unasked: str | None = None,
) -> Any:
    """A field of a spec, with its help, the section of the help, and its form as text.

    Args:
        section: section of the help. None: the first, with what most people need, which `--help`
            shows alone if a command has many options.
        place: rank in that first section; the option needed first has the least number.
        flags: flags of the command if they are not `--name`: several between spaces, a flag that
            turns another off behind a slash.
        env: environment variable that a command reads it from.
        parse: converter of a command's or a file's text to the value; None for the text itself, or
            a number.
        many: True if a command takes it several times.
        ge: the least number.
        rows: False if rows are read, bounded and counted alike whatever the field states; None: so
            if it is `unasked`. Every other field has its place in tests/dpselect/test_boundary.py.
        unasked: reason why the field is no part of the question, so that it does not decide which
            answer is drawn. None: it is a part.
    """
    metadata: Any = {
        "section": section,
        "place": place,
        "metavar": metavar,
        "flags": flags,
        "env": env,
        "parse": parse,
        "many": many,
    }
    metadata |= {"rows": unasked is None if rows is None else rows, "unasked": unasked}
    return Field(default=default, description=description, json_schema_extra=metadata, ge=ge)


class Spec(Frozen):
    """Base of all specs."""

    error_class: ClassVar[Any] = InvalidRequest  # also where a mixin has another
    own_fields: ClassVar[tuple[Any, ...]] = ()
    """Mixins whose fields belong, in a file's tables, to this question alone."""

    examples: ClassVar[tuple[str, ...]] = ()
    """Calls of the command, without its name, that end its help."""

    for_all_releases: ClassVar[bool] = False
    """True if the spec uses a file's budget of all planned releases together."""

    @classmethod
    def _own_error(cls, data: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(data)
        except ValidationError as error:
            detail, *rest = error.errors(include_url=False)  # the first field that is wrong
        name, rule = str(next(iter(detail["loc"]), "")), detail["msg"].removeprefix("Value error, ")
        if not name:
            raise cls.error_class(rule)
        fields = {field.alias or own: field for own, field in cls.model_fields.items()}
        if name not in fields:
            raise cls.error_class(f"{name}= is not known here: there are {', '.join(fields)}")
        words = fields[name].description or ""
        if detail["type"] == "missing":
            raise cls.error_class(f"{name}= is missing: {words[:1].lower()}{words[1:].rstrip('.')}")
        matching = [
            problem["msg"]
            for problem in rest
            if problem["loc"][:1] == detail["loc"][:1] and problem["type"] == "literal_error"
        ]
        # of a number, or a word
        rule = " or ".join(text.removeprefix("Input should be ") for text in (rule, *matching))
        raise cls.error_class(f"{name}={quote_setting(detail['input'])} must be {rule} ({words})")

    @field_validator("*", mode="wrap")
    @classmethod
    def _says_where(cls, value: Any, validate: Callable[[Any], Any], about: ValidationInfo) -> Any:
        """Add the field's name to errors of nested values."""
        with locate_errors(
            cls.model_fields[about.field_name or ""].alias or about.field_name or ""
        ):
            return validate(value)

    @field_validator("ledger", mode="wrap", check_fields=False)
    @classmethod
    def _hides_its_password(cls, value: Any, validate: Callable[[Any], Any]) -> Any:
        """Hide a password in a URL.

        A spec is printed, kept with an answer and written as JSON. Opening the ledger asks for the
        password again.
        """
        address = value if isinstance(value, Address) else validate(value)
        return hide_password(address) if isinstance(address, str) else address

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            masked = hide_passwords(value) if isinstance(value, str | PathLike) else value
            yield name, value if masked == str(value) else masked

    @classmethod
    def merge(cls, file: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """The spec of a file's values, with the stated values in their place."""
        return cls(**{**file, **overrides})

    @classmethod
    def option_metadata(cls, name: str, what: str) -> Any:
        """Metadata of a field, as given to `option`.

        Args:
            name: name of the field.
            what: section, place, metavar, flags, env, parse, many, rows or unasked.
        """
        extra = cls.model_fields[name].json_schema_extra
        return (extra if isinstance(extra, Mapping) else _UNSAID)[what]

    @classmethod
    def unasked_fields(cls) -> dict[str, str]:
        """Fields that are no part of the question, each with the reason."""
        return {
            name: why
            for name in cls.model_fields
            if (why := cls.option_metadata(name, "unasked")) is not None
        }

    def question(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """The question as plain data: fields that are not `unasked` and not at their defaults.

        Args:
            without: fields that the caller states in another form, such as the budget.
        """
        included = type(self).model_fields.keys() - type(self).unasked_fields() - set(without)
        return self.model_dump(mode="json", include=included, exclude_defaults=True, warnings=False)

    def fields(self) -> dict[str, Any]:
        """All fields as keywords of the function behind a command."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def stated_values(self, *names: str) -> dict[str, Any]:
        """The named fields that are stated, by name. A stated number may be 0."""
        values = {name: getattr(self, name) for name in names}
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False and value != ()
        }


# Of fields that are those of `events.file_options`.
_UNSAID: Mapping[str, Any] = {
    "section": "Reading the log",
    "place": 1000,
    **dict.fromkeys(("metavar", "flags", "env", "parse", "unasked")),
    "many": False,
    "rows": True,
}


def option_type(annotation: Any) -> Any:
    """Type of a field on a command line: text, or the field's only other type."""
    if get_origin(annotation) is Annotated:
        return option_type(get_args(annotation)[0])
    if annotation is Any:
        return str
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    members = [option_type(member) for member in get_args(annotation) if member is not type(None)]
    return str if str in members else members[0]


# Sections of the help that several specs have, and those that come last.
_SECTIONS = (None, "Question", "Privacy", "Items", "Bounds on users", "Groups", "Time", "Ledger")
_LAST = ("Reading the log", "Output")


def order_fields(spec: type[Spec]) -> list[str]:
    """Return the names of the fields in the order in which people need them.

    The first section comes first, then those that only this spec has, then those of several specs,
    and how files are read and written comes last.
    """
    section = {name: spec.option_metadata(name, "section") for name in spec.model_fields}
    own = [title for title in dict.fromkeys(section.values()) if title not in (*_SECTIONS, *_LAST)]
    sections = (_SECTIONS[0], *own, *_SECTIONS[1:], *_LAST)
    return sorted(
        section,
        key=lambda name: (sections.index(section[name]), spec.option_metadata(name, "place")),
    )


def keywords(spec: type[Spec]) -> list[inspect.Parameter]:
    """Return the fields of a spec as keywords of a function, in the order of `order_fields`."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.default,
            annotation=PlainType(plain(field.annotation)),
        )
        for name, field in ((name, spec.model_fields[name]) for name in order_fields(spec))
    ]


_FIELDS = re.compile(r"^( *)fields: .*\n(?:\1 +.*\n)*", flags=re.MULTILINE)


def takes_fields_of(spec: type[Spec]) -> Callable[[F], F]:
    """Return a decorator of functions that take the fields of a spec as `**fields`.

    The signature of the function then names the fields, and so does its docstring, in place of its
    entry `fields:`. A parameter of its own that is called like a field has the field's type.
    """

    def with_signature(function: F) -> F:
        whole = inspect.signature(function)
        fields = {parameter.name: parameter for parameter in keywords(spec)}
        own = [
            parameter.replace(
                annotation=fields.pop(parameter.name).annotation
                if parameter.name in fields
                else PlainType(parameter.annotation)
            )
            for parameter in whole.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        first = [parameter for parameter in own if parameter.kind is not parameter.KEYWORD_ONLY]
        last = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*first, *fields.values(), *last], return_annotation=PlainType(whole.return_annotation)
        )
        if function.__doc__ is not None:  # which python -OO makes it
            function.__doc__ = _FIELDS.sub(lambda entry: _entries(spec, entry[1]), function.__doc__)
        return function

    return with_signature


def _entries(spec: type[Spec], indent: str) -> str:
    """The fields as entries of the section `Args:` of a docstring."""
    return "".join(
        textwrap.fill(
            f"{name}: {spec.model_fields[name].description}",
            100,
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for name in order_fields(spec)
    )
