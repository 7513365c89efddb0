"""What examples tell about the program that they come from, by the generator's own chances.

`Chain` draws programs that fit a task's examples, each as likely as it is, and with each a further example. `solve`
asks it which of several answers is likeliest to be right on what it has not seen.
"""

from __future__ import annotations

from karelsynth.posterior.chain import Chain, Samples

__all__ = ["Chain", "Samples"]
