"""`millrace savepoint` shows what is in a savepoint and what a program would make of it, and removes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace.cli.layout import WIDTH
from millrace.cli.main import main
from millrace.cli.savepoint_report import without_secrets
from millrace.common.typeinfo import Types
from millrace.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    Savepoint,
    ValueStateDescriptor,
    open_files,
    write_manifest,
)
from tests.state.make_savepoint_data import PLAIN, RICH, VERTEX, write_savepoint

JOB = """
from millrace.common import Types
from millrace.datastream import StreamExecutionEnvironment
from millrace.datastream.functions import KeyedProcessFunction, MapFunction
from millrace.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

class Totals(KeyedProcessFunction):
    def open(self, ctx):
        for descriptor in [{states}]:
            ctx.get_state(descriptor)

    def process_element(self, value, ctx):
        yield value

class Broken(MapFunction):
    def open(self, ctx):
        raise ValueError("no database here")

    def map(self, value):
        return value

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = env.from_collection(["a"], type_info=Types.STRING()).uid("words")
totals = words.key_by(lambda word: word, Types.STRING()).process(Totals()).uid("totals").name("Totals")
{more}
print("built")
env.execute("count")
"""

TOTAL = ValueStateDescriptor("total", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.ROW_NAMED(["at", "price"], [Types.LONG(), Types.STRING()]))
FLAGS = MapStateDescriptor("flags", Types.STRING(), Types.BOOLEAN())


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A savepoint of the job, with three states."""
    savepoint = Savepoint.new(job_name="count").with_operator("totals", Types.STRING(), name="Totals")
    savepoint = savepoint.with_keyed_state("totals", TOTAL, {"a": 1, "b": 2})
    savepoint = savepoint.with_keyed_state("totals", SEEN, {"a": [{"at": 1, "price": "2"}]})
    savepoint = savepoint.with_keyed_state("totals", FLAGS, {"a": {"x": True}})
    savepoint.write(tmp_path / "savepoint")
    return str(tmp_path / "savepoint")


def job(tmp_path: Path, *states: str, more: str = "") -> str:
    path = tmp_path / "job.py"
    path.write_text(JOB.format(states=", ".join(states), more=more))
    return str(path)


SAME = (
    'ValueStateDescriptor("total", Types.LONG())',
    'ListStateDescriptor("seen", Types.ROW_NAMED(["at", "price"], [Types.LONG(), Types.STRING()]))',
    'MapStateDescriptor("flags", Types.STRING(), Types.BOOLEAN())',
)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["savepoint", *arguments])
    text = capsys.readouterr().out
    assert all(len(line) <= WIDTH for line in text.splitlines())
    return code, text


# -- inspect ----------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_shown_with_operators_states_and_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_savepoint(Path("sp"))
    assert printed(capsys, "inspect", "sp") == (0, f"""\
Savepoint sp
  Job       shop (0123456789abcdef0123456789abcdef)
  Epoch     7, taken 2023-11-14 22:13:20 UTC
  Backend   hashmap
  Size      {sum(file.stat().st_size for file in Path("sp").rglob("*.base")) / 1000:.1f} KB in 2 files
  Pickle    needed for untyped/pickled: restoring it takes state.savepoint.allow-pickle=true

profiles (Profiles), parallelism 2 of at most 16, keyed by STRING
  STATE       KIND                   TYPE                                             ENTRIES   SIZE
  total       value                  LONG                                                  12  118 B
  lines       list                   ROW(item: STRING, price: DOUBLE, when: INSTANT)       12  660 B
  scores      map                    STRING -> DOUBLE                                      12  394 B
  max         reducing               BIG_INT                                               12  250 B
  average     aggregating            TUPLE(LONG, INT)                                      12  142 B
  reading     value                  DATACLASS(Reading)                                    12  374 B
  color       value                  ENUM(Color)                                           12  160 B
  seen        value with ttl         SQL_TIMESTAMP                                         12  442 B
  recent      list with ttl          LIST(SHORT)                                           12  456 B
  carts       map with ttl           STRING -> PRIMITIVE_ARRAY(BYTE)                       12  540 B
  windows     reducing by namespace  LONG                                                  24  304 B
  items       operator-list          STRING                                                 6   64 B
  union       union-list             LONG                                                   2   12 B
  rules       broadcast              STRING -> ROW(limit: INT)                              2   58 B
  event       timers                                                                       12  350 B
  processing  timers                                                                       12  350 B

untyped (Plain things), parallelism 2 of at most 16, keyed without a type
  STATE    KIND   TYPE               ENTRIES  SIZE
  plain    value  untyped                  6  36 B
  pickled  value  untyped (pickled)        6  87 B

orders (Source: Orders), parallelism 2 of at most 16
  no state

Sources
  orders: {{"kind": "kafka", "offsets": {{"0": 41, "1": 7}}, "password": "***"}}
""")


