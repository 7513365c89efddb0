"""Programs with helper functions as tokens, every program one edit away, and the way back to a text's statements.

A program is a tuple of bytes, one for each function that a run can reach: the tokens of its body, with a byte of its
own for each helper that is called. Functions come in an order in which each calls only those before it, the main
one last. Changing a helper is one edit, however often it is called.

An edit is what a person would call one change: another action, condition or count; a statement inserted or deleted; two
statements swapped; `if` for `while`; a statement moved into or out of a block; a block put around statements or taken
away. Its cost says how unusual it is. Costs only order programs with equally many edits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from karelsynth.karel.dialects.source import CALL, SourceBlock, SourceProgram, SourceStatement
from karelsynth.karel.program import Condition, Not, Sensor
from karelsynth.karel.tokens import ACTIONS, COUNTS, ID, LARGEST_COUNT, TOKENS

FIRST_CALL: Final = 200
"""The byte of a call of function 0; function n has FIRST_CALL + n."""
MOST_FUNCTIONS: Final = 50
"""The most functions whose calls have bytes."""
_WRAPPED: Final = 4
"""The most statements that one edit puts into a block."""
HEAD, TAIL = bytes([ID["DEF"], ID["run"], ID["m("]]), bytes([ID["m)"]])
_ACTIONS: Final = tuple(ID[action] for action in ACTIONS)
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = _ACTIONS
_OPPOSITE: Final = {_LEFT: _RIGHT, _RIGHT: _LEFT, _PICK: _PUT, _PUT: _PICK}
_WHILE, _IF, _IFELSE, _REPEAT = (ID[word] for word in ("WHILE", "IF", "IFELSE", "REPEAT"))
_BLOCKS: Final = {_WHILE: (ID["w("], ID["w)"]), _IF: (ID["i("], ID["i)"]), _REPEAT: (ID["r("], ID["r)"])}
_ELSE: Final = bytes([ID["i)"], ID["ELSE"], ID["e("]])
_FIRST_COUNT: Final = ID[COUNTS[0]]
_BYTE: Final = [bytes([number]) for number in range(256)]


def _condition_bytes(condition: Condition) -> bytes:
    if isinstance(condition, Not):
        return bytes([ID["not"], ID["c("], *_condition_bytes(condition.condition), ID["c)"]])
    return bytes([ID[condition.value]])


_CLEAR: Final = (Sensor.FRONT_IS_CLEAR, Sensor.LEFT_IS_CLEAR, Sensor.RIGHT_IS_CLEAR)
_NEGATED: Final[dict[Condition, Condition]] = {
    **{sensor: Not(sensor) for sensor in _CLEAR},
    **{Not(sensor): sensor for sensor in _CLEAR},
    Sensor.MARKERS_PRESENT: Sensor.NO_MARKERS_PRESENT,
    Sensor.NO_MARKERS_PRESENT: Sensor.MARKERS_PRESENT,
}
CONDITIONS: Final = {_condition_bytes(condition): condition for condition in _NEGATED}
"""The eight conditions that edits write, by their tokens."""
_OTHER_WAY: Final = {
    _condition_bytes(condition): _condition_bytes(opposite) for condition, opposite in _NEGATED.items()
} | {
    _condition_bytes(Not(sensor)): _condition_bytes(sensor)
    for sensor in (Sensor.MARKERS_PRESENT, Sensor.NO_MARKERS_PRESENT)
}


def _heads() -> list[tuple[int, bytes, bytes]]:
    """The heads of blocks that edits write: keyword, tokens up to the opening bracket, tokens from the closing one."""
    found = []
    for keyword in (_IF, _WHILE):
        opened, closed = _BLOCKS[keyword]
        for condition in CONDITIONS:
            head = bytes([keyword, ID["c("], *condition, ID["c)"], opened])
            found.append((keyword, head, bytes([closed])))
    for count in range(2, 11):
        found.append((_REPEAT, bytes([_REPEAT, _FIRST_COUNT + count, ID["r("]]), bytes([ID["r)"]])))
    return found


_HEADS: Final = _heads()
_WRAPS: Final = [(2.2 if keyword == _IF else 2.5, head, tail) for keyword, head, tail in _HEADS]
_GUARDED: Final = [
    head + bytes([action]) + tail
    for keyword, head, tail in _HEADS
    for action in _ACTIONS
    if keyword == _IF or (keyword == _WHILE and action in (_MOVE, _PICK))  # turning and putting hardly end a loop
]
"""The blocks that may be inserted, with one action inside."""


def flat_tokens(bodies: tuple[bytes, ...]) -> bytes:
    """The program that runs, from `DEF` to `m)`: the main function with calls replaced."""
    if len(bodies) == 1:
        return HEAD + bodies[0] + TAIL
    flat: list[bytes] = []
    for body in bodies:
        for number, helper in enumerate(flat):
            call = FIRST_CALL + number
            if call in body:
                body = body.replace(bytes([call]), helper)
        flat.append(body)
    return HEAD + flat[-1] + TAIL


def one_function(program: bytes) -> tuple[bytes, ...]:
    """The functions of a program without helpers, from `DEF` to `m)`: the main one."""
    return (program[len(HEAD) : -len(TAIL)],)


def _body(block: SourceBlock, numbers: dict[str, int], placed: dict[int, SourceStatement], at: int) -> bytes:
    """The tokens of a block that begins at token `at`; notes the statements in `placed`."""
    found = b""
    for statement in block:
        placed[at + len(found)] = statement
        if statement.keyword == CALL:
            found += bytes([FIRST_CALL + numbers[str(statement.detail)]])
        elif not statement.blocks:
            found += bytes([ID[statement.keyword]])
        else:
            detail = statement.detail
            if isinstance(detail, int):
                found += bytes([_REPEAT, _FIRST_COUNT + detail, ID["r("]])
            else:
                assert isinstance(detail, Sensor | Not)
                opened = ID["w("] if statement.keyword == "WHILE" else ID["i("]
                found += bytes([ID[statement.keyword], ID["c("], *_condition_bytes(detail), ID["c)"], opened])
            for number, inner in enumerate(statement.blocks):
                found += _ELSE if number else b""
                found += _body(inner, numbers, placed, at + len(found))
            found += bytes([{"REPEAT": ID["r)"], "WHILE": ID["w)"], "IF": ID["i)"]}.get(statement.keyword, ID["e)"])])
    return found


class Node(NamedTuple):
    """A statement in the tokens of a function: tokens[start : end]."""

    start: int
    end: int
    keyword: int
    blocks: tuple[NodeBlock, ...] = ()
    detail: tuple[int, int] = (0, 0)
    """The range of the condition's or the count's tokens."""


class NodeBlock(NamedTuple):
    """A block in the tokens of a function: tokens[start : end], without its brackets."""

    start: int
    end: int
    nodes: tuple[Node, ...]


_CLOSERS: Final = frozenset(ID[word] for word in ("w)", "i)", "e)", "r)"))


def nodes_of(body: bytes) -> NodeBlock:
    """The statements of a function."""
    return _block(body, 0)


def _block(body: bytes, start: int) -> NodeBlock:
    nodes, at = [], start
    while at < len(body) and body[at] not in _CLOSERS:
        node = _node(body, at)
        nodes.append(node)
        at = node.end
    return NodeBlock(start, at, tuple(nodes))


def _node(body: bytes, at: int) -> Node:
    keyword = body[at]
    if keyword == _REPEAT:
        block = _block(body, at + 3)
        return Node(at, block.end + 1, keyword, (block,), (at + 1, at + 2))
    if keyword not in (_WHILE, _IF, _IFELSE):
        return Node(at, at + 1, keyword)
    end = at + 2
    while body[end] == ID["not"]:
        end += 2
    end += 1
    while body[end + 1] == ID["c)"]:
        end += 1
    first = _block(body, end + 2)
    if keyword != _IFELSE:
        return Node(at, first.end + 1, keyword, (first,), (at + 2, end))
    second = _block(body, first.end + 3)
    return Node(at, second.end + 1, keyword, (first, second), (at + 2, end))


Segment = tuple[int, int] | tuple[bytes, int]
"""Tokens that are kept, by their range; or new tokens and the index of the old statement that they replace, or −1."""


class Edit(NamedTuple):
    """A change of one function: tokens begin … end − 1 of its body become `middle`."""

    kind: str
    """One of the kinds in `wording`."""
    function: int
    at: int
    """The first token of the statement that is changed, or before which something is inserted."""
    cost: float
    begin: int
    end: int
    middle: bytes
    segments: tuple[Segment, ...]
    """The parts of `middle`, to find what is kept."""
    edit_count: int = 1
    """How many edits it counts for: a block that is inserted with an action inside counts for two."""

    def applied(self, bodies: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The changed functions."""
        body, number = bodies[self.function], self.function
        return (*bodies[:number], body[: self.begin] + self.middle + body[self.end :], *bodies[number + 1 :])


