"""A learning platform for tests of LTI 1.3: it signs who somebody is, and takes scores from those
who sign well.
"""

import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import jwt
from jwcrypto.jwk import JWK

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
GRADES = "https://purl.imsglobal.org/spec/lti-ags/"
SCOPE = [f"{GRADES}scope/lineitem", f"{GRADES}scope/score"]
CLIENT, DEPLOYMENT = "client-1", "deployment-1"


class Platform:
    """A platform on 127.0.0.1; `scores` has what it took, `refusals` how it answers the next ones.

    Attributes
    ----------
    tool : str
        The public key (PEM) of the tool that may send scores.
    """

    def __init__(self):
        self.key = JWK.generate(kty="RSA", size=2048, kid="platform", alg="RS256", use="sig")
        self.tool, self.tokens, self.used = "", set(), set()
        self.columns, self.scores, self.refusals, self.delay = [], [], [], 0.0
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = urlsplit(self.path).path
                answers = {"/jwks": {"keys": [platform.key.export_public(as_dict=True)]}}
                if path == "/lineitems":
                    platform.check(self)
                    answers[path] = platform.columns
                self.answer(200 if path in answers else 404, answers.get(path))

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                time.sleep(platform.delay)
                self.answer(*platform.post(self, body))

            def answer(self, status, value):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def check(self, request):
        """Fail unless a request has a token of ours."""
        assert request.headers["Authorization"].removeprefix("Bearer ") in self.tokens

    def post(self, request, body):
        """Return the status and the answer to a POST."""
        path = urlsplit(request.path).path
        if path == "/token":
            return self.token(parse_qs(body))
        self.check(request)
        if path == "/lineitems":
            self.columns.append(
                {**json.loads(body), "id": f"{self.address}/lineitems/{len(self.columns)}"}
            )
            return 201, self.columns[-1]
        score = json.loads(body)
        status = self.refusals.pop(0)(score) if self.refusals else 200
        if status == 200:
            self.scores.append((int(path.split("/")[2]), score))
        return status, {}

    def token(self, form):
        """Return an access token to a tool that signs with its key, once for each assertion."""
        assertion = form["client_assertion"][0]
        try:
            claims = jwt.decode(assertion, self.tool, ["RS256"], audience=f"{self.address}/token")
        except jwt.InvalidTokenError:
            return 401, {"error": "invalid_client"}
        if claims["jti"] in self.used or claims["iss"] != CLIENT:
            return 401, {"error": "invalid_client"}
        self.used.add(claims["jti"])
        self.tokens.add(secrets.token_hex())
        return 200, {"access_token": sorted(self.tokens)[-1], "expires_in": 3600}

    def id_token(self, nonce, person, key=None, **claims):
        """Return the signed statement that this person wants to use the tool, as the LMS knows them."""
        now = int(time.time())
        statement = {
            "iss": self.address, "aud": CLIENT, "sub": f"number-of-{person}", "nonce": nonce,
            "iat": now, "exp": now + 60, "email": f"{person}@example.edu",
            f"{CLAIM}message_type": "LtiResourceLinkRequest", f"{CLAIM}version": "1.3.0",
            f"{CLAIM}deployment_id": DEPLOYMENT, f"{CLAIM}roles": [],
            f"{CLAIM}resource_link": {"id": "link-1"},
            f"{CLAIM}target_link_uri": "http://127.0.0.1/hub",
            f"{CLAIM}custom": {"username": person},
            f"{GRADES.removesuffix('/')}/claim/endpoint": {
                "scope": SCOPE, "lineitems": f"{self.address}/lineitems",
            },
            **claims,
        }  # fmt: skip
        pem = (key or self.key).export_to_pem(True, None)
        return jwt.encode(statement, pem, "RS256", headers={"kid": "platform"})
