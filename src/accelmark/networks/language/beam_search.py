"""Beam search in tensors of fixed shapes, so that it exports: as one loop that ends when all is said.

As in GNMT's recipe, a finished sentence stays in the beam with its score until it is driven out, and all are
ranked at the end (Wu et al., 2016, arXiv:1609.08144, section 7).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

State = tuple[Tensor, ...]
#: Takes the words before, how many there were and what the decoder keeps; gives scores and what it keeps.
Step = Callable[[Tensor, Tensor, State], tuple[Tensor, State]]


def length_penalty(lengths: Tensor) -> Tensor:
    """What log-probabilities are divided by: the paper's, with alpha 0.6."""
    return ((5 + lengths) / 6) ** 0.6


def beam_search(
    step: Step,
    state: State,
    sentences: int,
    beam: int,
    longest: int,
    limits: tuple[Tensor, Tensor],
    begin: int,
    end: int,
    rank: Callable[[Tensor, Tensor, State], Tensor],
) -> Tensor:
    """The best translation of each sentence, [sentences, longest], from `end` on filled with `end`.

    Rows of everything that `step` takes and gives are sentence by sentence the beam's candidates:
    [sentences * beam, ...]. `limits` are how many words each translation has at least and at most, both
    [sentences]. `rank` tells how good each candidate is, [sentences, beam], from its log-probability, its
    length with the end, and what the decoder keeps.
    """
    device = limits[0].device
    least, most = (limit[:, None, None] for limit in limits)
    rows = torch.arange(sentences, device=device)[:, None] * beam
    places = torch.arange(longest, device=device)
    # All candidates begin alike, so only the first counts.
    ahead = torch.where(torch.arange(beam, device=device) == 0, 0.0, -1e9)
    scores = ahead.expand(sentences, beam).contiguous()
    words = torch.full((sentences * beam, longest), end, device=device)
    previous = torch.full((sentences * beam,), begin, device=device)
    done = torch.zeros(sentences, beam, dtype=torch.bool, device=device)
    at = torch.zeros((), dtype=torch.long, device=device)

    def going(
        at: Tensor, scores: Tensor, words: Tensor, previous: Tensor, done: Tensor, *state: Tensor
    ) -> Tensor:
        return (at < words.shape[1]) & ~done.all()

    def advance(
        at: Tensor, scores: Tensor, words: Tensor, previous: Tensor, done: Tensor, *state: Tensor
    ) -> State:
        logits, state = step(previous, at, state)
        vocabulary = logits.shape[-1]
        log_probabilities = logits.float().log_softmax(-1).unflatten(0, done.shape)
        # What is finished goes on with its end, for nothing, and with no other word.
        ending = torch.arange(vocabulary, device=device) == end
        resting = torch.where(ending, 0.0, -1e9)
        allowed = (ending & (at >= least)) | (~ending & (at < most))
        gained = torch.where(done[..., None], resting, torch.where(allowed, log_probabilities, -1e9))
        totals = (scores[..., None] + gained).flatten(1)
        scores, best = totals.topk(beam, dim=1)
        parents = (rows + best // vocabulary).flatten()
        previous = (best % vocabulary).flatten()
        words = torch.where(places == at, previous[:, None], words[parents])
        done = (previous == end).view_as(done)
        return at + 1, scores, words, previous, done, *(each[parents] for each in state)

    carried = (at, scores, words, previous, done, *state)
    if torch.compiler.is_exporting():
        carried = torch.while_loop(going, advance, carried)
    else:
        while going(*carried):
            carried = advance(*carried)
    _, scores, words, _, _, *state = carried
    lengths = ((words != end).sum(1) + 1).unflatten(0, (sentences, beam))
    best = rank(scores, lengths.float(), tuple(state)).argmax(1, keepdim=True)
    return words[(rows + best).squeeze(1)]
