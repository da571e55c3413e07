"""How the phases of a rank look, and what the help calls them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from remote.run.state.phases import FATES, RankPhase


class PhaseLook(Struct, frozen=True):
    """How one phase looks."""

    sign: str
    """A sign of `palette`, before the phase in tables."""
    style: str
    """Its ink in tables of the dashboard, of `CELL_STYLES`; "" if it is neither good nor bad."""
    help: str
    """What a rank "is" in it, in the sentence of the help; "" if another row says it as well."""
    line_style: str = ""
    """The colour in the table without the dashboard, as rich names it; "" for none."""


RANK_LOOKS = {
    RankPhase.WAITING: PhaseLook("wait", "table--dim", "waiting"),
    RankPhase.IMPORTING: PhaseLook("work", "", "importing"),
    RankPhase.LOADING: PhaseLook("work", "", "loading data"),
    RankPhase.RENDEZVOUS: PhaseLook("work", "", "in the rendezvous"),
    RankPhase.JOINING: PhaseLook("work", "", "joining"),
    RankPhase.TRAINING: PhaseLook(
        "live", "table--good", "training (or serving parameters)", "green"
    ),
    RankPhase.SERVING: PhaseLook("live", "table--good", "", "green"),
    RankPhase.EVALUATING: PhaseLook("live", "", "evaluating"),
    RankPhase.SAVING: PhaseLook("live", "", "saving"),
    RankPhase.FINISHED: PhaseLook("good", "table--good", "finished", "green"),
    RankPhase.FAILED: PhaseLook("bad", "table--bad", "failed", "bold red"),
    RankPhase.VICTIM: PhaseLook("bad", "table--dim", "taken down (by the failure of another rank)"),
    RankPhase.STOPPED: PhaseLook("ended", "table--dim", "stopped"),
    RankPhase.LOST: PhaseLook("bad", "table--bad", "lost", "bold red"),
}
"""The look of every phase, in the order in which the help names them."""


def help_on_phases() -> str:
    """Return the sentence of the help that names all phases."""
    present = _alternatives(look for phase, look in RANK_LOOKS.items() if phase not in FATES)
    past = _alternatives(look for phase, look in RANK_LOOKS.items() if phase in FATES)
    return f"A rank is {present}; then it is {past}."


def _alternatives(looks: Iterable[PhaseLook]) -> str:
    """Return "waiting, importing or loading"."""
    *first_words, last_words = (look.help for look in looks if look.help)
    return f"{', '.join(first_words)} or {last_words}"
