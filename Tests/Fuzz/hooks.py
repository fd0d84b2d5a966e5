"""Supplies schemathesis with constraints and values that the OpenAPI document does not contain.

The environment variable FUZZ_AS has the role of the caller. FUZZ_WORLD names a JSON file with the address of the server
and its test data (see fuzz_api.py).
"""

import hashlib
import itertools
import json
import os
import threading
import time
import urllib.request

import requests.adapters
import schemathesis
import urllib3.connection
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation

with open(os.environ["FUZZ_WORLD"], encoding="utf-8") as file:
    WORLD = json.load(file)
ROLE = os.environ["FUZZ_AS"]

# The server counts wrong secrets by address. From a single address all log-ins would get 429 after the first fifty, so the
# connections come from many local addresses. fuzz_api.py guesses from a single one.
CONNECTIONS_OF_ADDRESS = 30
_connections = itertools.count()
_connect = urllib3.connection.HTTPConnection.connect


def _connect_from_another_address(self):
    number = next(_connections) // CONNECTIONS_OF_ADDRESS
    self.source_address = (f"127.{1 + number // 62500 % 250}.{number // 250 % 250}.{1 + number % 250}", 0)
    _connect(self)


urllib3.connection.HTTPConnection.connect = _connect_from_another_address
# Operations that check a secret. Each of their requests uses a new connection.
GUESSED = {"createAccount", "createSession", "changePassword", "renewRecoveryCodes", "eraseAccount", "approveDevice"}
# Operations that end a session or an account. Each of their requests uses a new account.
ENDING = {"endSession", "changePassword", "eraseAccount"}
PASSWORD = "a password for fuzzing"


def name_of(operation):
    return operation.definition.raw["operationId"]


class Accounts:
    """Creates accounts over the wire."""

    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.known = None

    def make(self):
        with self.lock:
            number = next(self.numbers)
        body = json.dumps({"name": f"fuzzed-{ROLE}-{number}", "password": PASSWORD}).encode()
        request = urllib.request.Request(
            WORLD["url"] + "/v1/accounts", body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=WORLD["patience"]) as answer:
            return json.loads(answer.read())

    def current(self):
        """The account of most requests. It is replaced before its access token expires after ten minutes."""
        with self.lock:
            due = self.known is None or time.monotonic() - self.known[1] > 300
        if due:
            made = self.make()
            with self.lock:
                self.known = (made, time.monotonic())
        return self.known[0]


ACCOUNTS = Accounts()


class Bearer:
    """The token of the caller."""

    def get(self, case, context):
        if name_of(case.operation) == "createAccount" and not is_chance(case, 4):
            # With a token, sign-up is refused before the body is read.
            return None
        if ROLE == "operator":
            return WORLD["operator"]
        if ROLE == "erased":
            return WORLD["erased"]
        return (ACCOUNTS.make() if name_of(case.operation) in ENDING else ACCOUNTS.current())["access_token"]

    def set(self, case, data, context):
        case.headers["Authorization"] = f"Bearer {data}"


if ROLE != "anonymous":
    schemathesis.auth(refresh_interval=None)(Bearer)


# Bodies other than JSON.

