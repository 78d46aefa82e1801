"""Graphs of one data set compared at the same recall, and what the GRNND paper reports."""
import numpy as np

LEVELS = (0.90, 0.95, 0.98)
# Li et al. (arXiv:2510.02774), GRNND's builds against others' at comparable recall@10 of one search, over SIFT1M,
# DEEP1M and GIST1M: times faster on an RTX 4090 and on an RTX 6000 Ada.
PAPER = {"CAGRA": ("3.1-5.0", "4.3-5.7"), "GANNS": ("2.6-3.9", "2.4-4.1"), "GGNN": ("21.5-48.3", "30.6-51.7"),
         "RNN-Descent": ("27.1-38.7", "17.8-25.1"), "hnswlib": ("31.9-49.8", "22.7-26.2")}
CARDS = ("the paper, RTX 4090", "the paper, RTX 6000 Ada")
LEAST_MISSED = 1e-4  # by recall, on a logarithmic scale


def paper_says(name):
    return next((list(v) for k, v in PAPER.items() if name.startswith(k)), ["", ""])


def at_recall(row, level, field):
    """A figure of the search at that recall, between a graph's beams; NaN outside them."""
    points = sorted((b["distances"], b["recall"], b[field]) for b in row["beams"].values())
    recall = np.maximum.accumulate([p[1] for p in points])
    missed, want = -np.log(np.maximum(1 - recall, LEAST_MISSED)), -np.log(1 - level)
    if not missed[0] <= want <= missed[-1]:
        return np.nan
    return float(np.exp(np.interp(want, missed, np.log([p[2] for p in points]))))


def cost(row, level):
    """Distances a query for that recall."""
    return at_recall(row, level, "distances")


def at_most(row, level):
    """The same; where the narrowest beam has more recall already, what that one needs."""
    first = min(row["beams"].values(), key=lambda b: b["distances"])
    return first["distances"] if first["recall"] >= level else cost(row, level)


def fastest(rows, level, limit, seconds):
    """The fastest build whose graph needs no more than limit distances for that recall; None if there is none."""
    return min((r for r in rows if at_most(r, level) <= limit), key=seconds, default=None)
