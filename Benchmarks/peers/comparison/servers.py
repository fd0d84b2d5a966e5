"""The servers. Each has the same accounts with one document of each size, which only its owner can read and write."""

import base64
import concurrent.futures
import pathlib
import re
import secrets
import shutil
import subprocess

from .process import Client, Failure, Process, answers, free_port

PASSWORD = "correct horse battery"
# Replaced by a number, so that every write differs.
NUMBER = "########"


def text(size):
    return NUMBER + "x" * (size - len(NUMBER))


def line(method, path, fields, body=""):
    return "\t".join([method, path, "\1".join(f"{name}: {value}" for name, value in fields.items()), body])


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Server:
    """The interface of a server to the measurements."""

    name = ""
    # The durability of a write, in words.
    durability = ""
    # The mode of requests.lua for writes.
    write_mode = "plain"
    process = None
    port = 0

    def version(self):
        raise NotImplementedError

    def start(self):
        raise NotImplementedError

    def prepare(self, names, sizes):
        """Creates the accounts and their documents."""

    def reads(self, size):
        """Read requests, one for each account, as lines for requests.lua; `None` if the server has none."""

    def writes(self, size):
        """Write requests, one for each account."""

    def logins(self, count):
        """Log-in requests of `count` accounts."""

    def stop(self):
        if self.process:
            self.process.stop()


