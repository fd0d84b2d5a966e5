"""Generates a client from the OpenAPI document that a real `syncd serve` has, and uses it as an app would.

Run it through `.ci/check-client`, which installs the requirements. openapi-python-client generates the client, and nothing
in it is changed. The client signs up, reports purchases, uses units, asks for entitlements, follows the changes as pages
and as a stream, and logs out and in. Every example of a request in the document must be accepted.
"""

import argparse
import datetime
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci/lib"))

import runbook
from runbook import PATIENCE, Failure

# Units that the account shares.
CATALOG = ROOT / "Examples/insomniowl-web/catalog.json"
PERIOD = "com.back40.InsomniOwl.3monthsOfRandom"
OWL = "com.back40.InsomniOwl.NightOwl"
UNITS = "com.back40.InsomniOwl.RandomOwls"
# The generator knows no body that is neither JSON, a form, text nor bytes. The batch is protobuf, for Swift.
LEFT_OUT = {"POST /v1/batch"}


def require(condition, what):
    if not condition:
        raise Failure(what)


def generate(document, folder):
    """The package of the client for an OpenAPI document."""
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", document, "--meta", "none",
         "--output-path", folder / "purchases"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, check=False,
        # It formats the code with a program that is beside this Python.
        env={"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin", "COLUMNS": "1000"})
    require(done.returncode == 0, f"the client was not generated: {done.stdout}")
    left_out = set(re.findall(r"parsing (\w+ \S+) within .* will not be generated", done.stdout))
    require(left_out == LEFT_OUT, f"the generator left out {left_out}, not {LEFT_OUT}: {done.stdout}")
    sys.path.insert(0, str(folder))


class Stream:
    """The event stream of an account, read by a thread through the connection of the generated client."""

    def __init__(self, client):
        self.isOpen, self.changed = threading.Event(), threading.Event()
        threading.Thread(target=self.read, args=(client.get_httpx_client(),), daemon=True).start()
        require(self.isOpen.wait(PATIENCE), "the event stream did not open")

    def read(self, client):
        with client.stream(
                "GET", "/v1/changes", headers={"Accept": "text/event-stream"}, timeout=PATIENCE) as response:
            for line in response.iter_lines():
                self.isOpen.set()
                if line.startswith("data:") and "/ledger" in line:
                    self.changed.set()
                    return


def use(url, document):
    """Uses the generated client."""
    from purchases import AuthenticatedClient, Client
    from purchases.api.accounts import create_account, create_session, end_session
    from purchases.api.derived import show_entitlements
    from purchases.api.evidence import send_evidence
    from purchases.api.values import list_changes
    from purchases import models
    from purchases.types import UNSET

    def client_of(session):
        require(isinstance(session, models.Session | models.NewSession), f"no session: {session}")
        return AuthenticatedClient(url, session.access_token, timeout=PATIENCE)

    def report(client, *items):
        answer = send_evidence.sync(client=client, body=models.Evidence(list(items)))
        require(isinstance(answer, models.EvidenceResults), f"no results: {answer}")
        return answer.results

    def access(client, name):
        answer = show_entitlements.sync(client=client)
        require(isinstance(answer, models.Snapshot), f"no entitlements: {answer}")
        return answer.access[name]

    anonymous = Client(url, timeout=PATIENCE)
    credentials = models.Credentials("generated@example.com", runbook.PASSWORD)
    client = client_of(create_account.sync(client=anonymous, body=credentials))
    latest = list_changes.sync(client=client, after="latest")
    require(isinstance(latest, models.ChangePage), f"no page of changes: {latest}")
    stream = Stream(client)

    require(not access(client, "random-owls").granted, "a new account has access")
    bought = models.ReportedPurchase(
        models.ReportedPurchaseKind.REPORTED, PERIOD, "T1", date=datetime.datetime.now(datetime.timezone.utc))
    first, = report(client, bought)
    require([fact.kind for fact in first.facts] == ["purchase", "recording"], f"the first report: {first}")
    again, = report(client, bought)
    require(again.facts == [] and again.problem is UNSET, f"the second report: {again}")
    require(access(client, "random-owls").granted, "a reported purchase grants nothing")

    require(stream.changed.wait(PATIENCE), "the event stream did not show the change of the ledger")
    page = list_changes.sync(client=client, after=latest.cursor)
    require(any(change.key.endswith("/ledger") for change in page.changes), f"no change of the ledger: {page}")

    spend = models.ReportedSpend(models.ReportedSpendKind.SPEND, "random-owls", "use-1")
    results = report(
        client, models.ReportedRefund(models.ReportedRefundKind.REFUNDED, "T1"),
        models.ReportedPurchase(models.ReportedPurchaseKind.REPORTED, UNITS, "T2"), spend, spend,
        models.ReportedFlag(models.ReportedFlagKind.FLAG, OWL, True),
        models.ReportedPurchase(models.ReportedPurchaseKind.REPORTED, "nothing", "T3"))
    require([result.remaining for result in results[2:4]] == [4, 4], f"a spend and its repetition: {results[2:4]}")
    require(results[3].facts == [], "the repetition of a spend is new")
    require(results[5].problem.code == models.EvidenceProblemCode.UNKNOWN_PRODUCT, f"an unknown product: {results[5]}")
    require(access(client, "night-owl").granted, "a set flag grants nothing")

    require(end_session.sync_detailed(client=client).status_code == 204, "the session does not end")
    require(show_entitlements.sync_detailed(client=client).status_code == 401, "an ended session is accepted")
    grant = models.PasswordGrant("password", "generated@example.com", runbook.PASSWORD)
    client = client_of(create_session.sync(client=anonymous, body=grant))
    require(access(client, "random-owls").granted, "units are lost after the next log-in")

    examples = document["paths"]["/v1/transactions"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for name, example in examples.items():
        results = report(client, *models.Evidence.from_dict(example["value"]).evidence)
        problems = [result.problem for result in results if result.problem is not UNSET]
        require(not problems, f"the example {name} has problems: {problems}")
    print(f"check-client: the generated client works, and {len(examples)} examples are accepted")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--syncd", required=True)
    syncd = pathlib.Path(parser.parse_args().syncd).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = runbook.Server(
            runbook.environment(syncd, folder), folder,
            ["--store", f"sqlite:{folder / 'server.sqlite'}", "--catalog", str(CATALOG)])
        try:
            server.start()
            path = folder / "openapi.yaml"
            with urllib.request.urlopen(server.url + "/openapi.yaml", timeout=PATIENCE) as answer:
                path.write_bytes(answer.read())
            generate(path, folder)
            use(server.url, YAML(typ="safe", pure=True).load(path))
        except Failure as failure:
            sys.exit(f"check-client: {failure}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
