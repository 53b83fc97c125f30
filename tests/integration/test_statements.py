"""Statements with named parameters, as PostgreSQL takes them;
and the columns that they get from Spec and Status.
"""

from dataclasses import fields

import pytest

from codehub.adapters.postgres.columns import SPEC, STATUS
from codehub.adapters.postgres.sql import compile_statement, statements
from codehub.core.workspace import Spec, Status


def test_parameters_are_numbered_in_the_order_they_appear_in_and_a_cast_is_none() -> None:
    statement = compile_statement(
        "SELECT :b::text::xid8, 'at: noon', :a, :b::uuid[] WHERE x = ANY (:ids::uuid[])"
    )
    assert statement.text == "SELECT $1::text::xid8, 'at: noon', $2, $1::uuid[] WHERE x = ANY ($3::uuid[])"
    assert statement.parameters == ("b", "a", "ids")


def test_a_comment_is_no_part_of_a_statement() -> None:
    assert compile_statement("-- Whom :id belongs to.\nSELECT 1;\n").text == "SELECT 1;"


def test_arguments_are_given_by_name_in_any_order() -> None:
    statement = compile_statement("SELECT :b, :a")
    assert statement(a=1, b=2) == ("SELECT $1, $2", 2, 1)


@pytest.mark.parametrize("given", [{"a": 1}, {"a": 1, "b": 2, "c": 3}], ids=["missing", "unknown"])
def test_a_parameter_that_is_missing_or_unknown_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="takes b, a"):
        compile_statement("SELECT :b, :a")(**given)


def test_every_field_of_spec_and_status_is_written_and_read() -> None:
    assert [column.name for column in SPEC] == [field.name for field in fields(Spec)]
    assert [column.name for column in STATUS] == [field.name for field in fields(Status)]
    for name in ("create_workspace", "amend"):
        assert {"id", *(field.name for field in fields(Spec))} == set(statements()[name].parameters)
    assert {field.name for field in fields(Status)} < set(statements()["store_pass"].parameters)
