"""What examples tell about the program that they come from, by the generator's own chances.

`Chain` goes through programs that fit a task's examples, stays with each as often as it is likely, and notes how likely
that is and a further example. `solve` asks it how likely its answers are to be right on what they have not seen.
"""

from __future__ import annotations

from karelsynth.posterior.chain import Chain, Samples

__all__ = ["Chain", "Samples"]