def edits(bodies: tuple[bytes, ...], *, usual: bool = True, rare: bool = True, most: int = 2) -> Iterator[Edit]:
    """Every edit of a program that counts for at most `most` edits.

    The usual ones change or move what is there, or insert an action. The rare ones put blocks around statements, or
    insert blocks.
    """
    for function, body in enumerate(bodies):
        enumerator, block = _Enumerator(body, function), nodes_of(body)
        if usual:
            yield from enumerator.in_block(block)
        if rare:
            yield from enumerator.wraps(block)
            if most > 1:
                yield from enumerator.guarded(block)


class _Enumerator:
    """The edits of one function."""

    def __init__(self, body: bytes, function: int) -> None:
        self.body, self.function = body, function
        self.simple = (*_ACTIONS, *range(FIRST_CALL, FIRST_CALL + function))

    def edit(self, kind: str, cost: float, at: int, new: bytes, begin: int, end: int, old: int = -1) -> Edit:
        """Tokens begin … end − 1 replaced by new ones, for the statement at `old`, if any."""
        return Edit(kind, self.function, at, cost, begin, end, new, ((new, old),))

    def rearranged(self, kind: str, cost: float, at: int, *middle: Segment, begin: int, end: int) -> Edit:
        """Tokens begin … end − 1 replaced by kept and new ones."""
        body, new = self.body, b""
        for first, second in middle:
            new += body[first:second] if isinstance(first, int) else first
        return Edit(kind, self.function, at, cost, begin, end, new, middle)

    def in_block(self, block: NodeBlock) -> Iterator[Edit]:
        yield from self.insertions(block)
        for number, node in enumerate(block.nodes):
            follower = block.nodes[number + 1] if number + 1 < len(block.nodes) else None
            if len(block.nodes) > 1:
                cost = 0.9 if not node.blocks else 3.0
                yield self.rearranged("delete", cost, node.start, begin=node.start, end=node.end)
            if follower is not None and self.body[node.start : node.end] != self.body[follower.start : follower.end]:
                both = (follower.start, follower.end), (node.start, node.end)
                yield self.rearranged("swap", 1.0, node.start, *both, begin=node.start, end=follower.end)
            if not node.blocks:
                yield from self.replacements(node)
                continue
            yield from self.heads(node)
            yield from self.across(node, follower)
            for inner in node.blocks:
                yield from self.in_block(inner)

    def insertions(self, block: NodeBlock) -> Iterator[Edit]:
        places = [*(node.start for node in block.nodes), block.end]
        for place in places:
            before = self.body[place - 1] if place > block.start else 0
            after = self.body[place] if place < block.end else 0
            for new in self.simple:
                opposite = _OPPOSITE.get(new)
                if new == before or (opposite is not None and opposite in (before, after)):
                    continue  # the same as an insertion before, or undone at once
                yield self.edit("insert", 1.5, place, _BYTE[new], place, place)
            if before in self.simple and before != _RIGHT and after != before:  # one more of the same
                yield self.edit("insert", 1.6, place, _BYTE[before], place, place)

    def replacements(self, node: Node) -> Iterator[Edit]:
        for new in self.simple:
            if new != node.keyword:
                cost = 0.5 if _OPPOSITE.get(new) == node.keyword else 1.0
                yield self.edit("replace", cost, node.start, _BYTE[new], node.start, node.end, node.start)

    def heads(self, node: Node) -> Iterator[Edit]:
        """Another condition, count or kind of a statement with blocks; only its body; another order of its blocks."""
        body, start, keyword, first = self.body, node.start, node.keyword, node.blocks[0]
        inside = (first.start, first.end)
        yield self.rearranged("unwrap", 2.0, start, inside, begin=start, end=node.end)
        begin, end = node.detail
        if keyword == _REPEAT:
            count = body[begin] - _FIRST_COUNT
            for times in range(1, LARGEST_COUNT + 1):
                if times != count:
                    cost = 0.5 if abs(times - count) == 1 else 1.5 + 0.05 * abs(times - count)
                    yield self.edit("count", cost, start, _BYTE[_FIRST_COUNT + times], begin, end)
            for other, head, tail in _HEADS:
                if other == _WHILE:
                    both = (head, start), inside, (tail, -1)
                    yield self.rearranged("repeat to while", 2.0, start, *both, begin=start, end=node.end)
            return
        written = body[begin:end]
        for condition in CONDITIONS:
            if condition != written:
                cost = 0.5 if condition == _OTHER_WAY.get(written) else 1.0
                yield self.edit("condition", cost, start, condition, begin, end)
        if keyword == _IFELSE:
            yield from self.branches(node)
            return
        changed = _WHILE if keyword == _IF else _IF
        opened, closed = _BLOCKS[changed]
        parts = (bytes([changed]), start), (start + 1, first.start - 1), (bytes([opened]), -1), inside
        kind = "if to while" if keyword == _IF else "while to if"
        yield self.rearranged(kind, 0.5, start, *parts, (bytes([closed]), -1), begin=start, end=node.end)
        if keyword == _IF:
            for new in self.simple:
                both = (bytes([_IFELSE]), start), (start + 1, first.end), (bytes([*_ELSE, new, ID["e)"]]), -1)
                yield self.rearranged("add else", 1.8, start, *both, begin=start, end=node.end)
        else:
            for times in range(2, 11):
                head = bytes([_REPEAT, _FIRST_COUNT + times, ID["r("]])
                both = (head, start), inside, (bytes([ID["r)"]]), -1)
                yield self.rearranged("while to repeat", 2.5, start, *both, begin=start, end=node.end)

    def branches(self, node: Node) -> Iterator[Edit]:
        """The branches of an `if` with an `else` swapped, or only one of them."""
        start, (first, second) = node.start, node.blocks
        inside, other = (first.start, first.end), (second.start, second.end)
        swapped = (start, first.start), other, (_ELSE, -1), inside, (node.end - 1, node.end)
        yield self.rearranged("swap branches", 0.7, start, *swapped, begin=start, end=node.end)
        yield self.rearranged("unwrap", 2.0, start, other, begin=start, end=node.end)
        only = (bytes([_IF]), start), (start + 1, first.end + 1)
        yield self.rearranged("drop else", 1.5, start, *only, begin=start, end=node.end)

    def across(self, node: Node, follower: Node | None) -> Iterator[Edit]:
        """A statement moved into a block from behind it, or out of a block to behind it or before it."""
        last = node.blocks[-1]
        if follower is not None:
            parts = (node.start, last.end), (follower.start, follower.end), (last.end, node.end)
            yield self.rearranged("move in", 1.3, follower.start, *parts, begin=node.start, end=follower.end)
        if len(last.nodes) > 1:
            out = last.nodes[-1]
            parts = (node.start, out.start), (out.end, node.end), (out.start, out.end)
            yield self.rearranged("move out", 1.3, out.start, *parts, begin=node.start, end=node.end)
        first = node.blocks[0]
        if len(first.nodes) > 1 and len(node.blocks) == 1:
            out = first.nodes[0]
            parts = (out.start, out.end), (node.start, out.start), (out.end, node.end)
            yield self.rearranged("move out", 1.6, out.start, *parts, begin=node.start, end=node.end)

    def wraps(self, block: NodeBlock) -> Iterator[Edit]:
        """Blocks put around statements."""
        nodes, body, function = block.nodes, self.body, self.function
        for number, node in enumerate(nodes):
            for last in range(number, min(number + _WRAPPED, len(nodes))):
                begin, end = node.start, nodes[last].end
                inside, kept, more = body[begin:end], (begin, end), 0.1 * (last - number)
                for cost, head, tail in _WRAPS:
                    parts: tuple[Segment, ...] = ((head, -1), kept, (tail, -1))
                    new = head + inside + tail
                    yield Edit("wrap", function, begin, cost + more, begin, end, new, parts)
            for inner in node.blocks:
                yield from self.wraps(inner)

    def guarded(self, block: NodeBlock) -> Iterator[Edit]:
        """Inserted blocks with one action."""
        for node in block.nodes:
            for inner in node.blocks:
                yield from self.guarded(inner)
        for place in [*(node.start for node in block.nodes), block.end]:
            for new in _GUARDED:
                yield Edit("insert block", self.function, place, 3.0, place, place, new, ((new, -1),), 2)


