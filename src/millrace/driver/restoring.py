"""From a manifest to where a job begins: which old files each subtask reads, and what must not be left behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from millrace.common.errors import MillraceError
from millrace.driver.committables import decode_committables
from millrace.driver.job_state import JobState
from millrace.graph.job_graph import JobPlan, Vertex
from millrace.graph.stream_graph import StreamGraph
from millrace.runtime.epoch import Restore, SubtaskId
from millrace.runtime.operators.own_state import LIST_CHECKPOINTED
from millrace.runtime.operators.source import SourceOperator
from millrace.state.errors import StateError, StatePickleError
from millrace.state.files import JobFiles, open_files
from millrace.state.handles import StateHandles
from millrace.state.manifest import Manifest, OperatorMeta, StateMeta, latest_manifest, list_manifests, read_manifest

_LOG = logging.getLogger("millrace.job")


class RestoreRefusedError(MillraceError):
    """The program does not fit the savepoint or checkpoint that it is to begin from."""

    default_code = "MR-2006"


@dataclass(frozen=True)
class Origin:
    """What a job begins from. `own` tells that it is the job's own directory, whose files it may go on with."""

    manifest: Manifest
    directory: str
    own: bool
    allow_non_restored: bool = False
    allow_pickle: bool = False

    @property
    def files(self) -> JobFiles:
        return open_files(self.directory)


def find_origin(path: str, allow_non_restored: bool, allow_pickle: bool) -> Origin:
    """The savepoint at a path; or of a job's checkpoints the newest that is whole, or the one that the path names."""
    text = path.removeprefix("file://").rstrip("/")
    if text.endswith(".manifest"):
        directory, _, name = text.rpartition("/manifests/")
        stem = name.removesuffix(".manifest")
        if not directory or not stem.isdigit():
            raise RestoreRefusedError(f"{path!r} names no checkpoint.", action=_WHERE)
        manifest: Manifest | None = read_manifest(open_files(directory), int(stem))
    else:
        directory = text
        files = open_files(directory)
        if not list_manifests(files):
            raise RestoreRefusedError(f"There is no savepoint or checkpoint in {path!r}.", action=_WHERE)
        manifest, damaged = latest_manifest(files)
        for error in damaged:
            _LOG.warning("A checkpoint in %s is left out: %s", directory, error)
        if manifest is None:
            raise damaged[0]
    assert manifest is not None
    return Origin(manifest, directory, False, allow_non_restored, allow_pickle)


_WHERE = "Give the directory of a savepoint or of a job's checkpoints, or the path of a .manifest file in it."


def adopt_max_parallelism(graph: StreamGraph, manifest: Manifest) -> None:
    """The number of key groups is fixed in a savepoint: operators that say nothing themselves take it from there."""
    known = {meta.uid: meta for meta in manifest.operators}
    for node in graph.nodes.values():
        meta = known.get(node.state_id)
        if meta is None or not _has_keyed_state(meta):
            continue
        if node.max_parallelism is None:
            node.max_parallelism = meta.max_parallelism
        if node.max_parallelism != meta.max_parallelism:
            raise RestoreRefusedError(
                f"Operator {node.name!r} has max parallelism {node.max_parallelism}, and its state was written with "
                f"{meta.max_parallelism}: keys would not be found where they are looked for.",
                action=f"Set its max parallelism to {meta.max_parallelism}, or leave it out.",
            )
        if node.parallelism > meta.max_parallelism:
            raise RestoreRefusedError(
                f"Operator {node.name!r} has parallelism {node.parallelism}, more than the max parallelism "
                f"{meta.max_parallelism} of its state.",
                action=f"Use a parallelism of at most {meta.max_parallelism}.",
            )


def _has_keyed_state(meta: OperatorMeta) -> bool:
    # Every operator has tables for timers, and only a keyed one can have timers in them.
    return any(state.section == "keyed" or (state.section == "timers" and state.entries) for state in meta.states)


def check_restorable(plan: JobPlan, origin: Origin) -> None:
    """Refuse to leave state behind that nobody asks for, unless that was allowed."""
    known = set(_state_ids(plan))
    lost = [line for line in _state_lines(origin.manifest) if line[0] not in known]
    if lost and not origin.allow_non_restored:
        named = "; ".join(text for _, text in lost)
        raise RestoreRefusedError(
            f"The program has no operator for this state of {origin.directory}: {named}.",
            action="Give operators the uid() that they had, or allow the loss: --allow-non-restored-state, or "
            "execution.state-recovery.ignore-unclaimed-state.",
        )


def _state_ids(plan: JobPlan) -> Iterator[str]:
    return (node.state_id for vertex in plan.vertices for node in vertex.nodes)


