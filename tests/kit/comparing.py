"""What ranks came to, compared with what one process comes to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

from tests.kit.sync_ranks import Case, Outcome, alone


def compare(case: Case, found: list[Outcome], rtol: float, atol: float) -> None:
    """Raises: AssertionError, where any rank's parameters, or settled buffers, are not those of one
    process."""
    oracle = expected(case, found[0].trainers)
    for rank, outcome in enumerate(found):
        same(f"parameter of rank {rank}", outcome.parameters, oracle[0].parameters, rtol, atol)
        own = rank if case.net == "norm" and case.batch_norm == "local" else 0
        same(f"buffer of rank {rank}", outcome.buffers, oracle[own].buffers, rtol, atol)
        assert not outcome.drift
        talks = case.world > 1 and bool(outcome.losses)
        assert (outcome.payload > 0) == (talks and sends(case, rank))
        assert outcome.waited > 0 or not talks


def sends(case: Case, rank: int) -> bool:
    """Whether anything of the rank's counts as leaving its host; a synchronised BatchNorm does not
    know hosts."""
    leaders = {sum(case.hosts[:number]) for number in range(len(case.hosts))}
    return (
        case.sync != "hierarchical"
        or case.batch_norm == "sync"
        or (len(case.hosts) > 1 and rank in leaders)
    )


def same(
    what: str,
    found: dict[str, torch.Tensor],
    wanted: dict[str, torch.Tensor],
    rtol: float,
    atol: float,
) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            found[name],
            tensor,
            rtol=rtol,
            atol=atol,
            msg=lambda text, name=name: f"{what} {name}: {text}",
        )


def gradients(found: list[Gradients | None], wanted: Gradients | None, tolerance: float) -> None:
    """Raises: AssertionError, where a gradient differs by more than this fraction of the greatest
    element of any."""
    assert wanted
    stepped = [gradients for gradients in found if gradients]
    assert stepped
    most = max(
        gradient.abs().max().item()
        for gradient in wanted.values()
        if gradient is not None and gradient.numel()
    )
    for of_rank in stepped:
        for name, gradient in wanted.items():
            assert (of_rank[name] is None) == (gradient is None), name
            torch.testing.assert_close(of_rank[name], gradient, rtol=0, atol=tolerance * most)


def joined_losses(found: list[Outcome]) -> list[float]:
    """The mean loss over all samples of each step."""
    trained = [outcome for outcome in found if outcome.losses]
    steps = zip(
        *(zip(outcome.losses, outcome.samples, strict=True) for outcome in trained), strict=True
    )
    return [sum(loss * n for loss, n in step) / sum(n for _, n in step) for step in steps]


Gradients = dict[str, torch.Tensor | None]


def expected(case: Case, trainers: int) -> list[Outcome]:
    """What one process comes to: on the joined batch where that is the claim, else on the ranks'
    shares in turn."""
    joined = case.net != "norm" or case.batch_norm == "sync"
    found = made(
        replace(case, sync="none", options=(), world=1, hosts=(), wire="", fault=""),
        trainers,
        joined,
    )
    return list(found) * trainers if joined else list(found)


@cache
def made(case: Case, trainers: int, joined: bool) -> tuple[Outcome, ...]:
    """`alone`, once."""
    torch.set_num_threads(1)
    return tuple(alone(case, trainers, joined))
