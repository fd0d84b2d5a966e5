"""Clients that write to a server under load, and later compare what it has with what was acknowledged."""

import http.client
import json
import threading
import time

import runbook
from runbook import Failure


class Client(threading.Thread):
    """Writes an entry again and again, and reads it every fourth time. Repeats what was not acknowledged."""

    def __init__(self, number, ports, name="client"):
        super().__init__(daemon=True)
        name = f"{name}{number}"
        # The clients spread over the ports.
        self.name, self.ports, self.turn = name, ports, number
        self.connection = None
        self.is_over = False
        # True if the store was replaced by a copy, in which the entry has another version.
        self.is_moved = False
        self.problem = None
        self.writes = self.reads = self.unknown = 0
        self.acknowledged = self.sent = -1
        self.last, self.pause = time.monotonic(), 0.0
        status, answer = self.request(
            "POST", "/v1/accounts", {"name": name, "password": runbook.PASSWORD, "terms": None})
        if status != 201:
            raise Failure(f"{name}: the account was answered with {status}: {answer[:200]!r}")
        account = json.loads(answer)
        self.token, self.refresh_token = account["access_token"], account["refresh_token"]
        self.path = f"/v1/kv/accounts/{name}/{account['incarnation']}/note"
        self.tag = None

    def request(self, method, path, value=None, fields=None):
        if self.connection and self.connection.port not in self.ports:
            self.connection.close()
            self.connection = None
        if self.connection is None:
            self.turn += 1
            self.connection = http.client.HTTPConnection("127.0.0.1", self.ports[self.turn % len(self.ports)], timeout=10)
        fields = dict(fields or {})
        body = value
        if isinstance(value, dict):
            body = json.dumps({key: item for key, item in value.items() if item is not None})
            fields["Content-Type"] = "application/json"
        try:
            self.connection.request(method, path, body, fields)
            response = self.connection.getresponse()
            self.tag_seen = response.getheader("ETag")
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise

    def run(self):
        try:
            while not self.is_over:
                self.step()
        except Exception as problem:
            self.problem = f"{self.name}: {problem!r}"

    def step(self):
        bearer = {"Authorization": f"Bearer {self.token}"}
        number = self.acknowledged + 1
        precondition = {"If-Match": self.tag} if self.tag else {"If-None-Match": "*"}
        self.sent = number
        try:
            status, answer = self.request("PUT", self.path, str(number), bearer | precondition)
        except (OSError, http.client.HTTPException):
            self.unknown += 1
            time.sleep(0.02)
            return
        if status in (200, 201, 204):
            self.tag, self.acknowledged = self.tag_seen, number
            self.writes += 1
            self.note()
        elif status == 412 and answer == str(number).encode():
            # The write before, whose answer did not arrive, had happened.
            self.tag, self.acknowledged = self.tag_seen, number
            self.note()
        elif status == 412 and self.is_moved and answer == str(self.acknowledged).encode():
            self.tag, self.is_moved = self.tag_seen, False
        elif status == 412:
            raise Failure(f"the entry has {answer!r}, after {self.acknowledged} was acknowledged")
        elif status == 401:
            self.refresh()
        elif status in (502, 503, 504) or (status == 500 and b"outcomeUnknown" in answer):
            self.unknown += 1
            time.sleep(0.02)
        else:
            raise Failure(f"a write was answered with {status}: {answer[:200]!r}")
        if number % 4 == 3:
            try:
                status, answer = self.request("GET", self.path, None, bearer)
            except (OSError, http.client.HTTPException):
                return
            if status == 200:
                if int(answer) < self.acknowledged:
                    raise Failure(f"a read has {answer!r}, after {self.acknowledged} was acknowledged")
                self.reads += 1
            elif status not in (401, 502, 503, 504):
                raise Failure(f"a read was answered with {status}: {answer[:200]!r}")

    def refresh(self):
        """Replaces the access token, which is valid for ten minutes."""
        try:
            status, answer = self.request(
                "POST", "/v1/sessions", {"grant_type": "refresh_token", "refresh_token": self.refresh_token})
        except (OSError, http.client.HTTPException):
            return
        if status == 200:
            session = json.loads(answer)
            self.token, self.refresh_token = session["access_token"], session["refresh_token"]
        elif status not in (502, 503, 504):
            raise Failure(f"the refresh was answered with {status}: {answer[:200]!r}")

    def note(self):
        now = time.monotonic()
        self.pause = max(self.pause, now - self.last)
        self.last = now


def compare(clients):
    """Compares every entry with what its client saw acknowledged."""
    for client in clients:
        client.refresh()
        status, answer = client.request("GET", client.path, None, {"Authorization": f"Bearer {client.token}"})
        if status != 200 or not client.acknowledged <= int(answer) <= client.sent:
            raise Failure(f"{client.name}: {status} {answer!r}, after {client.acknowledged} was acknowledged")
