"""Words of the indented dialects."""

from __future__ import annotations

import pytest

from karelsynth.karel.dialects.lexer import lex


@pytest.mark.parametrize("text", ["'" + "\\'" * 100_000, '"""' + '\\"""' * 100_000])
def test_a_quotation_mark_is_looked_for_once(text: str) -> None:
    """Or else time grows with the square of what hostile text holds."""
    words, _ = lex(text)
    assert [word.kind for word in words] == ["unclosed", "newline", "end"]
    assert words[0].text == text[: 3 if text.startswith('"""') else 1]
