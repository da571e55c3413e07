"""`import rankboard` with real runs: launched, waited for, stopped, loaded, compared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import rankboard
from tests.kit.launches import ROOT, left_behind
from tests.kit.sshd import Sshd
from tests.kit.wait import GUARD, wait

ENDLESS = ["sh", "-c", "echo idle; exec sleep 600"]
"""A program that computes nothing, for ranks that last."""
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test works in a folder of its own, and none of its processes is there afterwards."""
    monkeypatch.chdir(tmp_path)
    yield
    try:
        wait(lambda: not left_behind(tmp_path), "the end of all that it has started", 20)
    finally:
        for process in left_behind(tmp_path):
            process.kill()


def start_python(code: str) -> subprocess.Popen[str]:
    """A program of a user in this folder."""
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def find_readers(folder: Path) -> list[psutil.Process]:
    """The processes that read the events of a run in this folder."""
    return [process for process in left_behind(folder) if "events" in process.cmdline()]


def test_a_job_is_launched_followed_measured_loaded_and_compared() -> None:
    with rankboard.launch(local=2, model="lenet5", dataset="digits", epochs=1, name="mine") as run:
        assert run.state == "running"
        assert [rank.rank for rank in run.ranks] == [0, 1]
        steps = [event["step"] for event in run.events("step") if event["rank"] == 1]
        outcome = run.wait()
    assert outcome.check().exit_code == 0
    assert steps == list(range(1, len(steps) + 1))
    table = run.steps()
    assert table.num_rows == 2 * len(steps)
    assert table.of_rank(1)["step"].tolist() == steps
    assert {"mean", "evaluations"} <= set(run.tables())
    assert [rank.step for rank in run.ranks] == [len(steps)] * 2
    loaded = rankboard.load("mine")
    assert (loaded.name, loaded.folder, loaded.outcome) == (run.name, run.folder, outcome)
    assert rankboard.load(run.folder).ranks == run.ranks
    assert loaded.stop() == outcome
    other = rankboard.launch(local=2, steps=3)
    other.wait()
    comparison = rankboard.compare(run, other)
    assert [compared.run for compared in comparison.runs] == [run.name, other.name]
    assert "steps" in comparison.differing
    assert comparison.runs[1].finding


def test_a_live_run_can_be_loaded_and_stopped_from_there() -> None:
    run = rankboard.launch(local=2, script=ENDLESS)
    assert run.steps().num_rows == 0
    with pytest.raises(rankboard.WaitTimeout):
        run.wait(0.01)
    loaded = rankboard.load(run.name)
    assert (loaded.state, loaded.outcome) == ("running", None)
    assert loaded.stop().verdict == "stopped"
    assert run.wait().verdict == "stopped"
    assert (run.state, loaded.state) == ("stopped", "stopped")


def test_a_loaded_run_that_is_live_is_read_again() -> None:
    run = rankboard.launch(local=1, script=ENDLESS)
    loaded = rankboard.load(run.name)
    assert loaded.state == "running"
    run.stop(now=True)
    wait(lambda: loaded.state == "stopped", "that its end is seen")
    assert loaded.outcome == run.outcome


def test_who_loaded_a_live_run_waits_for_its_end() -> None:
    run = rankboard.launch(local=1, script=ENDLESS)
    loaded = rankboard.load(run.folder)
    waiting = threading.Thread(target=loaded.wait)
    waiting.start()
    outcome = run.stop(now=True)
    waiting.join(GUARD)
    assert loaded.outcome == outcome


def test_a_failure_is_an_outcome_with_fields() -> None:
    run = rankboard.launch(local=2, script="sh -c 'echo last words >&2; exit $((7 * RANK))'")
    outcome = run.wait()
    assert (outcome.verdict, outcome.exit_code) == ("failed", 1)
    assert outcome.cause
    assert (outcome.cause.rank, outcome.cause.last_lines) == (1, ("last words",))
    assert outcome.cause.text in run._repr_html_()


def test_mistakes_are_told_with_the_nearest_flag() -> None:
    with pytest.raises(rankboard.RefusedError) as caught:
        rankboard.launch(local=2, epohcs=3, lr="fast")
    unknown, wrong = caught.value.mistakes
    assert unknown.flag == "--epohcs"
    assert "--epochs" in unknown.problem
    assert (wrong.flag, wrong.value) == ("--lr", "fast")
    for call in (rankboard.load, rankboard.attach):
        with pytest.raises(rankboard.RefusedError):
            call("no-such-run")
    with pytest.raises(rankboard.RefusedError):
        rankboard.compare("one")
    assert not Path("runs").exists()


def test_a_launcher_that_died_is_an_error(tmp_path: Path) -> None:
    run = rankboard.launch(local=1, script=ENDLESS)

    def list_launchers() -> list[psutil.Process]:
        # Of agents, too, the command line has a --run.
        return [child for child in psutil.Process().children() if "--run" in child.cmdline()]

    wait(lambda: bool(list_launchers()), "its launcher")
    for process in list_launchers():
        process.kill()
    with pytest.raises(rankboard.CommandError) as caught:
        run.wait()
    assert caught.value.exit_code == -signal.SIGKILL
    assert run.state == "left"


def test_ctrl_c_interrupts_the_wait_and_not_the_run() -> None:
    run = rankboard.launch(local=1, script=ENDLESS)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert run.state == "running"
    assert run.stop().verdict == "stopped"


