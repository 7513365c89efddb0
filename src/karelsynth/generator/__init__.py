"""The generator of tasks: how it draws programs and worlds, and how probable what it draws is.

Drawing and log-probability stand side by side: of programs in `program_kernel`, of worlds in `world_kernel`, of a
task's worlds together in `task_kernel`. All read one table of probabilities, `sampler`. `tasks.generate` is the
interface to drawing, `posterior` that to inference.
"""
