"""What stands in the launch form, and what it amounts to."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import LOCAL, Cluster, Host, select, with_slots
from remote.plan import serialize
from remote.plan.plan import OnStall, Policy, Script
from remote.record import index
from tests.kit.acted import cluster, make_plan
from training import options, registry
from training.job import Job
from tui.doctor.run_facts import describe_run
from tui.kit.open_runs import RunOptions
from tui.launch import script_fields
from tui.launch.command_line import format_command_line
from tui.launch.draft import (
    HOSTS,
    MAIN,
    METHOD_OPTIONS,
    POLICY,
    RANKS,
    CheckedDraft,
    LaunchDraft,
    ReadyRun,
)
from tui.launch.form_fields import (
    OFF,
    ON,
    format_policy,
    format_policy_flags,
    format_value,
    parse_policy,
)
from tui.launch.recent_work import list_recent_work

HERE = Cluster("this machine", (Host("local", "127.0.0.1", slots=4, transport=LOCAL),))


def draft(job: Job | None = None, lab: Cluster | None = None, **policy: Any) -> LaunchDraft:
    lab = lab or cluster(4, 1)
    return LaunchDraft.create(lab, lab, job or Job(), Policy(**policy), keep=False)


def checked(one: LaunchDraft) -> CheckedDraft:
    return one.check(make_plan)


def ready(form: LaunchDraft) -> ReadyRun:
    found = checked(form)
    assert found.ready, found.mistakes
    return found.ready


# Fields -------------------------------------------------------------------------------------------


def test_every_setting_option_and_flag_has_a_field_in_a_group() -> None:
    shown = draft().groups()
    assert list(shown)[:2] == [MAIN, HOSTS]
    main = [one.label for one in shown[MAIN]]
    assert main == ["model", "data set", "sync method", "epochs", "batch size", "learning rate"]
    names = {one.name for fields_of in shown.values() for one in fields_of}
    assert {one.name for one in fields(Job)} - {"sync_option"} <= names
    policy = {one.name for one in fields(Policy)} - {"keep"} | {"on_disconnect"}
    assert {f"policy.{name}" for name in policy} <= names
    assert {f"host.{number}" for number in range(4)} <= names


@pytest.mark.parametrize("method", registry.list_names("sync"))
def test_options_of_the_chosen_method_are_fields_where_they_have_an_effect(method: str) -> None:
    known = options.declared_options(method)
    form = draft(Job(sync=method))
    shown = {one.name for one in form.groups().get(METHOD_OPTIONS, ())}
    usual = {one.name: one.default for one in known}
    for one in known:
        acts = all(usual[other] in values for other, values in one.requires.items())
        assert (f"{method}.{one.name}" in shown) is acts
        assert form.get_text(f"{method}.{one.name}") == format_value(one.default)


JOBS = [
    Job(),
    Job(sync="ring", sync_option=("bucket_mb=10",), lr=0.25, steps=45, verify_data=False),
    Job(model="torchvision/resnet50", dataset="imagefolder:~/two words", epochs=3),
    Job(sync="parameter_server", sync_option=("mode=async", "dedicated=yes"), momentum=1e-7),
    Job(lr=0.123456789, checkpoint_every="epoch", compile=True, resume="some-run"),
    Job(model="vgg11", lr=0.1),
]


@pytest.mark.parametrize("job", JOBS, ids=range(len(JOBS)))
def test_a_job_goes_through_the_form_unchanged(job: Job) -> None:
    policy = Policy(keep=True, max_restarts=2, min_nodes=1, doctor=False)
    form = LaunchDraft.create(cluster(4, 1), cluster(4, 1), job, policy, keep=False)
    found = ready(form)
    assert found.plan.work == job == found.work
    assert found.plan.policy == found.policy == policy


def test_only_what_is_changed_counts_as_changed() -> None:
    form = draft(Job(momentum=0.5, seed=7))
    assert form.count_changed("optimisation") == 2
    form.set_text("momentum", "0")
    assert form.count_changed("optimisation") == 1
    form.set_text("sync", "ring")
    form.set_text("ring.bucket_mb", "10")
    assert form.count_changed(MAIN) == form.count_changed(METHOD_OPTIONS) == 1


def test_the_learning_rate_is_that_of_the_model_unless_one_is_written() -> None:
    form = draft()
    form.set_text("model", "vgg11")
    assert form.get_text("lr") == "0.01"
    form.set_text("lr", "0.3")
    form.set_text("model", "lenet5")
    assert form.get_text("lr") == "0.3"


def test_each_method_keeps_its_options() -> None:
    form = draft()
    form.set_text("sync", "ring")
    form.set_text("ring.bucket_mb", "10")
    form.set_text("sync", "all_reduce")
    assert ready(form).work == Job(sync="all_reduce")
    form.set_text("sync", "ring")
    assert ready(form).work == Job(sync="ring", sync_option=("bucket_mb=10",))


# Mistakes -----------------------------------------------------------------------------------------

MISTAKES = [
    ("lr", "fast", "write a number"),
    ("batch_size", "", "write a whole number"),
    ("batch_size", "2", "--batch-size 2 is smaller than the 4 ranks"),
    ("lr", "-1", "must be at least 0"),
    ("lr", "nan", "write a finite number"),
    ("epochs", "0", "must be at least 1"),
    ("model", "lenet6", "unknown model: did you mean 'lenet5'?"),
    ("model", "torchvision/", "write torchvision/NAME"),
    ("dataset", "imagefolder:", "write imagefolder:PATH"),
    ("ddp.bucket_mb", "0", "must be greater than 0"),
    ("ddp.bucket_mb", "many", "must be a number"),
    ("checkpoint_every", "0", "write a number of iterations"),
    ("policy.start_timeout", "soon", "write a number"),
    ("policy.max_restarts", "-1", "give a number from 0"),
    ("policy.min_nodes", "1", "applies to restarts"),
    ("policy.on_stall", "restart", "needs a limit"),
]


@pytest.mark.parametrize(("name", "text", "said"), MISTAKES)
def test_a_mistake_is_said_beside_its_field(name: str, text: str, said: str) -> None:
    form = draft()
    form.set_text(name, text)
    (mistake,) = checked(form).mistakes
    assert mistake.field == name
    assert said in mistake.short
    assert mistake.short in mistake.text
    form.set_text(name, form.get_default(name))
    assert checked(form).mistakes == ()


def test_all_mistakes_are_found_at_once_and_nothing_is_lost() -> None:
    form = draft()
    for name, text in (("lr", "x"), ("steps", "y"), ("ddp.bucket_mb", "z")):
        form.set_text(name, text)
    assert {one.field for one in checked(form).mistakes} == {"lr", "steps", "ddp.bucket_mb"}
    assert (form.get_text("lr"), form.get_text("steps")) == ("x", "y")


def test_each_mistake_in_the_policy_stands_beside_its_field() -> None:
    form = draft()
    for name, text in (("policy.on_stall", "restart"), ("policy.min_nodes", "1")):
        form.set_text(name, text)
    mistakes = checked(form).mistakes
    assert [one.field for one in mistakes] == ["policy.on_stall", "policy.min_nodes"]
    assert all("\n" not in one.text for one in mistakes)


def test_mistakes_of_several_fields_stand_in_the_first_that_is_named() -> None:
    form = draft(Job(sync="parameter_server"))
    form.set_text("epochs", "2")
    form.set_text("steps", "45")
    assert [one.field for one in checked(form).mistakes] == ["epochs"]
    form.set_text("epochs", "")
    form.set_text("parameter_server.server", "9")
    (mistake,) = checked(form).mistakes
    assert (mistake.field, mistake.short) == ("parameter_server.server", "ranks go from 0 to 3")


def test_a_mistake_of_no_field_is_said_all_the_same() -> None:
    def refuse(*_: Any) -> Any:
        from remote.plan.plan import PlanError

        raise PlanError("--what 3: the disk is full")

    (mistake,) = draft().check(refuse).mistakes
    assert (mistake.field, mistake.short) == ("", "--what 3: the disk is full")


# Hosts --------------------------------------------------------------------------------------------


def test_hosts_are_ticked_as_they_were_selected() -> None:
    lab = cluster(4, 1)
    form = LaunchDraft.create(lab, select(lab, exclude=("node2",)), Job(), Policy(), keep=False)
    assert [form.get_text(f"host.{number}") for number in range(4)] == [ON, OFF, ON, ON]
    chosen = ready(form).cluster
    assert [host.name for host in chosen.hosts] == ["node1", "node3", "node4"]
    for number in range(4):
        form.set_text(f"host.{number}", OFF)
    (mistake,) = checked(form).mistakes
    assert (mistake.field, "no host is chosen" in mistake.text) == (HOSTS, True)


@pytest.mark.parametrize("text", ["0", "", "x", "-1", "1.5", "99999"])
def test_of_one_host_the_number_of_ranks_is_asked(text: str) -> None:
    form = draft(lab=HERE)
    assert form.get_text(RANKS) == "4"
    form.set_text(RANKS, text)
    assert [one.field for one in checked(form).mistakes] == [RANKS]
    form.set_text(RANKS, "2")
    found = ready(form).plan
    assert found.world_size == 2


# The command line ---------------------------------------------------------------------------------


def line(form: LaunchDraft, options: RunOptions | None = None) -> str:
    found = ready(form)
    policy = format_policy_flags(form.get_policy_texts(), form.keep)
    options = options or RunOptions()
    return format_command_line(form.cluster, found.cluster, found.work, policy, options)


def test_the_command_line_has_what_differs_from_the_defaults() -> None:
    form = draft(Job(sync="ring", data_dir="/my data", lr=0.3), max_restarts=2, doctor=False)
    assert line(form) == (
        "rankboard --sync ring --lr 0.3 --data-dir '/my data' --no-doctor --max-restarts 2"
    )
    form.set_text("host.1", OFF)
    assert "--only node1,node3,node4 " in line(form)


def test_the_command_line_starts_even_where_nothing_differs() -> None:
    assert line(draft()) == "rankboard --sync ddp"


def test_the_command_line_says_where_to_run() -> None:
    assert line(draft(lab=HERE)) == "rankboard --local 4 --sync ddp"
    form = draft(lab=HERE)
    form.set_text(RANKS, "2")
    options = RunOptions(slots=4, link="1gbit", cpus="0.5", other=("--runs-dir", "other"))
    assert line(form, options) == (
        "rankboard --local 2 --slots 2 --link 1gbit --cpus 0.5 --runs-dir other --sync ddp"
    )
    far = replace(cluster(2, 1), file="lab/hosts.toml")
    assert line(draft(lab=far), RunOptions(other=("--upload", "my code", "--name", "a"))) == (
        "rankboard --hosts lab/hosts.toml --upload 'my code' --name a --sync ddp"
    )
    named = cluster(2, 1)
    assert line(draft(lab=named), RunOptions(host="a:4,b")) == "rankboard -H a:4,b --sync ddp"
    form = draft(lab=replace(named, hosts=named.hosts[:1]))
    assert line(form, RunOptions(host="me@a")) == "rankboard -H me@a --sync ddp"
    form.set_text(RANKS, "3")
    assert line(form, RunOptions(host="me@a:2")) == "rankboard -H me@a:3 --sync ddp"


def test_on_a_node_of_slurm_the_ranks_share_its_cores_and_the_command_line_says_how_many() -> None:
    node = Host("n1", "n1", slots=2, threads=8, slurm_job=7)
    form = draft(lab=Cluster("Slurm job 7", (node,)))
    assert line(form) == "rankboard --slurm --sync ddp"
    form.set_text(RANKS, "8")
    assert line(form) == "rankboard --slurm --slots 8 --sync ddp"
    found = ready(form)
    assert found.plan.hosts == (with_slots(node, 8),)
    assert found.plan.hosts[0].threads == 2
    nodes = replace(node, name="n2", slots=4), replace(node, slots=4)
    asked = line(draft(lab=Cluster("Slurm job 7", nodes)), RunOptions(slots=4))
    assert asked == "rankboard --slurm --slots 4 --sync ddp"


def test_the_ranks_of_the_only_host_of_a_file_are_written_there() -> None:
    form = draft(lab=Cluster("lab", (Host("n1", "10.0.0.1", slots=2),), file="lab.toml"))
    assert [field.label for field in form.groups()[HOSTS]] == ["n1"]
    assert line(form) == "rankboard --hosts lab.toml --sync ddp"


@pytest.mark.parametrize("job", JOBS[:-2], ids=range(len(JOBS) - 2))
def test_the_command_line_is_understood_as_the_same_job(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.kit.commands import call_rankboard
    from tui.app import start_run as start
    from tui.flags.run import RunCommand

    heard: list[Job] = []

    def hear(command: RunCommand) -> int:
        heard.append(Job.of(command.job))
        assert (command.hosts.local, command.policy.max_restarts) == (4, 1)
        return 0

    monkeypatch.setattr(start, "start", hear)
    form = LaunchDraft.create(HERE, HERE, job, Policy(max_restarts=1), keep=False)
    words = shlex.split(line(form))
    assert call_rankboard(*words[1:]).returncode == 0
    assert heard == [job]


# A program of the user's own ----------------------------------------------------------------------


def test_a_program_takes_the_place_of_the_settings() -> None:
    form = draft()
    form.set_text(script_fields.WORDS, "train.py --name 'a b'")
    assert list(form.groups()) == [script_fields.GROUP, HOSTS, POLICY]
    form.set_text(script_fields.CWD, "/project")
    form.set_text(script_fields.WATCH, OFF)
    form.set_text(script_fields.FETCH, "out/*.pt logs")
    form.set_text("host.0", OFF)
    found = ready(form)
    assert found.plan.work == found.work
    assert found.work == Script(("train.py", "--name", "a b"), False, (), ("out/*.pt", "logs"))
    assert {host.cwd for host in found.plan.hosts} == {"/project"}
    form.set_text(script_fields.WORDS, " ")
    assert ready(form).work == Job()


def test_variables_before_a_program_are_recorded() -> None:
    form = draft()
    form.set_text(script_fields.WORDS, "LR=0.1 NAME='a b' train.py")
    found = ready(form)
    variables = (("LR", "0.1"), ("NAME", "a b"))
    assert found.work == Script(("train.py",), variables=variables)
    assert serialize.parse(serialize.dump(found.plan)).work == found.work


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (script_fields.WORDS, "train.py 'a", "no closing quotation: close the quotes"),
        (script_fields.WORDS, "torchrun --nnodes 2 a.py", "--nnodes: leave flags of torchrun out"),
        (script_fields.WORDS, "accelerate launch x.py", "accelerate starts ranks itself"),
        (script_fields.WORDS, "RANK=0 train.py", "leave out variables of a rank's place"),
        (script_fields.FETCH, "/etc/*", "write a pattern below the folder"),
    ],
)
def test_a_mistake_in_a_program_is_shown_beside_it(name: str, text: str, message: str) -> None:
    form = draft()
    form.set_text(script_fields.WORDS, "train.py")
    form.set_text(name, text)
    (mistake,) = checked(form).mistakes
    assert mistake.field == name
    assert message in mistake.text


@pytest.mark.parametrize(
    "script",
    [
        Script(("train.py", "--lr", "0.1")),
        Script(("train.py",), variables=(("LR", "0.1"), ("NAME", "a b"))),
        Script(
            ("-m", "pkg", "a b"),
            watch=False,
            before="mkdir -p 'a b'",
            follow=("*.csv",),
            fetch=("out/*.pt", "x"),
        ),
    ],
)
def test_the_command_line_of_a_program_is_understood_as_the_same(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.kit.commands import call_rankboard
    from tui.app import start_run as start
    from tui.flags.run import RunCommand
    from tui.flags.script import make_script

    heard = []

    def hear(command: RunCommand) -> int:
        script = make_script(command.line, command.script, command.job)
        heard.append((script, command.script.cwd))
        return 0

    monkeypatch.setattr(start, "start", hear)
    form = LaunchDraft.create(HERE, HERE, script, Policy(max_restarts=1), keep=False, cwd="/x")
    found = ready(form)
    policy = format_policy_flags(form.get_policy_texts(), keep=False)
    text = format_command_line(HERE, found.cluster, found.plan.work, policy, RunOptions(), "/x")
    assert call_rankboard(*shlex.split(text)[1:]).returncode == 0
    assert heard == [(script, "/x")]


# The policy ---------------------------------------------------------------------------------------


def test_a_policy_goes_through_its_texts() -> None:
    for policy in (Policy(), Policy(keep=True, on_stall=OnStall.STOP, start_timeout=2.5)):
        assert parse_policy(format_policy(policy), keep=False) == policy
    texts = format_policy(Policy(keep=True))
    assert format_policy_flags(texts, keep=True) == ()
    assert format_policy_flags(texts, keep=False) == ("--on-disconnect", "keep")


# What a job amounts to ----------------------------------------------------------------------------


def known(job: Job, lab: Cluster | None = None, link: float = 0.0) -> str:
    found = make_plan(lab or cluster(4, 1), job)
    return "\n".join(describe_run(found, link))


def test_the_figures_of_a_job_are_said() -> None:
    said = known(Job(model="vgg11", dataset="cifar10", batch_size=63, epochs=2))
    assert "4 ranks on 4 hosts: batch of 15 or 16 per rank" in said
    assert "794 steps per epoch, 1,588 steps in all" in said
    assert "9,231,114 parameters, 35.2 MiB of gradients" in said
    assert "each step a rank sends 52.8 MiB" in said
    assert "a link of 1 Gbit/s needs at least 443 ms" in said
    slow = known(Job(model="vgg11", dataset="cifar10"), link=12.5e6)
    assert "the link of 100 Mbit/s needs at least 4.43 s" in slow


@pytest.mark.parametrize(
    ("job", "lab", "part"),
    [
        (Job(sync="none"), None, "the ranks send nothing"),
        (Job(), HERE, "one host: no network"),
        (Job(sync="gather_scatter"), None, "a rank sends 241 KiB, the server 723 KiB"),
        (Job(sync="hierarchical"), cluster(2, 2), "one rank per host sends 241 KiB"),
        (Job(sync_option=("compression=powersgd",)), None, "not known for this method"),
        (Job(model="torchvision/resnet18"), None, "known once torchvision/resnet18 is built"),
        (Job(dataset="imagefolder:x"), None, "known once imagefolder:x is read"),
        (Job(steps=46), None, "23 steps per epoch, 46 steps in all, 2 epochs"),
    ],
)
def test_what_is_not_known_or_does_not_happen_is_said(
    job: Job, lab: Cluster | None, part: str
) -> None:
    assert part in known(job, lab)


# Recent jobs --------------------------------------------------------------------------------------


def test_recent_jobs_are_those_of_recorded_runs_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = index.Entry
    runs = [
        entry("a", job={"lr": 0.1, "model": "vgg11"}),
        entry("b", job={"sync": "ring", "sync_option": ["bucket_mb=10"], "resume": "a"}),
        entry("c", job={"sync": "none"}, study="s"),
        entry("d", job=None, script="train.py"),
        entry("e", job={"sync": "gone"}),
        entry("f", job={"lr": 0.1, "model": "vgg11"}),
    ]
    monkeypatch.setattr(index, "entries", lambda _: runs)
    found = list_recent_work(tmp_path)
    assert [(one.run.name, one.work) for one in found] == [
        ("f", Job(model="vgg11", lr=0.1)),
        ("d", Script(("train.py",))),
        ("b", Job(sync="ring", sync_option=("bucket_mb=10",))),
    ]