class EditedCode:
    """A program of a text as tokens while it is edited, with the way back to the text's statements."""

    def __init__(self, source: SourceProgram) -> None:
        names: list[str] = []

        def add(name: str) -> None:
            if name in names:
                return
            for statement in source.functions[name].body:
                for inner in statement.walk():
                    if inner.keyword == CALL:
                        add(str(inner.detail))
            names.append(name)

        add(source.main)
        self.names = tuple(names)
        """The functions that a run can reach, each after those that it calls."""
        self._statements: list[dict[int, SourceStatement]] = [{} for _ in names]
        """For each function, the written statement at each statement's first token."""
        numbers = {name: number for number, name in enumerate(names)}
        self.bodies = tuple(
            _body(source.functions[name].body, numbers, placed, 0)
            for name, placed in zip(names, self._statements, strict=True)
        )
        """For each function, the tokens of its body."""
        self._written = self.bodies
        self._origins = [list(range(len(body))) for body in self.bodies]
        """For each token, the one of the text that it was; -1 for a new one."""

    def apply(self, edit: Edit) -> None:
        """Change the program."""
        old = self._origins[edit.function]
        middle: list[int] = []
        for first, second in edit.segments:
            if isinstance(first, int):
                middle += old[first:second]
            else:
                middle += [old[second] if second >= 0 else -1, *[-1] * (len(first) - 1)]
        self._origins[edit.function] = [*old[: edit.begin], *middle, *old[edit.end :]]
        self.bodies = edit.applied(self.bodies)

    def statement_at(self, function: int, token: int) -> SourceStatement | None:
        """The written statement whose first token this was; None for a new one, or if no statement begins there."""
        origins = self._origins[function]
        if token >= len(origins) or origins[token] < 0:
            return None
        return self._statements[function].get(origins[token])

    def functions(self) -> dict[str, SourceBlock]:
        """The functions that have changed, by name."""
        return {
            name: self._block(number, nodes_of(self.bodies[number]))
            for number, name in enumerate(self.names)
            if self.bodies[number] != self._written[number]
        }

    def _block(self, function: int, block: NodeBlock) -> SourceBlock:
        return tuple(self._statement(function, node) for node in block.nodes)

    def _statement(self, function: int, node: Node) -> SourceStatement:
        original = self.statement_at(function, node.start)
        blocks = tuple(self._block(function, inner) for inner in node.blocks)
        keyword, detail = written_as(self.bodies[function], node, self.names)
        if original is None:
            return SourceStatement(keyword, detail, blocks)
        same_head = (original.keyword, original.detail) == (keyword, detail)
        if same_head and blocks == original.blocks:  # statements are equal only to themselves
            return original
        return SourceStatement(keyword, detail, blocks, original.place)


def written_as(body: bytes, node: Node, names: Sequence[str]) -> tuple[str, Condition | int | str | None]:
    """The keyword and the detail of a statement in tokens."""
    if node.keyword >= FIRST_CALL:
        return CALL, names[node.keyword - FIRST_CALL]
    keyword = TOKENS[node.keyword]
    if not node.blocks:
        return keyword, None
    detail = body[slice(*node.detail)]
    if keyword == "REPEAT":
        return keyword, int(TOKENS[detail[0]].removeprefix("R="))
    return keyword, CONDITIONS.get(detail) or condition_of(detail)


def condition_of(tokens: bytes) -> Condition:
    """The condition of tokens."""
    if tokens[0] == ID["not"]:
        return Not(condition_of(tokens[2:-1]))
    return Sensor(TOKENS[tokens[0]])
