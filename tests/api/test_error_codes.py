"""Every error has a code of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import millrace


def test_no_two_errors_have_the_same_code() -> None:
    source = Path(millrace.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py")]
    codes = [code for text in texts for code in re.findall(r'default_code(?:: ClassVar\[str\])? = "(MR-\d+)"', text)]
    assert len(codes) > 30
    assert [code for code, count in Counter(codes).items() if count > 1] == []
