"""`rankboard report`: what it writes is read back, and holds no markup but its own."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import pytest

from remote.events import SessionClosed
from remote.plan.plan import Script, Upload
from remote.record.marks import write_note
from remote.study.folder import RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.study import Trial
from remote.study.study_file import parse_study
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan, raised
from tests.kit.printing import HELLO
from tests.kit.recorded import recorded
from tests.kit.scripts import script, seen, started
from tests.kit.studies import BYTES, history, study
from training.job import Job
from training.wire.host_events import Exited, HostSample, OutputText
from training.wire.rank_events import Evaluated, Saved
from tui.commands.report import report
from tui.report.chapter import make_chapter
from tui.report.data import to_csv, to_json
from tui.report.load import SubjectReader
from tui.report.pages import escape_markdown, to_html, to_markdown
from tui.report.render import RenderedPicture
from tui.report.write import assemble_report

Run = Callable[..., Done]
assert run  # the fixture

NO_PICTURE = RenderedPicture("<svg/>", "", b"")
"""For a page of which the text is read."""
EVIL = "<script>alert('x')</script>"
TEXT = f"""
title = "Two ways {EVIL}"
question = "Which one, & why?"
repetitions = 3
[job]
model = "lenet5"
dataset = "digits"
batch_size = 32
[axes]
method = [
    {{ label = "ring {EVIL}", sync = "ring", granularity = "flat" }},
    {{ label = "$ddp_1$", sync = "ddp" }},
]
nodes = [2, 4]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[compare]
axis = "method"
reference = "$ddp_1$"
baseline = {{ method = "one node" , nodes = 1 }}
"""
QUICK = """
repetitions = 1
[axes]
sync = ["ring"]
[quick]
job = { steps = 2 }
"""
SECONDS = {("none", 1): 1.0, ("ring", 2): 0.6, ("ring", 4): 0.4, ("ddp", 2): 0.5, ("ddp", 4): 0.25}


def took(trial: Trial) -> float:
    """Each repetition is 1 % slower than the one before."""
    known = SECONDS[trial.work.sync, trial.cell.place.nodes]
    return known * (1 + 0.01 * trial.repetition)


def failed(trial: Trial) -> str:
    is_bad = (trial.work.sync, trial.cell.place.nodes, trial.repetition) == ("ring", 4, 2)
    return f"\u202erank 3: =1+1 {EVIL}\x00" if is_bad else ""


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have no pictures, which take most of the time that a report takes."""
    monkeypatch.setattr("tui.report.write.render", lambda _: NO_PICTURE)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report of a study, with its submission."""
    folder = tmp_path_factory.mktemp("report")
    study(folder / "runs", TEXT, took, failed, {"local": 4, "link": "1gbit"})
    report(["small"], out=folder / "out", submission=True, runs_dir=folder / "runs")
    return folder / "out"


@pytest.fixture(scope="session")
def page(made: Path) -> Any:
    """Its page, parsed; a mistake in the HTML fails."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse((made / "report.html").read_text())


def name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def said(element: Any) -> str:
    return re.sub(r"\s+", " ", " ".join(element.itertext()))


def rows(page: Any, title: str) -> list[dict[str, str]]:
    """The rows of the table with this title."""
    box = next(one for one in page.iter("div") if one.get("aria-label") == title)
    head, *body = [[said(cell).strip() for cell in row] for row in box.iter("tr")]
    return [dict(zip(head, row, strict=True)) for row in body]


