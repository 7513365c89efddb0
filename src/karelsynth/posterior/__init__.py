"""Inference of programs from examples, by the generator's own probabilities.

`MarkovChain` samples programs that fit a task's examples from their posterior distribution, each with one further
example drawn for it. `solve` estimates from the samples the probability that an answer is correct on unseen examples.
"""

from __future__ import annotations

from karelsynth.posterior.mcmc import MarkovChain, PosteriorSamples

__all__ = ["MarkovChain", "PosteriorSamples"]
