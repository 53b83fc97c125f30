"""The store's contract, for every adapter: every field is read as it was written, whatever it holds."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import hypothesis
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from tests.support.stores import World

from codehub.core.amendments import RulingRecord
from codehub.core.conditions import INITIAL, Condition, Conditions, Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import Code, Message, verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.requests import Accepted
from codehub.core.workspace import (
    HeldUp,
    HomeCtx,
    InstanceBackend,
    ObservedStatus,
    RecoverChoice,
    Resources,
    Spec,
    Status,
    StorageBackend,
)
from codehub.ports.store import Change

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
some_texts = texts.filter(bool)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # the strategy adds the zone
maybe_times = st.none() | times
maybe_texts = st.none() | texts
counts = st.integers(0, 2**31 - 1)
codes = st.sampled_from([code for code in Code if code is not Code.VERBATIM]) | st.sampled_from(Why)
plain_messages = st.builds(verbatim, texts | st.sampled_from(["Healthy", "MovesUp", "Verbatim"])) | st.builds(
    Message, codes
)
messages = plain_messages | st.builds(
    lambda code, count, inner, listed: Message(code, {"count": count, "message": inner, "messages": listed}),
    codes,
    st.integers(),
    plain_messages,
    st.lists(plain_messages, max_size=2) | st.lists(texts, max_size=2),
)
conditions_ = st.builds(Condition, st.sampled_from(Truth), some_texts, messages, maybe_times)
non_terminal = st.sampled_from([reason for reason in ErrorReason if not reason.is_terminal])
terminal = st.sampled_from([reason for reason in ErrorReason if reason.is_terminal])


def errors(reasons: st.SearchStrategy[ErrorReason]) -> st.SearchStrategy[ErrorInfo]:
    context = st.dictionaries(texts, texts, max_size=2)
    return st.builds(ErrorInfo, reasons, messages, st.sampled_from(Operation), counts, times, context)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    deleted_at = draw(maybe_times)
    accepts_loss = draw(st.booleans())
    choice = None if accepts_loss else draw(st.none() | st.sampled_from(RecoverChoice))
    return Spec(
        owner_user_id=UUID(int=0),
        name=draw(some_texts),
        image_ref=draw(some_texts),
        ide=draw(some_texts),
        instance_backend=draw(st.sampled_from(InstanceBackend)),
        storage_backend=draw(st.sampled_from(StorageBackend)),
        home_store_key=draw(some_texts),
        description=draw(st.none() | texts),
        memo=draw(st.none() | texts),
        resources=Resources(draw(counts), draw(st.floats(0.125, 64, width=32)), draw(counts)),
        desired_state=DesiredState.PENDING if deleted_at else draw(st.sampled_from(DesiredState)),
        deleted_at=deleted_at,
        purge_at=None if deleted_at is None else draw(maybe_times),
        recover_at=draw(maybe_times),
        recover_accepts_loss=accepts_loss,
        recover_choice=choice,
        recover_offered_key=draw(st.none() | some_texts),
        asked_again_at=draw(maybe_times),
        forgotten_at=None if deleted_at is None else draw(maybe_times),
        pinned_at=draw(maybe_times),
        tab_script=draw(st.booleans()),
        cross_port_access=draw(st.booleans()),
        request_id=draw(st.none() | texts),
        standby_ttl_seconds=draw(st.none() | st.integers(10, 2**31 - 1)),
        archive_ttl_seconds=draw(st.none() | counts),
        last_access_at=draw(maybe_times),
        awake_until=draw(maybe_times),
        revision=draw(st.integers(1, 2**31 - 1)),
    )


def test_every_field_of_a_spec_is_drawn() -> None:
    """A new field must be drawn here, too: what is never set is never read back."""
    quick = settings(database=None, phases=[hypothesis.Phase.generate])  # not the simplest: any will do
    for field in fields(Spec):

        def is_drawn(spec: Spec, name: str = field.name, default: object = field.default) -> bool:
            return getattr(spec, name) != default  # type: ignore[no-any-return]

        find(specs(), is_drawn, settings=quick)


@st.composite
def statuses(draw: st.DrawFn, workspace_id: UUID) -> Status:
    phase = draw(st.sampled_from(Phase))
    is_error = phase is Phase.ERROR
    operation = Operation.NONE if is_error else draw(st.sampled_from(Operation))
    under_way = operation is not Operation.NONE
    return Status(
        conditions=draw(st.builds(Conditions, conditions_, conditions_, conditions_, conditions_)),
        observed_at=draw(maybe_times),
        phase=phase,
        phase_changed_at=draw(maybe_times),
        operation=operation,
        op_started_at=draw(times) if under_way else None,
        op_id=draw(st.uuids()) if under_way else draw(st.none() | st.uuids()),
        retry_at=draw(maybe_times) if under_way else None,
        held_up=draw(st.none() | st.builds(HeldUp, non_terminal, messages, times, st.booleans()))
        if under_way
        else None,
        archive_key=draw(st.none() | st.builds(f"{workspace_id}/{{}}/home.tar.zst".format, st.uuids())),
        home_ctx=draw(st.builds(HomeCtx, maybe_texts, maybe_texts, st.booleans(), maybe_times, maybe_texts)),
        error_info=draw(errors(terminal) if is_error else st.none() | errors(non_terminal)),
        error_count=draw(counts),
        restarts=tuple(draw(st.lists(times, max_size=3))),
        previous_status=draw(st.none() | st.sampled_from(ObservedStatus)),
    )


@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example makes workspaces of its own
)
@given(data=st.data())
async def test_every_field_is_read_as_it_was_written(world: World, data: st.DataObject) -> None:
    before, after = data.draw(specs()), data.draw(specs())
    created = await world.create(name=f"first {uuid4()}")
    spec, amended = (
        replace(each, owner_user_id=world.user_id, name=f"{each.name} {uuid4()}") for each in (before, after)
    )
    status = data.draw(statuses(created.id))
    assert await world.controller.persist([Change(created.id, status)]) == frozenset()
    await world.api.amend(created.id, lambda _each, _now: RulingRecord(Accepted(spec)))
    stored = await world.api.get(created.id)
    assert (stored.spec, stored.status) == (spec, replace(status, version=1))
    ruled = await world.api.amend(created.id, lambda _each, _now: RulingRecord(Accepted(amended)))
    assert ruled.workspace.spec == amended
    assert list((await world.controller.load([created.id])).workspaces) == [ruled.workspace]
    assert (
        await world.api.create_workspace(uuid4(), replace(spec, name=f"{uuid4()}"), [])
    ).status.conditions == INITIAL