def field(number, payload):
    """A length-delimited proto3 field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(number):
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def own_keys():
    """Keys that the caller may access, and some that it may not."""
    own = ACCOUNTS.current() if ROLE == "account" else WORLD["other"]
    prefix = f"accounts/{escaped(own['account'])}/{own['incarnation']}/"
    other = WORLD["other"]
    # The operator can damage the directory entry of an account, whose erasure then correctly fails with 500.
    entries = [f"accounts/{escaped(own['account'])}/account"] if ROLE == "account" else []
    return [prefix + name for name in ("ledger", "decisions", "a", "b/c", "é")] + entries + [
        f"accounts/{other['account']}/{other['incarnation']}/ledger", "server/keys", "server/accounts/x", "free", ""]


def escaped(name):
    return name.replace("%", "%25").replace("/", "%2F")


def mutated(whole):
    """`whole` with a few bytes changed or truncated."""
    change = st.tuples(st.integers(0, max(0, len(whole) - 1)), st.integers(0, 255))

    def apply(drawn):
        changes, length = drawn
        bytes_ = bytearray(whole)
        for place, value in changes if whole else []:
            bytes_[place] = value
        return bytes(bytes_[:length])

    length = st.one_of(st.just(len(whole)), st.integers(0, len(whole)))
    return st.tuples(st.lists(change, max_size=3), length).map(apply)


LEDGER = bytes.fromhex(WORLD["ledger"])
VALUES = st.one_of(st.binary(max_size=64), st.just(LEDGER), mutated(LEDGER))


def operations():
    key = st.one_of(st.deferred(lambda: st.sampled_from(own_keys())).map(str.encode), st.binary(max_size=12))
    version = st.one_of(st.just(b""), st.binary(max_size=70))
    read = st.tuples(key, version).map(lambda it: field(1, field(1, it[0]) + field(2, it[1])))
    condition = st.one_of(
        st.sampled_from([b"\x18\x01", b"\x20\x01", b"\x18\x00", b""]), version.map(lambda it: field(5, it)))
    value = st.one_of(st.just(b""), VALUES.map(lambda it: field(2, it)))
    write = st.tuples(key, value, condition).map(lambda it: field(2, field(1, it[0]) + it[1] + it[2]))
    return st.lists(st.one_of(read, write), max_size=12).map(lambda all_: b"".join(field(1, it) for it in all_))


BATCHES = st.one_of(operations(), operations().flatmap(mutated), st.binary(max_size=64))
schemathesis.openapi.media_type("application/vnd.entitlementsync.batch", BATCHES)
schemathesis.openapi.media_type("application/octet-stream", VALUES)


@schemathesis.deserializer("application/octet-stream", "application/vnd.entitlementsync.batch")
def read_bytes(context, response):
    return response.content.decode("latin-1")


def drawn(case, place):
    """A pseudorandom number from 0 to 255 that depends only on the case and on `place`."""
    # Excludes values that differ between runs, such as tokens.
    text = repr((case.path_parameters, case.query, case.body))
    return hashlib.sha256(text.encode(errors="replace")).digest()[place]


def is_chance(case, number):
    """Returns true for one of `number` cases."""
    return drawn(case, 0) % number == 0


def is_negative(case):
    return case.meta is not None and case.meta.generation.mode.is_negative


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = name_of(case.operation)
    if operation in GUESSED:
        case.headers["Connection"] = "close"
    if operation in ("readValue", "writeValue", "deleteValue") and not is_chance(case, 4):
        if case.meta is None or not case.meta.is_negative_at(ParameterLocation.PATH):
            # Generated keys are hardly ever accessible. The ledger is chosen most often, because it has rules.
            keys = [key for key in own_keys() if key]
            case.path_parameters["key"] = keys[max(0, drawn(case, 1) % (len(keys) + 5) - 5)]
    if is_negative(case):
        return
    for name in ("If-Match", "If-None-Match"):
        # For a header with a pattern, schemathesis 4.32 generates the number 0 instead of a matching string.
        if case.headers.get(name) == "0":
            case.headers[name] = '"5f9c0a3e"'
    if operation in ("writeValue", "deleteValue") and not is_chance(case, 5):
        # Keep one condition; two would exclude each other.
        ways = [name for name in ("If-Match", "If-None-Match") if name in case.headers]
        for name in ways[1:]:
            del case.headers[name]
        if ways and case.query:
            case.query.pop("if", None)
    if operation in ENDING | {"renewRecoveryCodes"} and isinstance(case.body, dict) and not is_chance(case, 3):
        case.body["password"] = PASSWORD
    if operation == "createSession" and isinstance(case.body, dict) and not is_chance(case, 3):
        # A log-in uses up codes and tokens, so it needs a new account.
        own = ACCOUNTS.current() if "password" in case.body else ACCOUNTS.make()
        known = {
            "username": own["account"], "password": PASSWORD, "refresh_token": own["refresh_token"],
            "recovery_code": own.get("recovery_codes", [""])[0]}
        case.body.update({name: value for name, value in known.items() if name in case.body})
    if operation == "approveDevice" and isinstance(case.body, dict) and not is_chance(case, 3):
        case.body["password"] = PASSWORD
        request = urllib.request.Request(WORLD["url"] + "/v1/devices", b"", method="POST")
        with urllib.request.urlopen(request, timeout=WORLD["patience"]) as answer:
            case.body["user_code"] = json.loads(answer.read())["user_code"]
    if operation in ("resetAccount", "eraseAccountByName") and not is_chance(case, 3):
        case.path_parameters["name"] = ACCOUNTS.make()["account"]
