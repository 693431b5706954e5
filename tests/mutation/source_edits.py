"""Planted edits of how logs are read: what one user writes decides how the others are read, or labels lose what they were."""

from __future__ import annotations

from edits import Edit

NEIGHBOURS = "tests/dpselect/events/test_neighbours.py"
DIGITS = f"{NEIGHBOURS}::test_digits_within_python_objects_are_those_of_each_alone"
MISSING = f"{NEIGHBOURS}::test_missing_labels_are_the_same_in_every_format"
FILES = "tests/dpselect/events/test_file_options.py"
LISTS = f"{FILES}::test_catalogues_are_written_as_the_log_is"
LISTED = "tests/dpselect/events/test_log_check.py::test_a_catalogue_is_held_against_the_log"
WORKBOOK = f"{FILES}::test_rows_beyond_the_size_that_a_workbook_states_are_read"
DOUBTS = "tests/dpselect/release/test_doubts.py::test_a_catalogue_that_hardly_matches_is_said"
FORMATS, TABLES = "dpselect/events/sources/formats.py", "dpselect/events/sources/tables.py"

SOURCE_EDITS = [
    Edit(
        FORMATS,
        "if sniff and has_header else self",
        "if sniff and header is not False else self",
        f"{NEIGHBOURS}::test_a_first_event_does_not_tell_the_delimiter",
    ),
    Edit(TABLES, 'values.map(_printed, na_action="ignore")', "values", DIGITS),
    Edit(TABLES, '        return format(value, "f")\n    return str', "        return value\n    return str", DIGITS),
    Edit(
        FORMATS,
        'stored[SHORT[role]] == "HUGEINT"',
        "False",
        f"{NEIGHBOURS}::test_wide_integers_of_another_file_leave_the_rest_apart",
    ),
    Edit(
        "dpselect/events/file_options.py",
        'r"hz|utf-7|',
        'r"utf-7|',
        f"{NEIGHBOURS}::test_encodings_in_which_lines_depend_on_each_other_are_refused",
    ),
    Edit("dpselect/events/staging.py", 'if kind == "number" else (f"CAST', 'if kind == "none" else (f"CAST', MISSING),
    Edit(
        FORMATS,
        "        sheet.reset_dimensions()",
        "        pass",
        f"{FILES}::test_rows_beyond_the_size_that_a_workbook_states_are_read",
    ),
    Edit(
        "dpselect/events/file_options.py",
        "    while text != before:",
        "    while before is None:",
        f"{FILES}::test_labels_that_were_written_alike_stay_as_they_are",
    ),
    Edit("dpselect/events/catalogue.py", "written_alike(listed(catalogue, what), normalize)", "listed(catalogue, what)", LISTS),
    Edit("dpselect/release/answer.py", ".users == 1:", ".users == 0:", DOUBTS),
    Edit("dpselect/release/answer.py", "<= around.half_width", "<= 0", DOUBTS),
    Edit("dpselect/events/log_check.py", "ANTI JOIN seen", "SEMI JOIN seen", LISTED),
]
