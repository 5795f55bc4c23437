"""What a program would make of a savepoint: `millrace savepoint diff`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from millrace.cli.declared_states import DeclaredJob, DeclaredOperator, DeclaringExecutor
from millrace.cli.info import build_jobs
from millrace.cli.layout import paragraph, table, time_in_words
from millrace.cli.savepoint_report import is_own_state, kind_of_state, sources_of, type_of_state
from millrace.cli.script import ScriptError
from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation
from millrace.state.codec import KEY_ROLES
from millrace.state.evolution import Evolution, compare_types, type_in_words
from millrace.state.manifest import Manifest, OperatorMeta, StateMeta
from millrace.state.savepoint_files import open_savepoint

ADDED, DROPPED, SAFE, REFUSED, KEPT, SAME = "+", "-", "~", "!", "?", "="


@dataclass
class StateChange:
    """One state of an operator, and what becomes of it."""

    sign: str
    name: str
    what: str


@dataclass
class OperatorChange:
    """One operator, and what becomes of it. `refused` counts what would make the restore fail."""

    sign: str
    title: str
    notes: list[str] = field(default_factory=list)
    states: list[StateChange] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def refused(self) -> int:
        return len(self.refusals) + sum(state.sign == REFUSED for state in self.states)


def diff(options: argparse.Namespace) -> int:
    """Compare, print, and say by the exit code whether the restore would work."""
    location, _, manifest, _ = open_savepoint(options.path)
    job = _job_of(options, manifest)
    changes = compare(manifest, job)
    print(draw(location, manifest, job, changes, options.allow_lost))
    lost = any(change.sign == DROPPED for change in changes) and not options.allow_lost
    return 1 if lost or any(change.refused for change in changes) else 0


def _job_of(options: argparse.Namespace, manifest: Manifest) -> DeclaredJob:
    """The job of the script that the savepoint is compared with."""
    executor = DeclaringExecutor()
    try:
        build_jobs(options, executor)
    except ScriptError as error:
        if not executor.jobs:
            raise
        print(f"The script failed after it had started its jobs: {error}", file=sys.stderr)
    jobs = {job.name: job for job in executor.jobs}
    wanted = options.job or (manifest.job_name if len(jobs) > 1 else next(iter(jobs), ""))
    if wanted not in jobs:
        names = ", ".join(map(repr, jobs)) or "none"
        raise ProgramError(
            f"{options.script} executes no job {wanted!r}, but {names}.",
            action="Name one of its jobs with --job." if jobs else "Call env.execute() in it.",
        )
    return jobs[wanted]


# -- comparing --------------------------------------------------------------------------------------------------------


def compare(manifest: Manifest, job: DeclaredJob) -> list[OperatorChange]:
    """What becomes of each operator: first those of the program, then those that it no longer has."""
    saved = {operator.uid: operator for operator in manifest.operators}
    sources = sources_of(manifest)
    changes = [_compare_operator(saved.get(operator.meta.uid), operator) for operator in job.operators]
    declared = {operator.meta.uid for operator in job.operators}
    dropped = [
        _dropped(operator, uid in sources)
        for uid, operator in saved.items()
        if uid not in declared and (uid in sources or _states(operator))
    ]
    orphans = [
        OperatorChange(DROPPED, uid, ["is not in the program: what this source has read would be forgotten"])
        for uid in sources
        if uid not in declared and uid not in saved
    ]
    return [*changes, *dropped, *orphans]


def _states(operator: OperatorMeta) -> list[StateMeta]:
    """What would be missed: the program's states, also empty ones, and timers that wait."""
    own = [meta for meta in operator.states if not is_own_state(meta.name)]
    return [meta for meta in own if meta.entries or (meta.section != "timers" and not meta.name.startswith("@"))]


def _title(operator: OperatorMeta) -> str:
    return f"{operator.uid} ({operator.name})" if operator.name not in ("", operator.uid) else operator.uid


def _dropped(operator: OperatorMeta, is_source: bool) -> OperatorChange:
    change = OperatorChange(DROPPED, _title(operator), ["is not in the program: its state would be lost"])
    if is_source:
        change.notes = ["is not in the program: what this source has read would be forgotten"]
    if operator.uid.startswith("@"):
        change.notes.append("has no uid: it may be in the program at another place")
    change.states = [
        StateChange(DROPPED, _state_name(meta), f"{kind_of_state(meta)} with {meta.entries:,} entries")
        for meta in _states(operator)
    ]
    return change


def _compare_operator(saved: OperatorMeta | None, operator: DeclaredOperator) -> OperatorChange:
    meta = operator.meta
    change = OperatorChange(SAME if saved else ADDED, _title(meta))
    if saved is not None:
        _compare_parallelism(saved, operator, change)
    if operator.unknown:
        change.notes.append(f"states unknown: {operator.unknown}")
    if meta.uid.startswith("@") and _states(meta if saved is None else saved):
        change.notes.append("has no uid: it is told by its place in the program, which any change may move")
    if not operator.unknown:
        change.states = list(_compare_states(saved, operator))
    return change


def _compare_parallelism(saved: OperatorMeta, operator: DeclaredOperator, change: OperatorChange) -> None:
    meta = operator.meta
    if saved.parallelism != meta.parallelism:
        change.notes.append(f"parallelism {saved.parallelism} -> {meta.parallelism}")
    if not any(state.section == "keyed" or (state.section == "timers" and state.entries) for state in saved.states):
        return
    if meta.parallelism > saved.max_parallelism:
        change.refusals.append(
            f"parallelism {meta.parallelism} is more than the {saved.max_parallelism} key groups of its state"
        )
    elif operator.fixed and saved.max_parallelism != meta.max_parallelism:
        change.refusals.append(
            f"max parallelism {saved.max_parallelism} -> {meta.max_parallelism}: keyed state is kept by key group, and "
            f"their number is fixed; set it to {saved.max_parallelism}"
        )


