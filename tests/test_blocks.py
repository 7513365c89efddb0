"""Programs as blocks: the tree of a text, and the text after blocks have moved."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import convert, read_source
from karelsynth.tutor.blocks import HOLE, BlockFunction, BlockNode, BlockProgram, read_blocks, write_blocks
from tests.strategies import random_program, with_helpers
from tests.written import ADA


def rewrite(text: str, name: str, *body: BlockNode) -> str:
    return write_blocks(text, [BlockFunction(name, body)])


def main_of(blocks: BlockProgram) -> tuple[BlockNode, ...]:
    return next(function.body for function in blocks.functions if function.name == blocks.main)


def test_the_tree_of_a_text() -> None:
    blocks = read_blocks(ADA)
    assert [(function.name, len(function.body)) for function in blocks.functions] == [("take_all", 1), ("main", 3)]
    loop = main_of(blocks)[2]
    assert (loop.keyword, loop.detail, loop.line) == ("WHILE", "frontIsClear", 16)
    assert [(node.keyword, node.detail) for node in loop.blocks[0]] == [("move", None), ("call", "take_all")]
    assert blocks.complete


@pytest.mark.parametrize("seed", range(12))
def test_looking_changes_nothing(seed: int) -> None:
    text = with_helpers(random_program(random.Random(seed)), random.Random(seed))[0]
    for dialect in ("paper", "stanford", "tokens"):
        written = convert(text, dialect).text
        assert write_blocks(written, read_blocks(written).functions) == written


def test_an_edit_changes_only_what_it_must() -> None:
    step, turn, loop = main_of(read_blocks(ADA))
    moved = rewrite(ADA, "main", loop, step, turn)
    assert moved.splitlines()[8:18] == [
        "def main():",
        '    """Clean the row."""',
        "",
        "    # go on",
        "    while front_is_clear():",
        "        move(); take_all()",
        "    move()",
        "    # the first cell has none",
        "    turn_left()",
        "",
    ]
    assert moved.splitlines()[:8] == ADA.splitlines()[:8]
    changed = rewrite(ADA, "main", step, turn, replace(loop, detail="not leftIsClear"))
    assert changed == ADA.replace("while front_is_clear", "while left_is_blocked")
    gone = rewrite(ADA, "main", step, loop)
    assert gone == ADA.replace("    turn_left()\n", "")
    copied = rewrite(ADA, "main", step, turn, loop, replace(step))
    assert copied == ADA.replace("take_all()\n\nif", "take_all()\n    move()\n\nif")


def test_a_statement_goes_from_one_function_to_another() -> None:
    blocks = read_blocks(ADA)
    step, turn, loop = main_of(blocks)
    helper = blocks.functions[0].body
    functions = [BlockFunction("take_all", (*helper, turn)), BlockFunction("main", (step, loop))]
    text = write_blocks(ADA, functions)
    assert text.count("turn_left()") == 1
    assert read_source(text).functions["take_all"].body[1].keyword == "turnLeft"
    assert "# the first cell has none" in text


@pytest.mark.parametrize("text", [ADA, "def run():\n  move()", "", "def run(): move()", "  def run():\n    move()\n"])
def test_an_empty_block_is_a_comment_and_comes_back(text: str) -> None:
    blocks = read_blocks(text)
    name = blocks.main
    holed = rewrite(text, name, *main_of(blocks), BlockNode("WHILE", "frontIsClear", ((),)))
    assert holed.count(HOLE) == 1
    assert "nothing_here" not in holed
    read = read_blocks(holed)
    assert not read.complete
    assert main_of(read)[-1].blocks == ((),)
    assert write_blocks(holed, read.functions) == holed
    loop = replace(main_of(read)[-1], blocks=((BlockNode("turnRight"),),))
    filled = rewrite(holed, name, *main_of(read)[:-1], loop)
    assert HOLE not in filled
    assert read_source(filled).body[-1].blocks[0][0].keyword == "turnRight"
    emptied = rewrite(filled, name)
    assert main_of(read_blocks(emptied)) == ()


def test_an_empty_text_gets_the_chosen_dialect() -> None:
    assert read_blocks("", "stanford").main == "main"
    body = [BlockFunction("main", (BlockNode("move"),))]
    assert "from stanfordkarel import *" in write_blocks("", body, "stanford")
    assert write_blocks("", [BlockFunction("run", (BlockNode("move"),))]) == "def run():\n  move()"
    assert write_blocks("", [BlockFunction("run", ())], "tokens") == "DEF run m( move m)"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_built_is_what_is_read(seed: int) -> None:
    """Random moves of blocks, in a text with helpers and comments, give the text of exactly that tree."""
    rng = random.Random(seed)
    text = convert(with_helpers(random_program(rng), rng)[0], rng.choice(["paper", "stanford"])).text
    for _ in range(6):
        blocks = read_blocks(text)
        functions = [replace(each, body=shuffled(each.body, rng)) for each in blocks.functions]
        text = write_blocks(text, functions)
        built = [(each.name, plain(each.body)) for each in functions]
        assert [(each.name, plain(each.body)) for each in read_blocks(text).functions] == built


def shuffled(body: tuple[BlockNode, ...], rng: random.Random) -> tuple[BlockNode, ...]:
    nodes = [replace(node, blocks=tuple(shuffled(block, rng) for block in node.blocks)) for node in body]
    match rng.randrange(5):
        case 0:
            rng.shuffle(nodes)
        case 1:
            nodes.insert(rng.randint(0, len(nodes)), BlockNode("IFELSE", "not markersPresent", ((), ())))
        case 2:
            nodes.insert(rng.randint(0, len(nodes)), BlockNode("turnRight"))
        case 3 if nodes:
            nodes.pop(rng.randrange(len(nodes)))
    return tuple(nodes)


def plain(body: tuple[BlockNode, ...]) -> list[object]:
    return [(node.keyword, node.detail, [plain(block) for block in node.blocks]) for node in body]


def test_wrong_blocks_are_refused() -> None:
    text = "def run():\n  move()"
    wrong = {
        "no block `jump`": BlockNode("jump"),
        "whole number from 0": BlockNode("REPEAT", 99, ((),)),
        "no sensor `sunIsUp`": BlockNode("IF", "not sunIsUp", ((),)),
        "has 2 blocks inside, not 1": BlockNode("IFELSE", "frontIsClear", ((),)),
        "no function `fly` to call": BlockNode("call", "fly"),
        "has no detail": BlockNode("move", "quickly"),
    }
    for message, node in wrong.items():
        with pytest.raises(KarelsynthError, match=message):
            rewrite(text, "run", node)
    with pytest.raises(KarelsynthError, match="of another text"):
        rewrite(text, "main", BlockNode("move"))
    deep = BlockNode("move")
    for _ in range(70):
        deep = BlockNode("IF", "frontIsClear", ((deep,),))
    with pytest.raises(KarelsynthError, match="too deeply"):
        rewrite(text, "run", deep)
    with pytest.raises(ProgramSyntaxError, match="line 2"):
        read_blocks("def run():\n  mvoe()")
