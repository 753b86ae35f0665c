"""The token: asked for when one is needed, kept for one tab, sent in a header alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.fakes import tokens
from tests.page.conftest import Tab, tab_in
from tlt_bench.page.served_page import ServedPage, serving

REFUSED = ("401", "403")
"""Browsers write refused requests into the console."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    path = tokens.write(tmp_path_factory.mktemp("tokens") / "tokens.yaml")
    with serving(8, "--tokens", str(path)) as served:
        yield served


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Continue").click()


def test_a_token_is_asked_for_once_and_sent_in_a_header(tab: Tab, guarded: ServedPage) -> None:
    tab.expected = REFUSED
    page = tab.open(guarded, "fleet")
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    sign_in(page, tokens.SECRETS["operator"])
    expect(page.locator("table tbody tr")).to_have_count(8)
    page.reload()
    expect(page.locator("table tbody tr")).to_have_count(8)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not [url for url in tab.requested if "secret" in url]
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("document.cookie") == ""


@pytest.mark.parametrize(("name", "why"), [("nobody", "token"), ("former", "expired"), ("reader", "observe")])
def test_a_token_that_is_refused_is_asked_for_again_with_the_reason(
    tab: Tab, guarded: ServedPage, name: str, why: str
) -> None:
    tab.expected = REFUSED
    page = tab.open(guarded, "fleet")
    sign_in(page, tokens.SECRETS.get(name, "wrong-secret-0123456789"))
    expect(page.get_by_role("alert")).to_contain_text("The last token was refused")
    expect(page.get_by_role("alert")).to_contain_text(why)
    sign_in(page, tokens.SECRETS["operator"])
    expect(page.locator("table tbody tr")).to_have_count(8)


def test_another_tab_asks_for_its_own(browser: Browser, guarded: ServedPage) -> None:
    with browser.new_context() as context:
        first, second = tab_in(context), tab_in(context)
        sign_in(first.open(guarded, "fleet"), tokens.SECRETS["operator"])
        expect(first.page.locator("table tbody tr")).to_have_count(8)
        expect(second.open(guarded, "fleet").get_by_role("dialog")).to_be_visible()


def test_the_page_itself_needs_no_token_and_contains_no_data(tab: Tab, guarded: ServedPage) -> None:
    tab.expected = REFUSED
    page = tab.open(guarded, "timeline")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert "worker-" not in page.content()
