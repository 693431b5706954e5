"""The configuration file of all commands, whose tables have the fields of specs as their keys."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, final

import tomli_w
from pydantic import Field, SkipValidation, create_model, model_validator

from accounting import AccountingError, Budget
from accounting.address import mask, reveal
from accounting.files import new_file, read_text
from accounting.frozen import Real
from accounting.registry import kind_of
from accounting.wording import printable
from dpselect.app.spec import (
    BUDGETED,
    Flag,
    LedgerFields,
    LogFields,
    PlanFields,
    PlanSpec,
    ReleaseFields,
    Spec,
    option_type,
)
from dpselect.app.spec.continual_spec import EveryFields, PeriodFields, StateFields
from dpselect.app.spec.label_spec import BallotFields, RoundFields
from dpselect.app.spec.shared_fields import ForecastFields
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import AnyMechanism
from dpselect.mechanisms.traits import WHY_NOT_TOP_K


class ConfigTable(Spec):
    """A table of the file, without unknown keys and without null, which TOML does not have."""

    of: ClassVar[tuple[type[Spec], ...]] = ()
    """The specs whose fields are its keys."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_table(cls, value: Any) -> Any:
        if not isinstance(value, Mapping | ConfigTable):
            raise ValueError("it must be a table")
        return value

    def file_values(self) -> dict[str, Any]:
        """Values that the file states, by field name."""
        return {
            name: value
            for name in self.model_fields_set
            if (value := getattr(self, name)) is not None
        }


def table(*specs: type[Spec], required: Sequence[str] = (), **keys: str) -> type[ConfigTable]:
    """A class for a table of a file, whose keys are the fields of specs.

    Each field may be left out. The spec itself reports contradictions.

    Args:
        required: fields that may not be left out.
        keys: names in the file of fields that have another name there.
    """
    fields: dict[str, Any] = {}
    for name, field in (
        (name, field) for spec in specs for name, field in spec.model_fields.items()
    ):
        rules = [rule for rule in field.metadata if type(rule) is not SkipValidation]
        annotation: Any = Flag if option_type(field.annotation) is bool else field.annotation
        kind: Any = Annotated[(annotation, *rules)] if rules else annotation
        default = ... if name in required else None if field.is_required() else field.default
        info = Field(default=default, description=field.description, alias=keys.get(name))
        fields[name] = (kind | None if default is None else kind, info)
    model = create_model("Table", __base__=ConfigTable, **fields)
    model.of = specs
    return model


@final
class DataTable(table(LogFields)):  # type: ignore[misc]
    """The table [data], with the log and the options for reading it."""


@final
class ReleaseTable(table(ReleaseFields)):  # type: ignore[misc]
    """The table [release], with the options of every release.

    `plan --write` fills in the mechanism.
    """

    mechanism: AnyMechanism | None = Field(
        default=None, description="a table with the mechanism's kind and parameters"
    )
    expected: Expectation | None = Field(
        default=None, description="a table: what the plan expected, for the record"
    )

    @model_validator(mode="after")
    def _releases_k_items(self) -> Self:
        if self.mechanism is None:
            return self
        selector = self.mechanism.selecting
        other = WHY_NOT_TOP_K.get(selector.traits.answers)
        if other is not None:
            raise ValueError(
                f"mechanism kind={kind_of(type(selector))!r} {other}. Choose one that 'dpselect"
                " plan' names"
            )
        size = self.mechanism.most_of_each
        if None not in (self.k, size) and self.k != size:
            raise ValueError(
                f"k={self.k} contradicts the mechanism, which is for k={size}. Plan again, or make"
                " them equal"
            )
        return self


@final
class Expectation(ConfigTable):
    """The table [release.expected], a plan's expectation for one release. It decides nothing."""

    recall: Real = Field(description="the expected share of right items")
    recall_low: Real = Field(description="lower end of its interval")
    recall_high: Real = Field(description="upper end of its interval")
    exact_set: Real = Field(description="the probability that all items are right")
    released: Real = Field(description="the expected number of items")


_Ledger: Any = table(LedgerFields, required=("ledger", "dataset"), ledger="url")


@final
class LedgerTable(_Ledger):  # type: ignore[misc]
    """The table [ledger], with the dataset to which every release is charged."""

    unit: str | None = Field(default=None, description="who is protected, in words")


@final
class PlanTable(table(PlanFields, ForecastFields)):  # type: ignore[misc]
    """The table [plan], with the options of a plan."""

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        PlanFields(**self.file_values())
        return self


@final
class ContinualTable(table(PeriodFields, StateFields, EveryFields)):  # type: ignore[misc]
    """The table [continual], with the options of a horizon of releases."""


@final
class PateTable(table(RoundFields, BallotFields)):  # type: ignore[misc]
    """The table [pate], with the options for labels from votes."""