def test_a_long_type_is_broken_into_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = Types.ROW_NAMED([f"field_{n}" for n in range(12)], [Types.STRING()] * 12)
    savepoint = Savepoint.new().with_operator("wide").with_keyed_state("wide", ValueStateDescriptor("w", wide), {})
    savepoint.write(tmp_path)
    _, text = printed(capsys, "inspect", str(tmp_path))
    assert "  w      value  ROW(field_0: STRING, field_1: STRING, field_2: STRING" in text
    assert "\n                  STRING, field_4: STRING" in text
    assert "Pickle    not needed" in text


def test_json_says_the_same_and_hides_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_savepoint(tmp_path)
    _, text = printed(capsys, "inspect", "--json", str(tmp_path))
    report = json.loads(text)
    assert report["needs_pickle"] is True
    assert report["sources"]["orders"]["password"] == "***"
    total = next(state for state in report["operators"][0]["states"] if state["name"] == "total")
    assert (total["kind"], total["type"], total["entries"], total["bytes"]) == ("value", "LONG", 12, 118)
    assert not report["damaged"]


def test_damaged_and_missing_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = write_savepoint(tmp_path)
    first, second = (handles.chain[0].path for handles in manifest.subtasks[VERTEX])
    (tmp_path / first).write_bytes((tmp_path / first).read_bytes()[:-3])
    (tmp_path / second).unlink()
    write_manifest(open_files(tmp_path), msgspec.structs.replace(manifest, feedback={"3": {"0": ["feedback/x"]}}))
    code, text = printed(capsys, "inspect", str(tmp_path))
    assert code == 1
    _, _, damaged = text.partition("\nDamaged\n")
    size = manifest.subtasks[VERTEX][0].size
    assert damaged == (
        f"  {first}: {size - 3} bytes instead of {size}\n"
        f"  {second}: the file is missing\n"
        "  feedback/x: the file is missing\n"
    )


def test_the_newest_checkpoint_is_shown_with_what_is_wrong_with_newer_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_savepoint(tmp_path, kind="checkpoint", epochs=2)
    broken = tmp_path / "manifests" / "000000000008.manifest"
    broken.write_bytes(b"millrace")
    code, text = printed(capsys, "inspect", str(tmp_path))
    assert code == 1
    assert text.startswith(f"Checkpoint {tmp_path}\n")
    assert "Epoch     7" in text
    assert text.endswith("  manifests/000000000008.manifest: no manifest, or cut short within its first line\n")


def test_state_that_was_carried_along_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = write_savepoint(tmp_path)
    operators = [operator for operator in manifest.operators if operator.uid != PLAIN]
    write_manifest(open_files(tmp_path), msgspec.structs.replace(manifest, operators=operators))
    _, text = printed(capsys, "inspect", str(tmp_path))
    assert "Carried along: the program that wrote this did not ask for it any more" in text
    assert "  untyped   pickled  value  87 B" in text


def test_what_is_no_savepoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("inspect", "dispose"):
        assert main(["savepoint", action, str(tmp_path)]) == 1
        assert "is no savepoint" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"apiKey": "x", "sasl": {"client_secret": "y"}}, {"apiKey": "***", "sasl": {"client_secret": "***"}}),
        ({"url": "jdbc:pg://me:pw@host/db"}, {"url": "jdbc:pg://***@host/db"}),
        ({"offset": '{"topic": {"0": 5}, "token": "t"}'}, {"offset": {"topic": {"0": 5}, "token": "***"}}),
        ([1, "plain", None], [1, "plain", None]),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(settings: Any, shown: Any) -> None:
    assert without_secrets(settings) == shown


# -- diff -------------------------------------------------------------------------------------------------------------