def _compare_states(saved: OperatorMeta | None, operator: DeclaredOperator) -> Iterator[StateChange]:
    old = {(meta.section, meta.name): meta for meta in (saved.states if saved else [])}
    for meta in operator.meta.states:
        before = old.pop((meta.section, meta.name), None)
        if is_own_state(meta.name):
            continue
        types = operator.types.get((meta.section, meta.name), {})
        if before is None or (meta.section == "timers" and not before.entries):
            if meta.section != "timers":
                what = f"{kind_of_state(meta)} of {type_of_state(meta)}, new: it begins empty"
                yield StateChange(ADDED, meta.name, what)
        else:
            yield compare_state(before, meta, types)
    for meta in old.values():
        if meta.entries and not is_own_state(meta.name):
            what = "not asked for in open(): carried along as it is"
            yield StateChange(KEPT, _state_name(meta), what)


def compare_state(before: StateMeta, now: StateMeta, types: dict[str, Any]) -> StateChange:
    """What becomes of one state, that is `now` declared with these types."""
    name = _state_name(now)
    old, new = kind_of_state(before), kind_of_state(now)
    if (before.kind, before.namespaced) != (now.kind, now.namespaced):
        return StateChange(REFUSED, name, f"was {old} and is {new}: give it a new name, or declare it as before")
    notes = []
    if before.ttl != now.ttl:
        notes.append("entries expire from now on" if now.ttl else "entries no longer expire")
    for role, written in before.types.items():
        if role not in (*KEY_ROLES, "item", "value"):
            continue  # counts and stamps have no types
        evolution = _compare_role(role, written, types.get(role))
        subject = f"{KEY_ROLES[role]}: " if role in KEY_ROLES else ""
        if evolution.verdict == "refused":
            return StateChange(REFUSED, name, f"{subject}{evolution.reason}. {evolution.action}")
        notes += [f"{subject}{what}" for what in evolution.changes]
    return StateChange(SAFE, name, "; ".join(notes)) if notes else StateChange(SAME, name, "")


def _compare_role(role: str, written: dict[str, Any] | None, declared: Any) -> Evolution:
    now = None if declared is None else declared.to_json()
    if written == now:
        return Evolution("same")
    if written is None:
        return Evolution("safe", (f"untyped becomes {type_in_words(now)}, if the values fit",))
    if now is None:
        return Evolution("safe", (f"{type_in_words(written)} becomes untyped",))
    if not isinstance(declared, TypeInformation):
        return Evolution("refused", reason=f"{type_in_words(written)} cannot become {type_in_words(now)}")
    return compare_types(written, declared, key=role in KEY_ROLES)


def _state_name(meta: StateMeta) -> str:
    return f"{meta.name} timers" if meta.section == "timers" else meta.name


# -- as text ----------------------------------------------------------------------------------------------------------


def draw(
    location: str, manifest: Manifest, job: DeclaredJob, changes: list[OperatorChange], allow_lost: bool
) -> str:
    """The changes for a terminal."""
    taken = f", taken {time_in_words(manifest.created)}" if manifest.created else ""
    head = f"Job {job.name!r} from the {manifest.kind} {location} (epoch {manifest.epoch}{taken})"
    lines = [paragraph(head, indent=0), ""]
    for change in changes:
        lines += _draw_operator(change)
    lines += ["", *_verdict(changes, allow_lost)]
    return "\n".join(lines)


def _draw_operator(change: OperatorChange) -> Iterator[str]:
    sign = REFUSED if change.refused else change.sign
    same = sum(state.sign == SAME for state in change.states)
    shown = [state for state in change.states if state.sign != SAME]
    if sign == SAME and (shown or change.notes):
        sign = SAFE
    unchanged = f"{same} {'state' if same == 1 else 'states'} unchanged" if same else ""
    if not (shown or change.notes or change.refusals):
        nothing = "new, without state" if sign == ADDED else "no state"
        yield paragraph(f"{sign} {change.title}: {unchanged or nothing}", indent=0)
        return
    yield paragraph(f"{sign} {change.title}", indent=0)
    for note in [*change.notes, *change.refusals]:
        yield paragraph(note, indent=4, hang=2)
    if shown:
        yield from table(["", "STATE", ""], [[s.sign, s.name, s.what] for s in shown], wrap=2, indent=4)[1:]
    if unchanged:
        yield f"    {unchanged}"


def _verdict(changes: list[OperatorChange], allow_lost: bool) -> Iterator[str]:
    refused = sum(change.refused for change in changes)
    lost = [change.title for change in changes if change.sign == DROPPED]
    unknown = any(note.startswith("states unknown") for change in changes for note in change.notes)
    if refused:
        what = "change is" if refused == 1 else "changes are"
        yield paragraph(f"The restore would fail: {refused} {what} refused.", indent=0)
    if lost and not allow_lost:
        yield paragraph(
            f"The restore would fail: the state of {', '.join(lost)} belongs to no operator of the program. Give the "
            "operator its uid back, or allow it with --allow-non-restored-state.",
            indent=0,
        )
    if not refused and (allow_lost or not lost):
        dropped = f", and the state of {', '.join(lost)} would be dropped" if lost else ""
        doubt = " as far as the states are known" if unknown else ""
        yield paragraph(f"The restore would work{doubt}{dropped}.", indent=0)
    yield "Signs: + new, - lost, ~ changed, ! refused, ? kept as it is, = the same"
