"""Programs without what never has an effect: equal branches, turns that cancel, tests whose outcome is known.

    >>> twice = Program.parse("def run():\\n  ifelse(markersPresent):\\n    move()\\n  else:\\n    move()")
    >>> reduced(twice).to("paper")
    'def run():\\n  move()'

In every world a reduced program ends as the original does, with the same status and the same world, and takes no more
ticks. (It may end in time where the original runs out of ticks.) It is never longer, and reducing it again changes
nothing. `tasks.simplify` goes further: it also takes away what matters in no example of a task.

What is known where a statement begins follows from the statements before it. After `while(frontIsClear)` the front is
not clear, and after one more `turnLeft` the right is not. A `move` ends all that, but then the cell behind is clear.

Parts are only taken away or joined. What merely reads differently stays: `repeat(2): move` is not `move move`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from karelsynth.karel.program import (
    Action,
    Block,
    Condition,
    If,
    IfElse,
    Not,
    Program,
    Repeat,
    Sensor,
    Statement,
    While,
    inner_blocks,
)


def reduced(program: Program) -> Program:
    """An equivalent program, never a longer one."""
    body: Block = ()
    smaller = program.body
    while smaller and smaller != body:
        body = smaller
        smaller, _ = _reduced_block(body, _UNKNOWN)
    return Program(body or program.body)  # a program that does nothing stays as it is: no block is empty


# What is known of the state

_Known = tuple[bool | None, ...]
"""Whether the front, the left, the back and the right are clear, and whether there are markers; None if unknown."""
_UNKNOWN: Final[_Known] = (None,) * 5
_SIDES: Final = 4
_MARKERS: Final = 4


class _Test(NamedTuple):
    """A condition: one entry of what is known, and the value for which the condition holds."""

    entry: int
    value: bool


_TESTS: Final = {
    Sensor.FRONT_IS_CLEAR: _Test(0, True),
    Sensor.LEFT_IS_CLEAR: _Test(1, True),
    Sensor.RIGHT_IS_CLEAR: _Test(3, True),
    Sensor.MARKERS_PRESENT: _Test(_MARKERS, True),
    Sensor.NO_MARKERS_PRESENT: _Test(_MARKERS, False),
}
_SENSORS: Final = {test: sensor for sensor, test in _TESTS.items()}
_TURNS: Final = {Action.TURN_LEFT: 1, Action.TURN_RIGHT: 3}
"""Quarter turns to the left."""
_WRITTEN: Final[tuple[Block, ...]] = ((), (Action.TURN_LEFT,), (Action.TURN_LEFT,) * 2, (Action.TURN_RIGHT,))
"""So many quarter turns to the left, in the fewest actions."""


def _test(condition: Condition) -> _Test:
    wanted = True
    while isinstance(condition, Not):
        condition, wanted = condition.condition, not wanted
    entry, value = _TESTS[condition]
    return _Test(entry, value == wanted)


def _opposite(test: _Test) -> _Test:
    return _Test(test.entry, not test.value)


def _condition(test: _Test) -> Condition:
    """The shortest condition that tests this."""
    return _SENSORS[test] if test in _SENSORS else Not(_SENSORS[_opposite(test)])


def _holds(test: _Test, known: _Known) -> bool | None:
    value = known[test.entry]
    return None if value is None else value == test.value


def _with(known: _Known, test: _Test) -> _Known:
    """What is known once the test holds."""
    return (*known[: test.entry], test.value, *known[test.entry + 1 :])


def _common(one: _Known, other: _Known) -> _Known:
    return tuple(mine if mine == yours else None for mine, yours in zip(one, other, strict=True))


def _after(action: Action, known: _Known) -> _Known:
    sides, markers = known[:_SIDES], known[_MARKERS]
    if action is Action.MOVE:
        return None, None, True, None, None
    if action in _TURNS:
        quarter = _TURNS[action]
        return *sides[quarter:], *sides[:quarter], markers
    return *sides, True if action is Action.PUT_MARKER else None


def _kept(block: Block, known: _Known) -> _Known:
    """What is still known after any part of a block, run any number of times."""
    actions = set(_actions(block))
    sides = (None,) * _SIDES if actions & {Action.MOVE, *_TURNS} else known[:_SIDES]
    return *sides, None if actions - _TURNS.keys() else known[_MARKERS]


def _actions(block: Block) -> Iterable[Action]:
    for statement in block:
        if isinstance(statement, Action):
            yield statement
        else:
            for _, inner in inner_blocks(statement):
                yield from _actions(inner)


def _is_left_alone(test: _Test, block: Block) -> bool:
    """Whether a block cannot change the outcome of a test."""
    return _holds(test, _kept(block, _with(_UNKNOWN, test))) is True


# Statements. Each function takes what is known before; the block that it returns may be empty.

_Reduced = tuple[Block, _Known]
"""What a statement becomes, and what is known after it."""


def _reduced_block(block: Block, known: _Known) -> _Reduced:
    done: list[Statement] = []
    for statement in block:
        smaller, known = _reduced_statement(statement, known)
        for each in smaller:
            _append(done, each)
    return _with_short_turns(done), known


def _reduced_statement(statement: Statement, known: _Known) -> _Reduced:
    if isinstance(statement, Action):
        return (statement,), _after(statement, known)
    if isinstance(statement, Repeat):
        return _reduced_repeat(statement, known)
    if isinstance(statement, While):
        return _reduced_while(statement, known)
    if isinstance(statement, If):
        return _reduced_branches(_test(statement.condition), statement.body, (), known)
    return _reduced_branches(_test(statement.condition), statement.then, statement.otherwise, known)


def _reduced_repeat(statement: Repeat, known: _Known) -> _Reduced:
    times = statement.times
    body, after = _reduced_block(statement.body, _kept(statement.body, known))
    if times == 0 or not body:
        return (), known
    if times == 1 or (len(body) == 1 and isinstance(body[0], While)):  # the loop's condition fails the second time
        return body, after
    if all(action in _TURNS for action in body):
        return body * times, after
    return (Repeat(times, body),), after


def _reduced_while(statement: While, known: _Known) -> _Reduced:
    test = _test(statement.condition)
    if _holds(test, known) is False:
        return (), known
    body, after = _reduced_block(statement.body, _with(_kept(statement.body, known), test))
    if body and _holds(test, after) is False:  # at most one iteration
        return _branches(test, body, ()), _common(after, _with(known, _opposite(test)))
    end = _with(_common(known, after), _opposite(test))
    return (While(_condition(test), body or statement.body),), end  # an endless loop that does nothing stays endless


def _reduced_branches(test: _Test, then: Block, otherwise: Block, known: _Known) -> _Reduced:
    """For an IF, `otherwise` is empty."""
    holds = _holds(test, known)
    if holds is not None:
        return _reduced_block(then if holds else otherwise, known)
    then, after = _reduced_block(then, _with(known, test))
    otherwise, after_other = _reduced_block(otherwise, _with(known, _opposite(test)))
    return _branches(test, then, otherwise), _common(after, after_other)


def _branches(test: _Test, then: Block, otherwise: Block) -> Block:
    """The shortest statements for two blocks, each of which may be empty."""
    before: Block = ()
    while then and otherwise and then[0] == otherwise[0] and _is_left_alone(test, then[:1]):
        before, then, otherwise = (*before, then[0]), then[1:], otherwise[1:]
    after: Block = ()
    while then and otherwise and then[-1] == otherwise[-1]:
        after, then, otherwise = (then[-1], *after), then[:-1], otherwise[:-1]
    if not then:
        test, then, otherwise = _opposite(test), otherwise, ()
    if otherwise and not test.value:
        test, then, otherwise = _opposite(test), otherwise, then
    if otherwise:
        return *before, IfElse(_condition(test), then, otherwise), *after
    if (
        then
        and isinstance(then[-1], While)
        and then[-1].condition == _condition(test)
        and then[:-1] in ((), then[-1].body)
    ):
        return *before, then[-1], *after  # the loop tests by itself, before the first time, too
    return *before, *((If(_condition(test), then),) if then else ()), *after


# Neighbours


def _append(done: list[Statement], statement: Statement) -> None:
    """Add a statement to a block. Branches by the same test become one, and so do an IF and a WHILE that repeats it."""
    last = done[-1] if done else None
    if isinstance(last, If) and isinstance(statement, While) and last == If(statement.condition, statement.body):
        done[-1] = statement
    elif isinstance(last, If | IfElse) and isinstance(statement, If | IfElse):
        (test, then, otherwise), (other, *more) = _parts(last), _parts(statement)
        if test.entry == other.entry and _is_left_alone(test, (last,)):
            more = more if test == other else more[::-1]
            done[-1:] = _branches(test, (*then, *more[0]), (*otherwise, *more[1]))
        else:
            done.append(statement)
    else:
        done.append(statement)


def _parts(statement: If | IfElse) -> tuple[_Test, Block, Block]:
    test = _test(statement.condition)
    return (test, statement.body, ()) if isinstance(statement, If) else (test, statement.then, statement.otherwise)


def _with_short_turns(statements: list[Statement]) -> Block:
    """The statements with the fewest turns in each row of turns."""
    found: list[Statement] = []
    quarters = 0
    for statement in statements:
        if isinstance(statement, Action) and statement in _TURNS:
            quarters += _TURNS[statement]
        else:
            found += (*_WRITTEN[quarters % _SIDES], statement)
            quarters = 0
    return (*found, *_WRITTEN[quarters % _SIDES])