@final
class Config(ConfigTable):
    """The whole file. Every table and every key may be left out.

    Args:
        data, release, budget, ledger, plan, continual, pate: its tables. `budget` is for all
            planned releases together: epsilon with or without delta, or rho with or without delta;
            nats.
    """

    data: DataTable = Field(default=DataTable(), description="a table")
    release: ReleaseTable = Field(default=ReleaseTable(), description="a table")
    budget: Budget | None = Field(
        default=None, description="a table with epsilon or rho, and perhaps delta"
    )
    ledger: LedgerTable | None = Field(default=None, description="a table with url and dataset")
    plan: PlanTable = Field(default=PlanTable(), description="a table")
    continual: ContinualTable = Field(default=ContinualTable(), description="a table")
    pate: PateTable = Field(default=PateTable(), description="a table")

    @property
    def releases(self) -> int:
        """Number of releases that share the budget."""
        return self.plan.releases or 1

    def values(self, spec: type[Spec], elsewhere: Collection[str]) -> dict[str, Any]:
        """The file's values for a spec's fields, if the fields in `elsewhere` are stated elsewhere.

        Raises:
            InvalidRequest: the budget is for several releases of which none is planned, and would
                be spent on one.
        """
        several = self.releases > 1 and self.release.mechanism is None
        if several and issubclass(spec, ReleaseFields) and not BUDGETED & set(elsewhere):
            raise InvalidRequest(
                f"the file's budget is for {self.releases} releases and it holds no mechanism yet."
                " Run dpselect plan with config= and --write, take the default for them"
                f" (releases={self.releases}), or state this release's own budget (epsilon=, rho=)"
            )
        # A budget may have a delta, and be for several releases: a command that knows of neither
        # states one of its own.
        for_one = spec.for_all_releases or "releases" in spec.model_fields or self.releases == 1
        has_budget = self.budget is not None and "delta" in spec.model_fields and for_one
        values = (
            {name: getattr(self.budget, name) for name in ("epsilon", "delta", "rho")}
            if has_budget
            else {}
        )
        for table in (self.data, self.release, self.ledger):
            values |= {} if table is None else table.file_values()
        if self.release.mechanism is not None and "mechanism" in spec.model_fields:
            values.setdefault("releases", self.releases)
        for mixin in spec.own_fields:  # a name that other tables have too is the spec's own there
            own = next(
                table for _, table in self if isinstance(table, ConfigTable) and mixin in table.of
            )
            values = {
                name: value for name, value in values.items() if name not in mixin.model_fields
            }
            values |= {
                name: value
                for name, value in own.file_values().items()
                if name in mixin.model_fields
            }
        return {
            name: value
            for name, value in values.items()
            if name in spec.model_fields and value is not None
        }

    def with_plan(self, spec: PlanSpec, release: Mapping[str, Any]) -> Self:
        """A copy that also states a plan in full.

        Args:
            spec: the plan.
            release: the table [release], with the mechanism to release with.
        """

        settings = {
            name: value
            for name, value in spec
            if value not in (None, type(spec).model_fields[name].default)
        }
        plan = {name: value for name, value in settings.items() if name in PlanFields.model_fields}
        shared = {
            name: value
            for name, value in settings.items()
            if name in DataTable.model_fields and name not in plan
        }
        payer = {"url": spec.ledger, "dataset": spec.dataset}
        ledger = (
            None
            if spec.ledger is None
            else (self.ledger.model_dump(by_alias=True) if self.ledger else {}) | payer
        )
        parts = {
            "data": dict(self.data) | shared,
            "release": release,
            "budget": spec.budget,
            "ledger": ledger,
        }
        return self.model_copy(
            update=parts | {"plan": plan | ({"log": True} if spec.is_log else {})}
        )

    def write(self, path: Path, over: Path | None = None) -> None:
        """Write the file, all of it or nothing, without values that are defaults.

        Comments of an earlier version are lost.

        Args:
            over: the file that the configuration was read from, and the only one that may be
                replaced.
        """
        replace = over is not None and path.exists() and path.samefile(over)
        path = path.resolve() if replace else path  # of a link, the file that it leads to
        data = self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        # with its mechanism in full, so that a later version's defaults cannot change it
        if self.release != ReleaseTable():
            data["release"] = self.release.model_dump(mode="json", exclude_none=True)
        if self.ledger is not None:
            data["ledger"]["url"] = reveal(self.ledger.ledger)
        with new_file(path, "--write", encoding="utf-8", replace=replace) as file:
            file.write(tomli_w.dumps(data))


_MOST_BYTES = 2**20
_MOST_DOTS = 200


def read(path: Path) -> Config:
    """Read the configuration in a file."""
    deep = InvalidRequest(
        f"{mask(path)} is nested too deeply: the tables are {', '.join(Config.model_fields)}"
    )
    try:
        # The text, unless a line has more dots or brackets than any key or value of this file: they
        # cost time in their square.
        text = read_text(path, InvalidRequest, "the configuration", _MOST_BYTES)
        if any(max(line.count("."), line.count("[")) > _MOST_DOTS for line in text.splitlines()):
            raise deep
        data = _freeze(tomllib.loads(text))
    except RecursionError:
        raise deep from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{mask(path)} is not TOML: {error}") from None
    except ValueError:
        raise InvalidRequest(
            f"{mask(path)} holds a number with too many digits: at most 4,300 are read"
        ) from None
    try:
        return Config.model_validate(data)
    except AccountingError as error:
        place = ".".join(map(str, error.path))
        raise InvalidRequest(printable(f"{mask(path)}: {place}: {error}")).at(*error.path) from None


def _freeze(data: Any) -> Any:
    """The data with tuples for lists, as specs have them."""
    if isinstance(data, dict):
        return {name: _freeze(value) for name, value in data.items()}
    return tuple(map(_freeze, data)) if isinstance(data, list) else data