def test_a_reader_of_events_ends_when_nobody_reads_on(tmp_path: Path) -> None:
    with rankboard.launch(local=1, script=ENDLESS) as run:
        events = run.events()
        assert next(events)["event"] == "run"
        assert len(find_readers(tmp_path)) == 1
        events.close()  # type: ignore[attr-defined]
        assert find_readers(tmp_path) == []
    assert run.state == "stopped"


def test_a_run_that_was_forgotten_is_stopped_with_its_program() -> None:
    code = f"import rankboard; print(rankboard.launch(local=1, script={ENDLESS!r}).name)"
    program = start_python(code)
    output, errors = program.communicate(timeout=GUARD)
    name = output.strip()
    assert program.returncode == 0
    assert name in errors
    assert rankboard.load(name).state == "stopped"


def test_a_run_of_a_program_that_is_killed_is_stopped() -> None:
    code = (
        "import rankboard, time\n"
        f"print(rankboard.launch(local=1, script={ENDLESS!r}).name, flush=True)\n"
        "time.sleep(600)"
    )
    with start_python(code) as program:
        assert program.stdout
        name = program.stdout.readline().strip()
        program.kill()
    wait(lambda: rankboard.load(name).state == "stopped", "the end of its run")


def test_every_example_of_the_page_works(sshd: Sshd, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert sshd.hosts_toml(sshd.make_hosts(2)) == tmp_path / "hosts.toml"
    shutil.copy(ROOT / "examples" / "ddp.py", tmp_path / "train.py")
    examples = EXAMPLE.findall(page)
    assert len(examples) > 5
    program = start_python("\n".join(examples))
    output, errors = program.communicate(timeout=4 * GUARD)
    assert program.returncode == 0, output + errors
    promised = page.partition("\nprints\n\n```text\n")[2].partition("```")[0]
    assert output.endswith(promised)


NOTEBOOK = """
import sys
import nbclient, nbformat

notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, "executed.ipynb")
"""


def test_the_notebook_launches_plots_and_stops() -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    source = ROOT / "examples" / "notebook.ipynb"
    words = [sys.executable, "-c", NOTEBOOK, str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * GUARD, check=False)
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read("executed.ipynb", 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    launched, trained, plotted, stopped, watched = (
        [output.get("data", {}) for output in cell.outputs] for cell in cells
    )
    assert "waiting" in launched[-1]["text/html"]
    assert len(re.findall("<td>(?:training|evaluating)</td>", trained[-1]["text/html"])) == 4
    assert plotted[-1]["image/png"]
    assert "verdict='stopped'" in stopped[-1]["text/plain"]
    # The table was renewed in its place to the end of the run.
    assert watched[0]["text/html"].count("<td>finished</td>") == 2
    assert "verdict='finished'" in watched[-1]["text/plain"]


def test_the_page_of_notebooks_works_as_a_notebook() -> None:
    """Each block of its code is a cell."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = EXAMPLE.findall((ROOT / "docs" / "how-to" / "notebooks.md").read_text())
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    nbformat.write(notebook, "page.ipynb")
    words = [sys.executable, "-c", NOTEBOOK, "page.ipynb"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * GUARD, check=False)
    assert done.returncode == 0, done.stderr
    watched, plotted, compared = (
        [output.get("data", {}) for output in cell.outputs]
        for cell in nbformat.read("executed.ipynb", 4).cells
    )
    assert watched[0]["text/html"].count("<td>finished</td>") == 2
    assert plotted[-1]["image/png"]
    assert "lr" in compared[-1]["text/html"]


def test_import_is_quick() -> None:
    code = "import time; start = time.process_time(); import rankboard; rankboard.launch;"
    code += "print(time.process_time() - start)"
    seconds = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(3)
    ]
    assert min(seconds) < 0.15


def test_a_kernel_interrupts_the_wait_and_ends_with_its_runs() -> None:
    manager = pytest.importorskip("jupyter_client.manager")
    kernel = manager.KernelManager(kernel_name="python3")
    kernel.start_kernel()
    client = kernel.client()
    client.start_channels()
    try:
        client.wait_for_ready(GUARD)
        evaluate(client, "import rankboard")
        name = evaluate(client, f"run = rankboard.launch(local=1, script={ENDLESS!r}); run.name")
        # A kernel skips the cells that come just after an error, unless it is told not to.
        waiting = client.execute("run.wait()", stop_on_error=False)
        wait(lambda: client.get_iopub_msg(GUARD)["msg_type"] == "execute_input", "the wait")
        kernel.interrupt_kernel()
        assert client.get_shell_msg(timeout=GUARD)["content"]["ename"] == "KeyboardInterrupt"
        assert waiting
        assert evaluate(client, "run.wait(0.5)") == "WaitTimeout"
        assert evaluate(client, "run.state") == "'running'"
        kernel.shutdown_kernel()
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    wait(lambda: rankboard.load(name.strip("'")).state == "stopped", "the end of its run")


def evaluate(client: Any, code: str) -> str:
    """What a cell of a notebook comes to, or the name of its error."""
    results: list[str] = []

    def take(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "execute_result":
            results.append(content["data"]["text/plain"])
        elif message["msg_type"] == "error":
            results.append(content["ename"])

    client.execute_interactive(code, output_hook=take, timeout=GUARD)
    return "".join(results)
