"""The paper's tables and figures: what their rows are, measuring them, and rendering what was measured.

rows.py          the rows, and the figures that the paper gives
running.py       trains and evaluates what is missing; trained.py is what it ends with, history.py what it notes of it
side_by_side.py  does so with several at a time, each in a process; processes.py and child.py are the two ends of it,
                 memory.py about room for them
results.py       what was measured, a file for each row and seed
tables.py        tables, and page.py the page, of what was measured; pictures.py draws
"""
