#!/usr/bin/env python3
"""A local program that asks `syncd run` about purchases, with Python's standard library alone.

    owls.py SOCKET access ENTITLEMENT   exit status 0 if it is granted, 10 if not
    owls.py SOCKET use ENTITLEMENT KEY  spends a unit once, however often it runs with the same key
    owls.py SOCKET events COUNT         prints the types of the next events
"""
import http.client
import json
import socket
import sys


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def request(path, method, target, fields={}):
    connection = SocketConnection(path)
    connection.request(method, target, headers=fields)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    if answer.status != 200:
        sys.exit(f"owls: {body['detail']}")
    return body


def spend(path, entitlement, key):
    # Without an answer the outcome is unknown. The key makes the second attempt harmless.
    for attempt in range(5):
        try:
            return request(path, "POST", f"/v1/use/{entitlement}", {"Idempotency-Key": key})
        except (OSError, http.client.HTTPException):
            if attempt == 4:
                raise


def follow(path, count):
    connection = SocketConnection(path)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    print("following", flush=True)
    while count > 0:
        line = answer.readline().decode()
        if not line:
            sys.exit("owls: the stream of events ended")
        line = line.rstrip("\n")
        if line.startswith("event: "):
            print(line.removeprefix("event: "), flush=True)
            count -= 1


def main(path, command, *words):
    if command == "access":
        answer = request(path, "GET", f"/v1/access/{words[0]}")
        print(answer["because"] if answer["granted"] else answer["reason"])
        sys.exit(0 if answer["granted"] else 10)
    elif command == "use":
        answer = spend(path, *words)
        print(answer["remaining"] if answer.get("spent") else answer)
        sys.exit(0 if answer["granted"] else 10)
    elif command == "events":
        follow(path, int(words[0]))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