class PocketBase(Server):
    name = "PocketBase"
    durability = "WAL, synchronous NORMAL: a power cut may lose the last commits"

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.records = {}

    def version(self):
        return subprocess.run(
            [self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def pragmas(self):
        """The pragma with which PocketBase opens a database, read from its program."""
        found = re.search(rb"\?_pragma=[\x20-\x7e]*?synchronous\((\w+)\)", pathlib.Path(self.program).read_bytes())
        return found.group(1).decode() if found else "unknown"

    def start(self):
        self.password = secrets.token_hex(16)
        subprocess.run(
            [self.program, "superuser", "upsert", "bench@example.com", self.password, f"--dir={self.data}"],
            check=True, capture_output=True, timeout=60)
        self.serve()

    @property
    def data(self):
        return self.folder / "data"

    def serve(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.process = Process(
            [self.program, "serve", f"--http=127.0.0.1:{self.port}", f"--dir={self.data}"] + self.options(),
            self.folder)
        self.process.wait_for(lambda: answers(self.port, "/api/health"))

    def options(self):
        return []

    def prepare(self, names, sizes):
        client = Client(self.port)
        session = client.json(
            "POST", "/api/collections/_superusers/auth-with-password",
            {"identity": "bench@example.com", "password": self.password})
        operator = bearer(session["token"])
        users = client.json("GET", "/api/collections/users", **operator)["id"]
        mine = "owner = @request.auth.id"
        client.json(
            "POST", "/api/collections",
            {"name": "documents", "type": "base", "listRule": mine, "viewRule": mine, "updateRule": mine,
             "createRule": None, "deleteRule": None,
             "fields": [
                 {"name": "owner", "type": "relation", "collectionId": users, "maxSelect": 1, "required": True},
                 {"name": "document", "type": "text", "max": 1_000_000},
                 {"name": "updated", "type": "autodate", "onCreate": True, "onUpdate": True},
             ]}, **operator)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            parts = [names[start::4] for start in range(4)]
            for made in pool.map(lambda part: self.make(part, sizes, operator), parts):
                self.records.update(made)
        self.names = names

    def make(self, names, sizes, operator):
        client, made = Client(self.port), {}
        for name in names:
            user = client.json(
                "POST", "/api/collections/users/records",
                {"email": f"{name}@example.com", "password": PASSWORD, "passwordConfirm": PASSWORD,
                 "verified": True}, **operator)
            token = client.json(
                "POST", f"/api/collections/users/impersonate/{user['id']}", {"duration": 86_400}, **operator)["token"]
            ids = {}
            for size in sizes:
                ids[size] = client.json(
                    "POST", "/api/collections/documents/records", {"owner": user["id"], "document": text(size)},
                    **operator)["id"]
            made[name] = (token, ids)
        return made

    def requests(self, method, size, fields, body=""):
        for name in self.names:
            token, ids = self.records[name]
            path = f"/api/collections/documents/records/{ids[size]}"
            yield line(method, path, {**bearer(token), **fields}, body)

    def reads(self, size):
        return self.requests("GET", size, {})

    def writes(self, size):
        return self.requests("PATCH", size, {"Content-Type": "application/json"}, f'{{"document":"{text(size)}"}}')

    def logins(self, count):
        for name in self.names[:count]:
            yield line(
                "POST", "/api/collections/users/auth-with-password", {"Content-Type": "application/json"},
                f'{{"identity":"{name}@example.com","password":"{PASSWORD}"}}')


class DurablePocketBase(PocketBase):
    """PocketBase with a hook that makes it sync every commit."""

    name = "PocketBase, FULL"
    durability = "WAL, synchronous FULL, set by a hook: a commit survives a power cut"

    HOOK = """\
onBootstrap((e) => {
  e.next();
  e.app.nonconcurrentDB().newQuery("PRAGMA synchronous = FULL").execute();
});
routerAdd("GET", "/synchronous", (e) => {
  const row = new DynamicModel({ synchronous: 0 });
  $app.nonconcurrentDB().newQuery("PRAGMA synchronous").one(row);
  return e.json(200, row);
});
"""

    def __init__(self, program, folder, original):
        super().__init__(program, folder)
        self.original = original

    def start(self):
        """Starts with a copy of the data, because creating the accounts takes long."""
        self.original.stop()
        shutil.copytree(self.original.data, self.data)
        self.original.serve()
        self.serve()

    def prepare(self, names, sizes):
        self.names, self.records = self.original.names, self.original.records

    def reads(self, size):
        """The requests of the original server."""

    def options(self):
        hooks = self.folder / "hooks"
        hooks.mkdir()
        (hooks / "synchronous.pb.js").write_text(self.HOOK)
        return [f"--hooksDir={hooks}", "--hooksWatch=false"]

    def check(self):
        """Checks the level of the single writing connection. A new connection would start with NORMAL again."""
        level = Client(self.port).json("GET", "/synchronous")["synchronous"]
        if level != 2:
            raise Failure(f"PocketBase must sync every commit, but has synchronous level {level}")


class Kinto(Server):
    name = "Kinto"
    durability = "in memory: nothing survives the process"
    # Creating an account takes half a second or more of bcrypt. The rates do not depend on the number of accounts.
    account_count = 40

    def __init__(self, folder, programs):
        self.folder, self.programs = pathlib.Path(folder), pathlib.Path(programs)

    def version(self):
        return subprocess.run(
            [self.programs / "python", "-c", "import importlib.metadata as m; print(m.version('kinto'))"],
            capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        self.folder.mkdir(parents=True)
        settings = self.folder / "kinto.ini"
        subprocess.run(
            [self.programs / "kinto", "init", "--ini", settings, "--backend", "memory", "--cache-backend", "memory",
             "--host", "127.0.0.1"], check=True, capture_output=True, timeout=60)
        written = settings.read_text()
        # Its documentation recommends colored request logs for development only.
        written = written.replace("level = DEBUG", "level = WARN").replace("level = INFO", "level = WARN")
        # Each password is hashed once instead of every 30 seconds.
        written = written.replace("[app:main]", "[app:main]\nkinto.account_cache_ttl_seconds = 86400")
        settings.write_text(written)
        self.port = free_port()
        self.process = Process(
            [self.programs / "kinto", "start", "--ini", settings, "--port", str(self.port)], self.folder)
        self.process.wait_for(lambda: answers(self.port, "/v1/__heartbeat__"))

    @staticmethod
    def basic(name):
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()}

    def prepare(self, names, sizes):
        self.names = names = names[: self.account_count]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: self.make(part, sizes), [names[start::2] for start in range(2)]))

    def make(self, names, sizes):
        client = Client(self.port)
        for name in names:
            client.ask("PUT", f"/v1/accounts/{name}", {"data": {"password": PASSWORD}})
            # The bucket "default" belongs to the caller.
            client.ask("PUT", "/v1/buckets/default/collections/documents", {}, **self.basic(name))
            for size in sizes:
                client.ask(
                    "PUT", f"/v1/buckets/default/collections/documents/records/d{size}",
                    {"data": {"document": text(size)}}, **self.basic(name))

    def requests(self, method, size, fields, body=""):
        for name in self.names:
            path = f"/v1/buckets/default/collections/documents/records/d{size}"
            yield line(method, path, {**self.basic(name), **fields}, body)

    def reads(self, size):
        return self.requests("GET", size, {})

    def writes(self, size):
        body = f'{{"data":{{"document":"{text(size)}"}}}}'
        return self.requests("PUT", size, {"Content-Type": "application/json"}, body)


class SyncD(Server):
    name = "syncd"
    durability = "WAL, synchronous FULL: an answered write survives a power cut"
    write_mode = "conditional"

    def __init__(self, program, folder, cost=10, store="sqlite:store.sqlite", environment=None):
        self.program, self.folder = program, pathlib.Path(folder)
        self.cost, self.store, self.environment = cost, store, environment

    def version(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def start(self):
        self.port = free_port()
        self.process = Process(
            [self.program, "serve", "--store", self.store, "--listen", f"127.0.0.1:{self.port}",
             "--password-cost", str(self.cost),
             # The connections of wrk share few accounts, which exceeds the limits of an account.
             "--limit", "account-reads=none", "--limit", "account-writes=none"], self.folder, self.environment)
        self.process.wait_for(lambda: answers(self.port, "/readyz"))

    def prepare(self, names, sizes):
        self.names, self.homes = names, {}
        self.in_parts(lambda part: self.make(part, sizes))

    def in_parts(self, work):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [self.names[start::4] for start in range(4)]))

    def make(self, names, sizes):
        client = Client(self.port)
        for name in names:
            made = client.json("POST", "/v1/accounts", {"name": name, "password": PASSWORD})
            self.homes[name] = f"/v1/kv/accounts/{name}/{made['incarnation']}"
            for size in sizes:
                client.ask(
                    "PUT", f"{self.homes[name]}/d{size}", text(size).encode(), If_None_Match="*",
                    **bearer(made["access_token"]))

    def enter(self, names, size):
        """Fetches fresh tokens, which live ten minutes, and the versions of the documents."""
        client, entered = Client(self.port), {}
        for name in names:
            session = client.json(
                "POST", "/v1/sessions", {"grant_type": "password", "username": name, "password": PASSWORD})
            token = session["access_token"]
            answer, _ = client.ask("GET", f"{self.homes[name]}/d{size}", **bearer(token))
            entered[name] = (token, answer.getheader("ETag"))
        self.entered.update(entered)

    def fresh(self, size):
        self.entered = {}
        self.in_parts(lambda part: self.enter(part, size))
        return self.entered

    def reads(self, size):
        entered = self.fresh(size)
        for name in self.names:
            yield line("GET", f"{self.homes[name]}/d{size}", bearer(entered[name][0]))

    def writes(self, size):
        entered = self.fresh(size)
        for name in self.names:
            token, tag = entered[name]
            yield line("PUT", f"{self.homes[name]}/d{size}", {**bearer(token), "If-Match": tag}, text(size))

    def logins(self, count):
        for name in self.names[:count]:
            yield line(
                "POST", "/v1/sessions", {"Content-Type": "application/json"},
                f'{{"grant_type":"password","username":"{name}","password":"{PASSWORD}"}}')


class MemorySyncD(SyncD):
    name = "syncd, memory:"
    durability = "in memory: nothing survives the process"

    def __init__(self, program, folder):
        super().__init__(program, folder, store="memory:")


class UnsyncedSyncD(SyncD):
    """syncd with an fsync that does nothing."""

    name = "syncd, no sync"
    durability = (
        "WAL, fsync and fdatasync disabled (libeatmydata): a power cut may lose the last commits")

    def reads(self, size):
        """The requests of the original server."""

    @staticmethod
    def library():
        for path in pathlib.Path("/usr/lib").glob("**/libeatmydata.so*"):
            return str(path)
        return None

    def __init__(self, program, folder):
        super().__init__(program, folder, environment={"LD_PRELOAD": self.library() or ""})


class BareRoute(Server):
    name = "bare route"
    durability = "stores nothing"

    def __init__(self, program, folder, size):
        self.program, self.folder, self.size = program, pathlib.Path(folder), size

    def version(self):
        return ""

    def start(self):
        self.port = free_port()
        self.process = Process(
            [self.program, "--port", str(self.port), "--size", str(self.size)], self.folder)
        self.process.wait_for(lambda: answers(self.port, "/"))

    def reads(self, size):
        return [line("GET", "/", {})] if size == self.size else None
