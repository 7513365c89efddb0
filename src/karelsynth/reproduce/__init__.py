"""The paper's tables and figures: their rows, measuring them, and rendering the results.

rows.py            the rows, the paper's figures, and how long rows are trained
running.py         trains and measures the rows that have no result; parallel.py several at a time
trained.py         trained models: in a run's folder, or kept; archive.py carries them elsewhere
results.py         a JSON file for each row and seed
aliasing.py        the paper's Figure 1; learned_syntax.py its table of valid programs and its figure of masks
tables.py          the tables; claims.py the paper's claims, with intervals.py; page.py the page docs/results.md
"""
