"""People log in to the hub through a learning platform, by LTI 1.3, with real keys."""

import json
import shutil
import stat
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from hub_machine import Machine, lacking
from jwcrypto.jwk import JWK
from lti_platform import CLIENT, SCOPE, Platform

pytestmark = pytest.mark.slow

LAUNCHES = "/srv/lti/launches.json"
SETTINGS = """
[lti]
issuer = "{address}"
client_id = "{client}"
authorize_url = "{address}/auth"
jwks_url = "{address}/jwks"
username = "custom_username"
launches = "{launches}"
"""


@pytest.fixture(scope="module")
def platform():
    platform = Platform()
    yield platform
    platform.close()


@pytest.fixture(scope="module")
def machine(platform):
    """A hub with an account for ada, to which the platform leads."""
    reason = lacking()
    if reason:
        print(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="hub-"))
    text = SETTINGS.format(address=platform.address, client=CLIENT, launches=LAUNCHES)
    machine = Machine(folder, ["ada"], lti=text)
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()
        shutil.rmtree(folder)


class Browser:
    """A browser that comes from the platform to the hub, which asks the platform who that is."""

    def __init__(self, machine, platform):
        self.session, self.hub = requests.Session(), f"{machine.address}/hub"
        form = {
            "iss": platform.address, "login_hint": "x", "client_id": CLIENT,
            "target_link_uri": self.hub,
        }  # fmt: skip
        answer = self.session.post(
            f"{self.hub}/lti13/oauth_login", data=form, allow_redirects=False
        )
        asked = urlsplit(answer.headers["Location"])
        assert f"{asked.scheme}://{asked.netloc}{asked.path}" == f"{platform.address}/auth"
        query = {name: value for name, (value,) in parse_qs(asked.query).items()}
        self.state, self.nonce = query["state"], query["nonce"]

    def log_in(self, token, state=None):
        """Bring the platform's statement to the hub; return the answer's status and new cookies."""
        form = {"id_token": token, "state": state or self.state}
        url = f"{self.hub}/lti13/oauth_callback"
        return self.session.post(url, data=form, allow_redirects=False)

    @property
    def is_in(self):
        answer = self.session.get(f"{self.hub}/home", allow_redirects=False)
        return answer.status_code == 200


def test_a_person_of_the_platform_is_an_account_of_the_machine(machine, platform):
    browser = Browser(machine, platform)
    assert not browser.is_in
    assert browser.log_in(platform.id_token(browser.nonce, "ada")).status_code == 302
    assert browser.is_in
    path = machine.path(LAUNCHES)
    people = {"ada": "number-of-ada"}
    assert json.loads(path.read_text()) == {"lineitems": "", "scope": [], "people": people}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "number-of-ada" in machine.run("grace", "cat", LAUNCHES)
    with pytest.raises(AssertionError, match="Permission denied"):
        machine.run("ada", "cat", LAUNCHES)


def test_only_the_instructors_login_says_where_scores_go(machine, platform):
    grades = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
    browser = Browser(machine, platform)
    assert browser.log_in(platform.id_token(browser.nonce, "grace")).status_code == 302
    browser = Browser(machine, platform)
    other = {grades: {"lineitems": "http://other.example/lineitems", "scope": SCOPE}}
    token = platform.id_token(browser.nonce, "ada", **other)
    assert browser.log_in(token).status_code == 302
    launches = json.loads(machine.path(LAUNCHES).read_text())
    assert launches["lineitems"] == f"{platform.address}/lineitems" and launches["scope"] == SCOPE
    assert launches["people"]["grace"] == "number-of-grace"


@pytest.mark.parametrize("name", ["mallory", "root"])
def test_who_has_no_account_for_it_stays_out(machine, platform, name):
    browser = Browser(machine, platform)
    assert browser.log_in(platform.id_token(browser.nonce, name)).status_code == 403
    assert not browser.is_in
    assert name not in machine.path(LAUNCHES).read_text()


def test_a_replay_is_refused(machine, platform):
    victim, thief = Browser(machine, platform), Browser(machine, platform)
    token = platform.id_token(victim.nonce, "ada")
    assert victim.log_in(token).status_code == 302
    assert thief.log_in(token).status_code in (400, 401, 403)
    assert thief.log_in(token, victim.state).status_code in (400, 401, 403)
    without = requests.post(
        f"{thief.hub}/lti13/oauth_callback", data={"id_token": token, "state": victim.state},
        allow_redirects=False, timeout=60,
    )  # fmt: skip
    assert without.status_code in (400, 401, 403) and not thief.is_in


@pytest.mark.parametrize(
    "claims",
    [{"aud": "another"}, {"iss": "http://another.example"}, {"exp": 1}, {"nonce": "other"}],
    ids=lambda claims: next(iter(claims)),
)
def test_a_wrong_statement_is_refused(machine, platform, claims):
    browser = Browser(machine, platform)
    nonce = claims.pop("nonce", browser.nonce)
    answer = browser.log_in(platform.id_token(nonce, "ada", **claims))
    assert answer.status_code in (400, 401, 403) and not browser.is_in


def test_another_key_is_refused(machine, platform):
    other = JWK.generate(kty="RSA", size=2048, kid="platform")
    browser = Browser(machine, platform)
    answer = browser.log_in(platform.id_token(browser.nonce, "ada", key=other))
    assert answer.status_code in (400, 401, 403) and not browser.is_in