def test_the_page_has_no_script_and_asks_for_nothing(page: Any) -> None:
    names = {name(element) for element in page.iter()}
    assert not names & {"script", "img", "iframe", "object", "link", "embed", "image"} - {"link"}
    policy = next(one.get("content") for one in page.iter("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for element in page.iter():
        for key, value in element.attrib.items():
            assert not str(key).startswith("on"), (key, value)
            if str(key).rpartition("}")[2] in ("src", "href", "xlink:href"):
                assert value.startswith("#") or value == "data:,", value
            assert "url(" not in value or "url(#" in value, value


def test_text_from_elsewhere_stays_text(page: Any) -> None:
    assert EVIL in said(page.find("head/title"))
    for part in ("svg", "table", "figcaption"):
        texts = [said(one) for one in page.iter() if name(one) == part]
        assert any("ring <script>" in text for text in texts), part
    assert any("$ddp_1$" in said(one) for one in page.iter() if name(one) == "svg")


def test_identifiers_are_unique_and_links_lead_to_them(page: Any) -> None:
    ids = Counter(one.get("id") for one in page.iter() if one.get("id"))
    assert ids
    assert ids.most_common(1)[0][1] == 1
    links = [one.get("href") for one in page.iter("a")]
    assert links
    assert all(link[1:] in ids for link in links)


def test_pictures_say_what_they_show(page: Any) -> None:
    pictures = [one for one in page.iter() if name(one) == "svg"]
    alts = [one.get("aria-label") for one in pictures]
    assert len(pictures) > 8
    assert all(one.get("role") == "img" for one in pictures)
    assert all(len(alt) > 40 for alt in alts)
    assert any("Speed-up" in alt and "$ddp_1$" in alt for alt in alts)


def test_colours_follow_the_theme(page: Any) -> None:
    styles = " ".join(one.get("style", "") for one in page.iter() if name(one) != "style")
    assert "currentColor" in styles
    assert "#1b1e23" not in styles
    assert "dejavu" not in styles.lower()


def test_the_table_of_the_reference(page: Any) -> None:
    found = {row["task"]: row for row in rows(page, "Results")}
    assert found["one node, nodes 1"]["speed-up"] == "1.00"
    assert found["$ddp_1$, nodes 4"] | {"runs": ""} == {
        "task": "$ddp_1$, nodes 4",
        "s/iter": "0.255",
        "test loss": "0.5000",
        "test accuracy": "75.0%",
        "speed-up": "4.00",
        "runs": "",
    }
    assert found[f"ring {EVIL}, nodes 4"]["runs"] == "2, 1 failed"


def test_the_settings_are_listed(page: Any) -> None:
    found = {row["setting"]: row["value"] for row in rows(page, "Settings of all runs")}
    assert found["model"] == "lenet5"
    assert found["global batch"] == "32"
    assert found["batch of a rank"] == "16, 8, 32"
    assert found["learning rate (SGD)"] == "0.1"
    assert found["seed"] == "42, 43, 44"
    assert found["images"] == "all for training, 4 for testing"
    assert found["link of a host"] == "1gbit"
    assert "machines" not in found  # each host is one of its own
    cells = {row["cell"]: row for row in rows(page, "Settings that differ")}
    assert cells[f"ring {EVIL}, nodes 4"] == {
        "cell": f"ring {EVIL}, nodes 4",
        "sync method": "ring",
        "nodes": "4",
        "ranks": "4",
        "granularity": "flat",
    }


def test_cells_are_compared_with_intervals(page: Any) -> None:
    found = {row["cell"]: row for row in rows(page, "Speed-up and comparison")}
    assert found[f"ring {EVIL}, nodes 2"]["finding"] == "slower"
    assert found[f"ring {EVIL}, nodes 2"]["against"] == "$ddp_1$, nodes 2"
    assert found["$ddp_1$, nodes 2"]["efficiency"] == "100%"
    times = {row["cell"]: row for row in rows(page, "Seconds per iteration")}
    assert times["$ddp_1$, nodes 2"]["stable?"] == "yes"
    assert times["$ddp_1$, nodes 2"]["variation"] == "1.0%"
    low, _, high = times["$ddp_1$, nodes 2"]["95% interval"].partition(" to ")
    assert float(low) < 0.51 < float(high)


def test_the_links_are_used_in_part(page: Any) -> None:
    """At 4 ranks and 1 Gbit/s a ring takes at least 2 x 3/4 x 247 kB / 125 MB/s = 3 ms. Rank 0 was
    blocked for 10% of 408 ms. The exchange of ddp overlaps: it had up to 255 ms."""
    found = {row["cell"]: row for row in rows(page, "Network")}
    row = found[f"ring {EVIL}, nodes 4"]
    assert row["sent, mean"] == row["sent, most"] == f"{BYTES / 1024:.0f} KiB"
    assert (row["at best s"], row["link"], row["share of link"]) == ("0.0030", "1gbit", "7%")
    row = found["$ddp_1$, nodes 4"]
    assert (row["at best s"], row["share of link"], row["hidden"]) == ("0.0030", "≥ 1%", "0%")


def test_the_numbers_say_why(page: Any) -> None:
    """A ring of 4 carries 1.5 times the gradients."""
    [part] = [one for one in page.iter("section") if one.get("id") == "small-network"]
    text = said(part)
    assert "each rank sends and receives 1.5 x 241 KiB per step, at least 0.0030 s on a" in text


def test_nodes_waits_and_targets(page: Any) -> None:
    assert rows(page, "$ddp_1$, nodes 2")[1]["node"] == "1 (node2)"
    waited = rows(page, "Who waited: $ddp_1$, nodes 2")
    assert [row["last of all"] for row in waited] == ["100%", "0%"]
    targets = rows(page, "Time to targets")[0]
    assert len(targets) == 5
    assert all(" s" in value for key, value in targets.items() if key != "cell")


def test_equal_losses_are_said_to_be_equal(page: Any) -> None:
    verdict = next(one for one in page.iter("section") if one.get("class") == "verdict")
    assert "The final training loss is equal within rounding in all cells" in said(verdict)
    found = {row["cell"]: row for row in rows(page, "Final training loss")}
    assert found[f"ring {EVIL}, nodes 2"]["finding"] == "equal within rounding"


def test_a_failed_cell_keeps_its_cause_on_top(page: Any) -> None:
    alerts = next(one for one in page.iter("section") if one.get("class") == "alerts")
    assert f"failed: rank 3: =1+1 {EVIL}" in said(alerts)
    made = rows(page, "Runs in the order in which they were made")
    assert len(made) == 15
    assert [row["verdict"] for row in made].count("failed") == 1
    assert [row["run"] for row in made] == sorted(row["run"] for row in made)


def test_runs_that_do_not_count_are_in_the_table(tmp_path: Path) -> None:
    folder, found = study(tmp_path, QUICK, lambda trial: 0.1)
    [trial] = found.trials()
    for at, end in enumerate((TrialOutcome.INTERRUPTED, TrialOutcome.FAILED, None)):
        name = f"20261122-00000{at}-ring"
        folder.write(RunBegun(trial.key, name))
        if end:
            folder.write(
                RunEnded(trial.key, name, end, cause="" if end != "failed" else "a rank died")
            )
    folder.write(RunBegun(trial.key, "20261122-000003-ring"))
    subject = SubjectReader(tmp_path, 0.0, str).read_study(folder, found)
    sections = {section.name: section for section in make_chapter(subject).sections}
    [table] = sections["procedure"].tables
    found_rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [(row["verdict"], row["remark"]) for row in found_rows] == [
        ("interrupted", "-"),
        ("failed", "a rank died"),
        ("interrupted", "-"),
        ("running", "-"),
        ("finished", "-"),
    ]
    says = " ".join(sections["procedure"].paragraphs)
    assert "do not count: 2 interrupted, 1 failed, 1 running." in says
    rows_of_csv = list(csv.DictReader(to_csv([subject]).splitlines()))
    verdicts = sorted(row["verdict"] for row in rows_of_csv)
    assert verdicts == ["failed", "finished", "interrupted", "interrupted", "running"]


def test_a_command_repeats_the_study(page: Any) -> None:
    lines = "\n".join("".join(one.itertext()) for one in page.iter("pre"))
    assert "rankboard study small --new --local 4 --link 1gbit" in lines


def test_markdown_has_its_pictures_and_no_markup(made: Path) -> None:
    text = (made / "report.md").read_text()
    pictures = re.findall(r"\]\((pictures/[^)]*)\)", text)
    assert len(pictures) == 2 * len(list((made / "pictures").glob("*.svg")))
    assert all((made / one).stat().st_size for one in pictures)
    assert not re.search(r"(?<!\\)<script", re.sub(r"^ {4}.*$", "", text, flags=re.M))
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    assert not [one for one, after in pairwise(heads) if one == after]
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(tables) > 10
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_pictures_are_files_of_their_own(made: Path) -> None:
    for path in (made / "pictures").glob("*.svg"):
        root = ElementTree.parse(path).getroot()
        assert root.get("aria-label")
        assert "prefers-color-scheme:dark" in "".join(root.itertext())
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_values_are_read_back(made: Path) -> None:
    found = list(csv.DictReader((made / "data.csv").read_text().splitlines()))
    assert len(found) == 15
    [bad] = [row for row in found if row["verdict"] == "failed"]
    assert bad["cause"] == f"\u202erank 3: =1+1 {EVIL}\x00"
    first = next(row for row in found if row["run"].endswith("none"))
    assert datetime.fromisoformat(first["started"]).tzinfo
    assert float(first["step_seconds"]) in [pytest.approx(1 + 0.01 * at) for at in (1, 2, 3)]
    whole = json.loads((made / "data.json").read_text(), parse_constant=pytest.fail)
    [subject] = whole["subjects"]
    cell = next(one for one in subject["cells"] if one["cell"] == "$ddp_1$, nodes 4")
    assert cell["speed_up"]["value"] == pytest.approx(4.0)
    assert [run["repetition"] for run in cell["runs"]] == [1, 2, 3]
    assert cell["runs"][0]["mean_over_ranks"]["step"] == list(range(1, 13))


def test_the_values_name_no_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    course = home / "course"
    course.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(course)
    folders = []
    for name, data_dir in (("a-run", course / "data"), ("b-run", home / "data")):
        of = replace(plan(1), run=name, work=Job(data_dir=str(data_dir)))
        hello = replace(HELLO, executable=f"{home}/python", folder=f"{home}/run")
        history = History(of).say(0, replace(hello, data_folder=str(data_dir))).training(3)
        folders.append(recorded(tmp_path / "runs", history.done(0).session(SessionClosed())))
    subject = SubjectReader(tmp_path / "runs", 0.0, str).read_runs(folders)
    values = to_json([subject], [make_chapter(subject)])
    assert str(tmp_path) not in values
    runs = [cell["runs"][0] for cell in json.loads(values)["subjects"][0]["cells"]]
    for entry, data_dir in zip(runs, ("data", "~/data"), strict=True):
        assert entry["settings"]["data-dir"] == entry["summary"]["job"]["data_dir"] == data_dir
        facts = entry["summary"]["hosts"][0]["facts"]
        assert facts["hostname"] == HELLO.hostname
        assert not {"executable", "folder", "data_folder"} & facts.keys()
        assert not {"user", "pid", "boot_id", "interfaces"} & facts.keys()


def test_the_submission_has_what_an_assignment_asks_for(made: Path) -> None:
    with zipfile.ZipFile(made / "out.zip") as archive:
        names, entries = archive.namelist(), archive.infolist()
        readme = archive.read("out/README.md").decode()
        plan_of_run = json.loads(archive.read(next(n for n in names if n.endswith("-ring.json"))))
    assert "out/report/report.html" in names
    assert len(set(names)) == len(names)
    assert not [name for name in names if "/." in name]
    assert "out/configuration/small.toml" in names
    parts = ("loop", "models/lenet5", "datasets/digits", "sync/ring", "sync/ddp", "sync/none")
    assert {f"out/code/training/{part}.py" for part in parts} <= {*names}
    assert "rankboard study configuration/small.toml --local 4 --link 1gbit" in readme
    assert "hosts file" in readme
    assert EVIL not in re.sub(r"^ {4}.*$", "", readme, flags=re.M)
    assert not any("__pycache__" in name for name in names)
    assert {one.date_time[0] for one in entries} == {datetime.now().year}
    assert plan_of_run.keys() == {"job", "script", "world_size", "ranks", "policy"}


def doubtful(trial: Trial) -> float:
    """A ring on four nodes is 19 times as fast as one node, which is impossible."""
    is_odd = (trial.work.sync, trial.cell.place.nodes) == ("ring", 4)
    return took(trial) / (7.6 if is_odd else 1)


def test_a_speed_up_that_nodes_cannot_bring_is_the_headline(tmp_path: Path) -> None:
    """As are other numbers of threads; nothing praises either."""
    text = TEXT.replace(EVIL, "").replace("$ddp_1$", "ddp")
    folder, found = study(
        tmp_path, text, doubtful, threads=lambda trial: 1 if trial.cell.place.nodes == 4 else 2
    )
    subject = SubjectReader(tmp_path, 0.0, len).read_study(folder, found)
    made = make_chapter(subject)
    first, second = made.doubts
    others = made.verdict
    assert first.startswith(
        "4 nodes were measured 19 times as fast as one (ring , nodes 4): more than 4 is not "
        "possible by adding nodes; the runs on one node had 2 threads per rank, the others 1."
    )
    assert second.startswith("4 nodes were measured 4 times as fast as one (ddp, nodes 4), but the")
    assert "19" not in " ".join(others)
    assert "as fast as one node" not in " ".join(others)
    [scaling] = [section for section in made.sections if section.name == "scaling"]
    [table] = scaling.tables
    shown = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert shown["ring , nodes 4"]["speed-up"] == "19.00 ?"
    assert shown["ring , nodes 4"]["efficiency"] == "475% ?"
    assert shown["ring , nodes 2"]["efficiency"] == "83%"
    assert "?: in doubt, do not use it" in table.note
    [results] = [section for section in made.sections if section.name == "results"]
    assert [row[-2] for row in results.tables[0].rows][1] == "19.00 ?"
    written = assemble_report([made], "")
    drawn = {picture.name: NO_PICTURE for picture in written.pictures}
    shown_first = re.findall(r"<p class=.([a-z]+).>", to_html(written, drawn))
    assert shown_first[:3] == ["note", "question", "doubt"]
    assert f"- **{escape_markdown(first)}**" in to_markdown(written)
    values = json.loads(to_json([subject], [made]))["subjects"][0]
    assert values["verdict"][0] == first
    labels = {cell["key"]: cell["cell"] for cell in values["cells"]}
    doubts = {labels[one["more"]["name"]]: one for one in values["doubts"]}
    assert (doubts["ring , nodes 4"]["kind"], doubts["ring , nodes 4"]["most"]) == ("too fast", 4)
    assert doubts["ring , nodes 4"]["fewer"]["conditions"]["threads"] == [2]
    assert doubts["ddp, nodes 4"]["kind"] == "other threads"


def test_the_journal_of_an_older_study_knows_no_threads_but_its_runs_do(tmp_path: Path) -> None:
    folder, found = study(
        tmp_path, TEXT, took, threads=lambda trial: 1 if trial.cell.place.nodes == 4 else 2
    )
    lines = [json.loads(line) for line in (folder.path / "journal.jsonl").read_text().splitlines()]
    older = [{key: one for key, one in line.items() if key != "conditions"} for line in lines]
    (folder.path / "journal.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in older))
    made = make_chapter(SubjectReader(tmp_path, 0.0, len).read_study(folder, found))
    assert "but the runs on one node had 2 threads per rank, the others 1" in made.doubts[0]
    assert "as fast as one node" not in " ".join(made.verdict)


@pytest.mark.usefixtures("no_pictures")
def test_a_quick_study_is_reported_under_its_own_name(run: Run, tmp_path: Path) -> None:
    folder, _ = study(tmp_path / "runs", QUICK, lambda trial: 0.1)
    quick = folder.path.rename(tmp_path / "runs" / "small-quick.study")
    StudyFolder(quick).keep(StudyCall(QUICK, {}, {}, quick=True))
    done = run(report, names=["small"])
    assert (done.returncode, done.stdout) == (0, "report-small-quick/report.html\n"), done.stderr
    said = "only the quick variant of small was started: this reports small-quick"
    assert done.stderr == f"rankboard: {said}\n"
    assert "(quick variant)" in Path("report-small-quick/report.html").read_text()


def start_over(folder: StudyFolder, kept_name: str) -> None:
    """Keep a study under another name, as --new does, and make all its runs again."""
    folder.path.rename(folder.path.with_name(f"{kept_name}.study"))
    call = StudyFolder.of(folder.path.parent, kept_name).call()
    folder.keep(call)
    for number, trial in enumerate(parse_study(folder.name, call.text).trials()):
        run = f"20261124-{number:06}-again"
        recorded(folder.path.parent, history(trial, 0.2, run))
        folder.write(RunBegun(trial.key, run))
        folder.write(RunEnded(trial.key, run, TrialOutcome.COUNTED, 0.2))


@pytest.mark.usefixtures("no_pictures")
def test_the_report_of_a_study_that_was_started_over_keeps_the_earlier_one(
    run: Run, tmp_path: Path
) -> None:
    folder, _ = study(tmp_path / "runs", QUICK, lambda trial: 0.1)
    assert run(report, names=["small"], submission=True).returncode == 0
    report_folder = Path("report-small")
    earlier = {
        str(path.relative_to(report_folder)): path.read_bytes()
        for path in report_folder.rglob("*")
        if path.is_file()
    }
    (report_folder / "homework.md").write_text("mine")
    # The same study again, with more runs or not: its report is replaced.
    assert run(report, names=["small"], submission=True).stderr == ""

    start_over(folder, "small-20261124-090000")
    done = run(report, names=["small"])
    assert done.returncode == 0
    assert done.stderr == (
        "rankboard: report-small had a report of small-20261124-090000: it is kept as "
        "report-small-20261124-090000\n"
    )
    kept_folder = Path("report-small-20261124-090000")
    kept = {str(path.relative_to(kept_folder)) for path in kept_folder.rglob("*") if path.is_file()}
    assert kept == earlier.keys()
    archive = "report-small.zip"
    assert zipfile.is_zipfile(kept_folder / archive)
    assert "-again" not in (kept_folder / "data.csv").read_text()
    assert "-again" in (report_folder / "data.csv").read_text()
    assert (report_folder / "homework.md").read_text() == "mine"
    assert not (report_folder / archive).exists()  # it was of the earlier runs
    # The kept one is a report as any other, and is replaced by one of the same runs.
    done = run(report, names=["small-20261124-090000"])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("no_pictures")
def test_a_report_of_runs_that_are_gone_is_kept_by_its_time(run: Run, tmp_path: Path) -> None:
    folder, _ = study(tmp_path / "runs", QUICK, lambda trial: 0.1)
    assert run(report, names=["small"], out=Path("mine")).returncode == 0
    start_over(folder, "small-20261124-090000")
    shutil.rmtree(tmp_path / "runs" / "small-20261124-090000.study")
    done = run(report, names=["small"], out=Path("mine"))
    [kept_folder] = Path().glob("mine-*")
    assert done.stderr == (
        f"rankboard: mine had a report of other runs: it is kept as {kept_folder}\n"
    )
    assert (kept_folder / "report.html").is_file()
    assert Path("mine/report.html").is_file()


# Runs ---------------------------------------------------------------------------------------------


def finished(runs_dir: Path, name: str, steps: int = 5) -> None:
    of = History(replace(plan(2), run=name)).training(steps, samples=4)
    recorded(runs_dir, of.done(0, 1).session(SessionClosed()))


def test_a_run_alone_is_reported(run: Run, tmp_path: Path) -> None:
    of = History(replace(plan(2), run="alone")).training(3).rank(0, *raised(0, f"Error: {EVIL}"))
    recorded(tmp_path / "runs", of.rank(1, Exited(1, 0)).session(SessionClosed()))
    done = run(report, names=["last"])
    assert (done.returncode, done.stdout) == (0, "report-last/report.html\n"), done.stderr
    text = Path("report-last/report.html").read_text()
    assert "<script" not in text
    assert "Read this first" in text
    assert "Error: &lt;script&gt;" in text


def test_names_of_hosts_and_notes_stay_text(run: Run, tmp_path: Path) -> None:
    hosts = tuple(replace(host, name=f"{EVIL}{host.name}") for host in plan(2).hosts)
    of = History(replace(plan(2), run="a-run", hosts=hosts)).training(5, samples=4)
    of.say(0, HostSample((50.0,), 3, 8, 100, 200))
    folder = recorded(tmp_path / "runs", of.done(0, 1).session(SessionClosed()))
    write_note(folder, f"see {EVIL}\x1b[31m")
    assert run(report, names=["a-run"]).returncode == 0
    text = Path("report-a-run/report.html").read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count("&lt;script&gt;") > 5
    html5lib.HTMLParser(strict=True).parse(text)


@pytest.mark.usefixtures("no_pictures")
def test_the_report_of_a_run_begins_with_what_became_of_it(run: Run, tmp_path: Path) -> None:
    of = History(replace(plan(2), run="alone")).training(3)
    of.rank(0, Saved(0, 1, 3, 0.5, 1 << 20)).rank(1, Saved(1, 1, 3, 0.5, 1 << 20))
    recorded(tmp_path / "runs", of.done(0, 1).session(SessionClosed()))
    assert run(report, names=["alone"]).returncode == 0
    lines = Path("report-alone/report.md").read_text().splitlines()
    verdict = [line for line in lines if line.startswith("- ")]
    assert verdict[0].startswith("- 2 ranks on 2 hosts, ddp, lenet5 on digits; finished after")
    assert verdict[1].startswith("- 1 checkpoint of ")


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_was_not_tested_has_no_values_of_a_test(run: Run, tmp_path: Path) -> None:
    tested = History(replace(plan(2), run="a-run")).training(3)
    tested.rank(0, Evaluated(0, 1, 3, 0.5, 0.75, 100, 0.1)).done(0, 1)
    recorded(tmp_path / "runs", tested.session(SessionClosed()))
    finished(tmp_path / "runs", "b-run")
    assert run(report, names=["a-run", "b-run"]).returncode == 0
    [path] = Path.cwd().glob("report-*/report.md")
    lines = path.read_text().splitlines()
    begin = lines.index("| task | s/iter | test loss | test accuracy | speed-up | runs |")
    rows_of_table = [line.split(" | ") for line in lines[begin + 2 : begin + 4]]
    assert [cells[2:4] for cells in rows_of_table] == [["0.5000", "75.0%"], ["-", "-"]]


@pytest.mark.usefixtures("no_pictures")
def test_several_runs_are_compared_with_the_first(run: Run, tmp_path: Path) -> None:
    finished(tmp_path / "runs", "a-run")
    finished(tmp_path / "runs", "b-run")
    done = run(report, names=["a-run", "b-run"], out=Path("there"))
    assert done.stdout == "there/report.html\n", done.stderr
    text = Path("there/report.html").read_text()
    assert "B vs A: no verdict: same recorded settings, and +0.0% per step" in text
    assert Path("there/pictures/seconds.svg").exists()
    again = run(report, names=["b-run"], out=Path("there"))
    assert again.returncode == 0
    assert not Path("there/pictures/seconds.svg").exists()  # that was of two runs


def test_a_run_without_steps_is_reported(run: Run, tmp_path: Path) -> None:
    of = History(replace(plan(1, script=True), run="mine")).rank(0, Exited(0, 0))
    recorded(tmp_path / "runs", of.session(SessionClosed()))
    assert run(report, names=["mine"]).returncode == 0
    assert ", train.py; " in Path("report-mine/report.html").read_text()


def test_a_submission_has_the_users_own_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print('mine')")
    upload = Upload(str(tmp_path / "project"), "")
    of = History(replace(plan(1, script=True), run="mine", uploads=(upload,), project="p"))
    recorded(tmp_path / "runs", of.rank(0, Exited(0, 0)).session(SessionClosed()))
    assert run(report, names=["mine"], submission=True).returncode == 0
    with zipfile.ZipFile("report-mine/report-mine.zip") as archive:
        assert archive.read("report-mine/code/train.py") == b"print('mine')"
        assert "report-mine/configuration/mine.json" in archive.namelist()
        assert "hosts file" not in archive.read("report-mine/README.md").decode()
    (tmp_path / "runs" / "mine" / "plan.mac").unlink()  # then anybody may have written the plan
    assert run(report, names=["mine"], submission=True).returncode == 0
    with zipfile.ZipFile("report-mine/report-mine.zip") as archive:
        assert "report-mine/code/train.py" not in archive.namelist()


def test_a_submission_has_the_scripts_of_all_parts(run: Run, tmp_path: Path) -> None:
    upload = Upload(str(tmp_path / "project"), "")
    for part in ("part2a", "part3"):
        script = tmp_path / "project" / part / "main.py"
        script.parent.mkdir(parents=True)
        script.write_text(part)
        made_by = replace(
            plan(1, script=True),
            run=part,
            work=Script((f"{part}/main.py",)),
            uploads=(upload,),
            project="p",
        )
        of = History(made_by).rank(0, Exited(0, 0)).session(SessionClosed())
        recorded(tmp_path / "runs", of)
    assert run(report, names=["part2a", "part3"], out=Path("ours"), submission=True).returncode == 0
    with zipfile.ZipFile("ours/ours.zip") as archive:
        assert archive.read("ours/code/part2a/main.py") == b"part2a"
        assert archive.read("ours/code/part3/main.py") == b"part3"


@pytest.mark.parametrize(("transport", "is_in"), [("local", True), ("ssh", False)])
def test_a_submission_has_the_script_of_ranks_of_this_machine(
    run: Run, tmp_path: Path, transport: str, is_in: bool
) -> None:
    (tmp_path / "train.py").write_text("print('mine')")
    made_by = replace(plan(1, script=True), work=Script(("train.py",)))
    hosts = [replace(host, transport=transport, cwd=str(tmp_path)) for host in made_by.hosts]
    made_by = replace(made_by, hosts=tuple(hosts))
    recorded(tmp_path / "runs", History(made_by).rank(0, Exited(0, 0)).session(SessionClosed()))
    assert run(report, names=[made_by.run], out=Path("ours"), submission=True).returncode == 0
    with zipfile.ZipFile("ours/ours.zip") as archive:
        assert ("ours/code/train.py" in archive.namelist()) == is_in


def test_a_submission_has_scripts_that_a_shell_or_a_place_names(run: Run, tmp_path: Path) -> None:
    scripts = ("part2b/main.py", "master/train.py", "slave/train.py")
    for name in scripts:
        (tmp_path / "project" / name).parent.mkdir(parents=True)
        (tmp_path / "project" / name).write_text(name)
    upload = Upload(str(tmp_path / "project"), "")
    words_by_run = {
        "in-shell": ("bash", "-c", "cd part2b && python main.py --rank {rank}"),
        "by-place": ("{rank:master:slave}/train.py",),
    }
    for name, words in words_by_run.items():
        made_by = replace(plan(2, script=True), run=name, work=Script(words), uploads=(upload,))
        of = History(made_by).rank(0, Exited(0, 0)).session(SessionClosed())
        recorded(tmp_path / "runs", of)
    assert run(report, names=[*words_by_run], out=Path("ours"), submission=True).returncode == 0
    with zipfile.ZipFile("ours/ours.zip") as archive:
        code = {name for name in archive.namelist() if name.startswith("ours/code/")}
        readme = archive.read("ours/README.md").decode()
    assert code == {f"ours/code/{name}" for name in scripts}
    assert "| code/ |" in readme
    assert "code/training/" not in readme
    assert "logs/" not in readme, "these runs have printed nothing"


def test_what_is_no_report_is_not_replaced(run: Run, tmp_path: Path) -> None:
    finished(tmp_path / "runs", "a-run")
    Path("mine").mkdir()
    Path("mine/thesis.tex").touch()
    for out in ("mine", "runs/a-run"):
        done = run(report, names=["a-run"], out=Path(out))
        assert done.returncode == 2
        assert "give another" in done.stderr
    done = run(report, names=["missing"])
    assert done.returncode == 2
    assert done.stderr.startswith("rankboard: No run and no study called 'missing' in ")


def test_missing_packages_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else there(name)
    )
    done = run(report, names=["last"])
    assert done.returncode == 2
    assert "needs packages that are not installed: matplotlib;" in done.stderr
    installing = f"{sys.executable} -m pip install 'rankboard[report]'"
    assert f"rankboard: run {installing}\n" in done.stderr


def test_what_a_program_tells_is_in_the_report(tmp_path: Path) -> None:
    history = started(script(watch=True))
    for step in range(1, 41):
        for rank in range(4):
            history.say(history.plan.slots[rank].host, seen(rank, step, 2.0 / step), after=0.01)
        text = f"step={step} loss=1.0 perplexity={step + 0.25}"
        history.say(0, OutputText(0, "stdout", text))
    history.rank(0, Exited(0, 0)).session(SessionClosed())
    folder = recorded(tmp_path, history)
    sections = make_chapter(SubjectReader(tmp_path, 0.0, str).read_runs([folder])).sections
    tables = [table for section in sections for table in section.tables]
    (told,) = [table for table in tables if table.title == "What the program tells"]
    assert (told.head[1:], told.rows[0][1:]) == (("perplexity",), ("40.2",))