def _state_lines(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Each operator that has something to lose, and in words what."""
    for meta in manifest.operators:
        what = list(dict.fromkeys(_in_words(state) for state in meta.states if _is_programs_own(state)))
        if meta.uid in manifest.sources or meta.uid in manifest.spark.get("sources", {}):
            what.append("its offsets")
        if what:
            yield meta.uid, f"{meta.name or meta.uid} (uid {meta.uid!r}): {', '.join(what)}"


def _is_programs_own(state: StateMeta) -> bool:
    """Whether the program would miss it: the engine's own bookkeeping begins anew without harm."""
    if state.section == "timers" or state.name == LIST_CHECKPOINTED:
        return state.entries > 0
    return not state.name.startswith("@")


def _in_words(state: StateMeta) -> str:
    if state.section == "timers":
        return "its timers"
    return "its list" if state.name == LIST_CHECKPOINTED else repr(state.name)


def job_state_of(plan: JobPlan, origin: Origin, files: JobFiles, backend: str) -> JobState:
    """Where a job stands that begins from a manifest. `files` and `backend` are the job's own."""
    check_restorable(plan, origin)
    manifest = origin.manifest
    trusted = origin.own or origin.allow_pickle
    in_place = origin.own and manifest.backend == backend and _same_shape(plan, manifest)
    subtasks: dict[SubtaskId, StateHandles] = {}
    restore: dict[SubtaskId, Restore] = {}
    for vertex in plan.vertices:
        for index in range(vertex.parallelism):
            if in_place:
                subtasks[vertex.id, index] = manifest.subtasks[str(vertex.id)][index]
            else:
                restore[vertex.id, index] = Restore(origin.directory, _old_handles(vertex, manifest), trusted)
    if not origin.own:
        for path in manifest.spark.get("files", []):
            files.write(path, origin.files.read(path))
    by_uid = {node.state_id: node.id for vertex in plan.vertices for node in vertex.nodes}
    return JobState(
        epoch=manifest.epoch,
        offsets=_offsets(plan, manifest),
        finished=frozenset(by_uid[uid] for uid in manifest.finished if uid in by_uid),
        subtasks=subtasks,
        restore=restore,
        feedback=_feedback(plan, origin, files, in_place),
        described={meta.uid: meta.states for meta in manifest.operators if meta.uid in by_uid},
        committables=decode_committables(manifest.committables, by_uid, trusted),
        spark=manifest.spark,
        final=manifest.final and origin.own,
    )


def _same_shape(plan: JobPlan, manifest: Manifest) -> bool:
    """Whether each old subtask's files are one new subtask's."""
    now = {
        node.state_id: (str(vertex.id), vertex.parallelism, vertex.max_parallelism)
        for vertex in plan.vertices
        for node in vertex.nodes
    }
    return now == {meta.uid: (meta.vertex, meta.parallelism, meta.max_parallelism) for meta in manifest.operators}


def _old_handles(vertex: Vertex, manifest: Manifest) -> tuple[StateHandles, ...]:
    wanted = {node.state_id for node in vertex.nodes}
    old = dict.fromkeys(meta.vertex for meta in manifest.operators if meta.uid in wanted)
    return tuple(handles for name in old for handles in manifest.subtasks.get(name, []))


def _offsets(plan: JobPlan, manifest: Manifest) -> dict[int, dict[str, object]]:
    found = {}
    for vertex in plan.vertices:
        node = vertex.nodes[0]
        if isinstance(node.operator, SourceOperator) and node.operator.source is not None:
            found[vertex.id] = manifest.sources.get(node.state_id) or node.operator.source.initial_offset()
    return found


def _feedback(plan: JobPlan, origin: Origin, files: JobFiles, in_place: bool) -> dict[SubtaskId, list[str]]:
    """What iterations carry. Its records are routed anew, so that any subtask of the head may take them."""
    saved = origin.manifest.feedback
    if in_place:
        return {(int(head), int(index)): paths for head, by in saved.items() for index, paths in by.items()}
    if saved and not origin.allow_pickle and not origin.own:
        raise StatePickleError(
            "the savepoint holds records of an iteration, which are pickled",
            action="Set state.savepoint.allow-pickle to true if you trust where the savepoint comes from.",
        )
    found: dict[SubtaskId, list[str]] = {}
    heads = {node.state_id: vertex for vertex in plan.vertices for node in vertex.nodes}
    uids = {meta.vertex: meta.uid for meta in reversed(origin.manifest.operators)}
    for head, by_subtask in saved.items():
        vertex = heads.get(uids.get(head, ""))
        if vertex is None:
            raise StateError(f"the program has no iteration for the records that vertex {head} fed back")
        paths = [path for paths in by_subtask.values() for path in paths]
        for number, path in enumerate(paths):
            index = number % vertex.parallelism
            # The next epoch reads it; named after that, it is garbage when a checkpoint after it is complete.
            target = f"feedback/{vertex.id}/{index}/{origin.manifest.epoch + 1}-restored-{number}.feedback"
            files.write(target, origin.files.read(path))
            found.setdefault((vertex.id, index), []).append(target)
    return found
