"""Mirror images: a program does to a world what its mirror image does to the world's."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from karelsynth.karel.formats.codes import world_from_codes, world_to_codes, worlds_to_codes
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.mirror import mirrored_programs, mirrored_worlds
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.generate import generate
from karelsynth.tasks.purposeful.generator import generate_purposeful
from karelsynth.tutor.pose import mirrored_block, mirrored_world
from tests.strategies import programs, worlds


@given(programs(), worlds())
def test_a_mirrored_program_does_the_same_in_a_mirrored_world(program: Program, world: World) -> None:
    tokens, codes = encode_programs([program]), world_to_codes(world)[None]
    plain, mirrored = (
        run_batch(tokens, codes),
        run_batch(mirrored_programs(tokens), mirrored_worlds(codes)),
    )
    assert (mirrored.status == plain.status).all()
    assert (mirrored.ticks == plain.ticks).all()
    assert plain.worlds is not None
    assert mirrored.worlds is not None
    assert (mirrored.worlds[plain.ok] == mirrored_worlds(plain.worlds[plain.ok])).all()


@given(worlds())
def test_worlds_are_mirrored_as_in_pose(world: World) -> None:
    codes = world_to_codes(world)
    assert world_from_codes(mirrored_worlds(codes)) == mirrored_world(world)
    assert (mirrored_worlds(mirrored_worlds(codes)) == codes).all()


@given(programs())
def test_programs_are_mirrored_as_in_pose_but_for_turning_around(program: Program) -> None:
    tokens = encode_programs([program])
    exchanged = encode_programs([Program(mirrored_block(program.body))])
    image = mirrored_programs(tokens)
    text = " ".join(map(str, exchanged[0]))
    around = " ".join(map(str, encode_programs([Program.parse("def run(): turnRight(); turnRight()")])[0][3:5]))
    if around not in text:
        assert (image == exchanged).all()
    assert (run_batch(image, worlds_to_codes([World.parse("> .\n. .")])).status < 255).all()


def test_images_of_generated_programs_are_in_the_normal_form() -> None:
    """What the network has never seen, two turns to the right, does not occur, and the image's image is the program."""
    right = encode_programs([Program.parse("def run(): turnRight()")])[0, 3]
    for batch in (generate(5, 0, 200), generate_purposeful(5, 0, 200)):
        tokens = np.asarray(batch.tokens)
        image = mirrored_programs(tokens)
        assert not ((image[:, 1:] == right) & (image[:, :-1] == right)).any()
        assert (mirrored_programs(image) == tokens).all()
