"""Purposeful tasks: programs with the idioms that people use, in worlds drawn for them.

    batch = generate_purposeful(seed=1, start=0, count=10_000)

`plans` holds the idioms as a grammar. `program_kernel` draws programs from it, `world_kernel` draws worlds of the
plan's kind, `generator_kernel` puts both together.
"""
