"""The center's page in a real browser: with the operator's certificate, and on the machine itself."""

import shutil
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import sync_playwright

from dkpca.network import submit
from dkpca.network.jobs import FitWanted
from testkit.by_hand import FIT
from testkit.federation import center_in_this_process, wait_for

pytestmark = [pytest.mark.network, pytest.mark.browser]


@pytest.fixture(scope="module")
def center(quiet):
    """A run that ended badly, since no party is there; another with a report."""
    with center_in_this_process(quiet):
        job = FitWanted(run="first", fit=FIT, timeout=5.0, join_timeout=0.0)
        submit.submit(quiet.consortium, job)
        wait_for(lambda: submit.status(quiet.consortium)["runs"]["first"]["state"] == "failed", "end of the run")
        (quiet.runs / "first" / "report.html").write_text("<!doctype html><title>r</title><p id=x>A report</p>")
        (quiet.runs / "<img src=x onerror=alert(1)>").mkdir()
        yield quiet


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


def look(browser, address, **options):
    context = browser.new_context(ignore_https_errors=True, **options)
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    return page, problems


def test_the_page_shows_parties_runs_progress_and_reports_to_the_operator(center, browser):
    origin = f"https://127.0.0.1:{center.port}"
    folder = center.path / "center" / "operator"
    own = {"origin": origin, "certPath": folder / "own.crt", "keyPath": folder / "own.key"}
    page, problems = look(browser, origin, client_certificates=[own])
    assert page.title() == "dkpca: dkpca"
    text = page.inner_text("main")
    assert "0 of 3 parties connected" in text
    assert "first: fit failed" in text
    assert "it is not connected" in text
    assert "<img src=x onerror=alert(1)>" in text  # as words
    assert page.locator("script, img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.click("text=report")
    assert page.inner_text("#x") == "A report"
    assert problems == []


def test_the_page_on_this_machine_shows_the_same_without_reports(center, browser):
    page, problems = look(browser, f"http://127.0.0.1:{center.local_port}/")
    assert "first: fit failed" in page.inner_text("main")
    assert page.locator("a").count() == 0
    assert problems == []


def test_a_browser_without_the_certificate_sees_nothing(center, browser):
    with pytest.raises(Exception, match=r"ERR_BAD_SSL_CLIENT_AUTH_CERT|ERR_|net::"):
        look(browser, f"https://127.0.0.1:{center.port}/")


def get(center, path, host="127.0.0.1"):
    request = urllib.request.Request(f"http://127.0.0.1:{center.local_port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_another_name_for_this_machine_is_refused(center):
    """Else a page elsewhere could have a browser here read this one (DNS rebinding)."""
    assert get(center, "/")[0] == 200
    assert get(center, "/", host="evil.example.org") == (403, "only for this machine\n")
    assert get(center, "/runs/first/report")[0] == 404
    assert get(center, "/v1/runs")[0] == 404


def test_health_and_metrics_are_what_prometheus_reads(center):
    assert get(center, "/health") == (200, '{"problems":[],"status":"ok"}')
    status, text = get(center, "/metrics")
    assert status == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert values['dkpca_party_connected{party="bank"}'] == 0
    assert values['dkpca_runs{state="failed"}'] == 1
    assert values["dkpca_questions_open"] == 0
    assert 7_000_000 < values["dkpca_certificate_seconds_left"] < 90 * 86400
    assert values['dkpca_requests_total{method="POST",status="202"}'] == 1