def test_the_same_program_changes_nothing(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["savepoint", "diff", saved, job(tmp_path, *SAME)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "built\n")
    assert out.partition("\n\n")[2].splitlines() == [
        "+ words (Source: Collection Source): new, without state",
        "~ totals (Totals)",
        "    parallelism 1 -> 2",
        "    3 states unchanged",
        "",
        "The restore would work.",
        "Signs: + new, - lost, ~ changed, ! refused, ? kept as it is, = the same",
    ]


def test_changes_are_told_state_by_state(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = job(
        tmp_path,
        'ValueStateDescriptor("total", Types.DOUBLE())',
        'ListStateDescriptor("seen", Types.ROW_NAMED(["at", "price"], [Types.LONG(), Types.DOUBLE()]))',
        'ValueStateDescriptor("fresh", Types.LONG())',
        more='totals.map(Broken()).uid("broken")',
    )
    code, text = printed(capsys, "diff", saved, script)
    assert code == 1
    assert text.partition("without state\n")[2].splitlines() == [
        "! totals (Totals)",
        "    parallelism 1 -> 2",
        "    ~  total  LONG becomes DOUBLE",
        "    !  seen   field 'price': STRING cannot become DOUBLE. Declare the old type, or give the state a",
        "                new name and let it begin empty.",
        "    +  fresh  value of LONG, new: it begins empty",
        "    ?  flags  not asked for in open(): carried along as it is",
        "+ broken (Map)",
        "    states unknown: ValueError: no database here",
        "",
        "The restore would fail: 1 change is refused.",
        "Signs: + new, - lost, ~ changed, ! refused, ? kept as it is, = the same",
    ]


def test_a_changed_key_or_kind_is_refused(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(job(tmp_path, 'MapStateDescriptor("total", Types.STRING(), Types.LONG())', SAME[1]))
    path.write_text(path.read_text().replace("lambda word: word, Types.STRING()", "len, Types.LONG()"))
    code, text = printed(capsys, "diff", saved, str(path))
    assert code == 1
    assert "!  total  was value and is map: give it a new name, or declare it as before" in text
    assert "!  seen   the key: STRING cannot become LONG. Keep the type of the key" in text


def test_lost_state_fails_unless_it_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_savepoint(tmp_path / "sp")
    script = job(tmp_path)
    code, text = printed(capsys, "diff", str(tmp_path / "sp"), script)
    assert code == 1
    assert "- profiles (Profiles)\n    is not in the program: its state would be lost\n" in text
    assert "    -  total              value with 12 entries\n" in text
    assert "    -  processing timers  timers with 12 entries\n" in text
    assert "- orders (Source: Orders)\n    is not in the program: what this source has read would" in text
    assert "The restore would fail: the state of profiles (Profiles), untyped (Plain things)" in text
    for option in ("-n", "--allow-non-restored-state", "--allowNonRestoredState"):
        code, text = printed(capsys, "diff", option, str(tmp_path / "sp"), script)
        assert code == 0
        assert "The restore would work, and the state of profiles (Profiles)" in text


def test_key_groups_are_checked(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = printed(capsys, "diff", saved, job(tmp_path, *SAME, more="totals.set_max_parallelism(64)"))
    assert code == 1
    assert "max parallelism 128 -> 64: keyed state is kept by key group, and their number is fixed" in text
    code, text = printed(capsys, "diff", saved, job(tmp_path, *SAME, more="totals.set_parallelism(200)"))
    assert code == 1
    assert "parallelism 200 is more than the 128 key groups of its state" in text


def test_operators_without_uid_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    savepoint = Savepoint.new().with_operator("@7", Types.STRING()).with_keyed_state("@7", TOTAL, {"a": 1})
    savepoint.write(tmp_path / "sp")
    path = Path(job(tmp_path, *SAME))
    path.write_text(path.read_text().replace('.uid("totals")', ""))
    _, text = printed(capsys, "diff", str(tmp_path / "sp"), str(path))
    assert "has no uid: it is told by its place in the program, which any change may move" in text
    assert "has no uid: it may be in the program at another place" in text


def test_the_job_is_chosen_by_its_name(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(job(tmp_path, *SAME))
    path.write_text(path.read_text() + 'env.from_collection([1]).print()\nenv.execute("other")\n')
    assert main(["savepoint", "diff", saved, str(path)]) == 0
    assert "Job 'count'" in capsys.readouterr().out
    assert main(["savepoint", "diff", "--job", "third", saved, str(path)]) == 1
    assert "executes no job 'third', but 'count', 'other'." in capsys.readouterr().err


# -- dispose ----------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_removed_whole(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savepoint", "dispose", saved]) == 0
    assert capsys.readouterr().out == f"Removed {saved} (2 files).\n"
    assert not Path(saved).exists()


def test_only_savepoints_are_removed(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = tmp_path / "checkpoints"
    write_savepoint(checkpoints, kind="checkpoint", epochs=2)
    assert main(["savepoint", "dispose", str(checkpoints)]) == 1
    assert "is the checkpoint directory of a job, not a savepoint" in capsys.readouterr().err
    (Path(saved) / "notes.txt").write_text("mine")
    assert main(["savepoint", "dispose", saved]) == 1
    assert "holds what is no part of a savepoint: notes.txt" in capsys.readouterr().err
    (Path(saved) / "notes.txt").unlink()
    (Path(saved) / "state" / "link").symlink_to(tmp_path)
    assert main(["savepoint", "dispose", saved]) == 1
    assert "state/link" in capsys.readouterr().err
    assert list(Savepoint.read(saved).keyed_state("totals", "total"))
    assert list(Savepoint.read(checkpoints).keyed_state(RICH, "total"))
