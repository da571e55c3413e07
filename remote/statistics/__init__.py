"""Statistics of repeated runs: intervals, ratios, tests, stability, bandwidth. Arrays in,
frozen dataclasses out; knows no run and no study. Pure: whatever is drawn at random is seeded.

**The unit is a run.** Steps of one run are correlated, so a run counts as one number.

**Times are compared on their logarithms**, as ratios: noise of a machine multiplies. Accuracies and
losses are compared as they are, as differences (`ValueScale`).

**Intervals of one cell** are t intervals below 20 runs and BCa bootstrap intervals from 20 on. Few
runs have few different resamples: of five, a bootstrap interval of "95 %" covers about 82 %
(`tests/unit/remote/statistics/test_interval.py`; Hesterberg, "What teachers should know about the
bootstrap", The American Statistician 69, 2015).

**Cells are compared in blocks**: every cell runs once per repetition, in shuffled order, so a drift
of the machine is common to a block and drops out (Box, Hunter and Hunter, "Statistics for
Experimenters", chapter 4). A cell's noise is estimated from its own runs and, so that few suffice,
in part from those of all cells. Runs that do not fit are left out and named. All comparisons of a
study are one family, as in Dunnett's test: of studies without a difference, 5 % report any.

**Five repetitions** find a difference of 10 % in 91 % of studies where runs vary by 3 % and one in
50 is slow; four find it in 85 %. Where runs vary by 4 %, five find it in 73 %
(`tests/unit/remote/statistics/test_truth.py`).
"""

REPETITIONS = 5
"""Runs per cell that a study makes if it says nothing else."""
