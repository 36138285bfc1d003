"""The pages, what is shown in them and the attacks once more, over a sealed store."""

from __future__ import annotations

import pytest

from clew import keys
from tests.web import test_guard, test_pages, test_turns
from tests.web.conftest import same_tests


@pytest.fixture(scope="module")
def key() -> bytes:
    return keys.generate()


globals().update(same_tests(test_pages, test_guard, test_turns, without={"test_a_sealed_store_asks_for_its_key"}))
