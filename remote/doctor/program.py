"""Whether the hosts have a user's own program."""

from __future__ import annotations

from remote.doctor.check import FAILED, OK, Facts, Found
from remote.plan.needs import program as named
from remote.plan.plan import Script


def program(facts: Facts, index: int) -> Found:
    """The program is there, and can be started."""
    from training.agent.local_api import programs  # with all the errands

    plan = facts.plan
    hello = facts.hello(index)
    assert isinstance(plan.work, Script), "only programs are checked"
    _, name = named(plan.work)
    cwd = plan.cwd(index)
    lack = hello.program_lacks
    other = (
        "see --cwd, which names another folder"
        if plan.is_local
        else "put this folder there with --upload ., or name one that is there with --cwd"
    )
    if lack == programs.FOLDER:
        return Found(FAILED, f"there is no folder {cwd}", other)
    if lack in (programs.FILE, programs.COMMAND) and len(name.split()) > 1:
        return Found(FAILED, f"there is no program '{name}'", f"leave out the quotes: -- {name}")
    if lack == programs.NO_FILE:
        inside = f"name the program in it, such as -- {name.rstrip('/')}/train.py"
        return Found(FAILED, f"{name} is a folder", inside)
    if lack == programs.FILE:
        return Found(FAILED, f"there is no {name} in {cwd}", other)
    if lack == programs.MODULE:
        what = f"its Python finds no module {name}, nor is it in {cwd}"
        return Found(
            FAILED, what, f"install it there ({hello.executable} -m pip install …), or {other}"
        )
    if lack == programs.COMMAND:
        here = f"write -- ./{name} for a file of that name, or give its whole path"
        return Found(FAILED, f"there is no command {name}", here)
    if lack == programs.EXECUTE:
        how = f"chmod +x {name} there, or write -- bash {name}"
        return Found(FAILED, f"{name} is not executable", how)
    if lack == programs.READ:
        return Found(FAILED, f"{hello.user} may not read {name} in {cwd}", f"chmod +r {name} there")
    return Found(OK, "uploaded" if plan.project else name or "ok")
