"""`FileOptions`, the fields that describe a file or database and its labels, as a base model."""

from __future__ import annotations

import codecs
import re
import unicodedata
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypedDict, get_args

from pydantic import Field, SkipValidation, model_validator

from accounting.frozen import Frozen
from dpselect.errors import EventLogError

Format = Literal["auto", "csv", "tsv", "jsonl", "parquet", "xlsx"]
"""Values of `format=`: the name of a format, or "auto" to infer it from the file's name."""
Form = Literal["nfc", "nfkc", "casefold", "strip"]
"""Normal forms that `normalize=` can apply to text labels before they are compared."""
_MOST_BYTES = 4  # of a delimiter, as the engine has it
_MOST_TEXT = 100
# Encodings in which what stands on one line may change, or join, the lines after it.
_WITH_MEMORY = re.compile(
    r"hz|utf-7|idna|punycode|undefined|(raw[-_])?unicode[-_]escape|iso2022[-_].*"
)


class FileOptions(Frozen, ABC):
    """Options to read a file or a database and to write its labels, for a log or a public list.

    Some rules are not in the fields' own descriptions. Times of a `time_format` are clock times,
    and an event whose time has another format counts as an event without a time, because the caller
    chooses the format. `header=None` expects a header unless all columns are positions. `delimiter`
    has at most 4 bytes. None is "," in CSV and a tab in TSV, but if a CSV header has the stated
    names only under one of ";", tab, "|" and "::", it is that one. `missing` describes the file, as
    `encoding` does, and holds in every column. `null` is a choice among labels, and among the
    values that conditions look at, so a number or a time that it names stays one. `normalize` is
    applied in the stated order to users, items and groups that are text, and text that is then
    empty is missing.
    """

    error_class: ClassVar[type[EventLogError]] = EventLogError

    format: SkipValidation[Format] = Field(
        default="auto", description="Format of a file. Default: by its name."
    )
    header: SkipValidation[bool | None] = Field(
        default=None,
        description="Read the first line of delimited text (CSV, TSV) as names, or as data.",
    )
    delimiter: SkipValidation[str | None] = Field(
        default=None,
        description=(
            "Delimiter of fields of CSV, such as ';' or '::'. Default: found in the header if it is"
            " unambiguous."
        ),
    )
    quote: SkipValidation[str | None] = Field(
        default=None, description="Quote character of fields of CSV; '' for none."
    )
    escape: SkipValidation[str | None] = Field(
        default=None,
        description="Escape character within quoted fields of CSV: '\\', as Spark writes it.",
    )
    comment: SkipValidation[str | None] = Field(
        default=None,
        description="Leave out lines of CSV and TSV that begin with this character, such as '#'.",
    )
    encoding: SkipValidation[str | None] = Field(
        default=None, description="Encoding of text in a file, such as cp1252 or utf-16."
    )
    decimal: SkipValidation[str] = Field(
        default=".",
        description=(
            "Decimal point of numbers in CSV and TSV: '.', or ',' if points group digits"
            " (1.234,50)."
        ),
    )
    time_format: SkipValidation[str | None] = Field(
        default=None,
        description=(
            "Format of times that are text: '%d.%m.%Y' for 29.06.2026, or '%m/%d/%Y %H:%M'."
            " Default: ISO 8601."
        ),
    )
    missing: SkipValidation[tuple[str, ...]] = Field(
        default=(),
        description=(
            "Text that stands for a missing value in any column (NULL, \\N). May be repeated."
        ),
    )
    null: SkipValidation[tuple[str, ...]] = Field(
        default=(),
        description="Label to leave out as if it were missing (unknown). May be repeated.",
    )
    split: SkipValidation[str | None] = Field(
        default=None,
        description="Separator of several items in one field. Each item is an event of its own.",
    )
    normalize: SkipValidation[tuple[Form, ...]] = Field(
        default=(),
        description=(
            "Form in which labels are compared and released: nfc or nfkc (Unicode form), casefold"
            " (letter case), strip (spaces at both ends). May be repeated."
        ),
    )
    table: SkipValidation[str | None] = Field(default=None, description="Table of a database.")
    query: SkipValidation[str | None] = Field(default=None, description="SQL query of a database.")

    @model_validator(mode="before")
    @classmethod
    def _texts(cls, data: Any) -> Any:
        """A single text, or a sequence of texts, as a tuple."""
        if not isinstance(data, dict):
            return data
        fields = dict(data)
        for name in ("missing", "null", "normalize"):
            if isinstance(fields.get(name), str):
                fields[name] = (fields[name],)
            elif isinstance(fields.get(name), Sequence):
                fields[name] = tuple(fields[name])
            elif name in fields and fields[name] is None:
                fields[name] = ()
        if fields.get("delimiter") == "\\t":
            fields["delimiter"] = "\t"
        return fields

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        if self.header is not None and not isinstance(self.header, bool):
            raise EventLogError(f"header={self.header!r} must be True, False or None")
        for name, value in (("delimiter", self.delimiter), ("split", self.split)):
            if value is not None and not (isinstance(value, str) and 0 < len(value) <= _MOST_TEXT):
                raise EventLogError(
                    f"{name}={value!r} must be text of 1 to {_MOST_TEXT} characters, or None"
                )
        if self.delimiter is not None and (
            len(self.delimiter.encode()) > _MOST_BYTES or re.search(r'["\r\n]', self.delimiter)
        ):
            raise EventLogError(
                f"delimiter={self.delimiter!r} must be at most {_MOST_BYTES} bytes, without a quote"
                " or a line end"
            )
        if self.quote is not None and not (
            isinstance(self.quote, str) and re.fullmatch(r"[!-~]?", self.quote)
        ):
            raise EventLogError(f"quote={self.quote!r} must be one ASCII character, or '' for none")
        if self.quote and self.delimiter is not None and self.quote in self.delimiter:
            raise EventLogError(
                f"quote={self.quote!r} is part of delimiter={self.delimiter!r}. State another one,"
                " or '' for none"
            )
        if self.escape not in (None, "\\"):
            raise EventLogError(
                f"escape={self.escape!r} must be '\\', or None where a quote is doubled"
            )
        if self.comment is not None and not (
            isinstance(self.comment, str) and re.fullmatch(r"[!#-/:-@[-`{-~]", self.comment)
        ):
            raise EventLogError(
                f"comment={self.comment!r} must be one ASCII character that is no letter,"
                " digit, space or double quote"
            )
        if self.comment is not None and self.escape is not None:
            raise EventLogError(
                "comment= does not go with escape=. Remove the comment lines from the file"
            )
        if self.decimal not in (".", ","):
            raise EventLogError(f"decimal={self.decimal!r} must be '.' or ','")
        if self.time_format is not None and not (
            isinstance(self.time_format, str)
            and re.fullmatch(r"(?:[^%]|%-?[dmYyHMSfIpjbB])+", self.time_format)
            and all(
                re.search(part, self.time_format) for part in ("%[Yy]", "%-?d|%j", "%-?m|%[bBj]")
            )
        ):
            raise EventLogError(
                f"time_format={self.time_format!r} must name a year, a month and a day, as in"
                " '%d.%m.%Y' or '%m/%d/%y %H:%M', with %Y %y %m %b %d %j %H %I %p %M %S %f"
            )
        if self.encoding is not None:
            try:
                codec = codecs.lookup(self.encoding) if isinstance(self.encoding, str) else None
            except (LookupError, ValueError):
                codec = None
            if codec is None or not codec._is_text_encoding:
                raise EventLogError(
                    f"encoding={self.encoding!r} is not known. Name one as Python does, such as"
                    " 'cp1252', 'latin-1' or 'utf-16'"
                )
            if _WITH_MEMORY.fullmatch(codec.name):
                raise EventLogError(
                    f"encoding={self.encoding!r} is not read: in it one row can decide how the next"
                    " is read. Convert the file to UTF-8"
                )
        for name, texts in (("missing", self.missing), ("null", self.null)):
            if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
                raise EventLogError(
                    f"{name}={texts!r} must be texts that stand for a missing label"
                )
        if not isinstance(self.normalize, tuple) or not set(self.normalize) <= set(get_args(Form)):
            forms = ", ".join(get_args(Form))
            raise EventLogError(
                f"normalize={self.normalize!r} must be some of {forms}: what is done to labels"
                " before they compare"
            )
        if {"nfc", "nfkc"} <= set(self.normalize):
            raise EventLogError(
                "normalize= names nfc and nfkc, which contains it. State nfkc alone"
            )
        return self


FILE_OPTIONS = tuple(FileOptions.model_fields)


class FileKeywords(TypedDict, total=False):
    """The fields of `FileOptions` as keywords."""

    format: Format
    header: bool | None
    delimiter: str | None
    quote: str | None
    escape: str | None
    comment: str | None
    encoding: str | None
    decimal: str
    time_format: str | None
    missing: str | Sequence[str]
    null: str | Sequence[str]
    split: str | None
    normalize: Form | Sequence[Form]
    table: str | None
    query: str | None


_FORMS: Mapping[str, Callable[[str], str]] = {
    "nfc": partial(unicodedata.normalize, "NFC"),
    "nfkc": partial(unicodedata.normalize, "NFKC"),
    "casefold": str.casefold,
    "strip": str.strip,
}


def normalize_label(text: str, forms: Sequence[str]) -> str:
    """A label as it is compared, which is exactly as written unless `forms` say otherwise.

    The forms are applied until nothing changes, so that a normalized label stays as it is.
    """
    before = None
    while text != before:
        before = text
        for form in forms:
            text = _FORMS[form](text)
    return text
