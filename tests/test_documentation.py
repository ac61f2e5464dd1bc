"""The operator page is generated from the definitions: it must be the one of this build."""

from pathlib import Path

from iterlab import operators_page

PAGE = Path(__file__).parent.parent / "docs" / "operators.md"


def test_operator_page_is_current() -> None:
    assert operators_page.is_current(PAGE), "iterlab ops --markdown > docs/operators.md"
