#!/usr/bin/env python3
"""Writes an OCI image layout from layers.

    Packaging/oci.py --arch amd64 --version VERSION --commit HASH --time SECONDS --user ID --output DIR LAYER ...

The layers are tar files, the lowest first. The same input gives the same bytes.
"""

import argparse
import datetime
import gzip
import hashlib
import json
import pathlib

HEALTH = "curl --fail --silent --show-error http://127.0.0.1:8440/healthz"


class Layout:
    def __init__(self, folder):
        self.folder = folder
        self.blobs = folder / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def add(self, data, media_type):
        """Writes a blob and returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        (self.blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, value, media_type):
        return self.add(json.dumps(value, sort_keys=True).encode(), media_type)


def annotations(options, created):
    return {
        "org.opencontainers.image.title": "syncd",
        "org.opencontainers.image.description": "Keeps purchases in sync across devices",
        "org.opencontainers.image.version": options.version,
        "org.opencontainers.image.revision": options.commit,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "invalid.entitlementsync.health-check": HEALTH,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", required=True, help="the processor, as Go names it")
    parser.add_argument("--version", required=True, help="the version of the program")
    parser.add_argument("--commit", required=True, help="the commit of its sources")
    parser.add_argument("--time", type=int, required=True, help="the time of that commit, seconds since 1970")
    parser.add_argument("--user", type=int, required=True, help="the id of the user and group that runs the program")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the folder to create")
    parser.add_argument("layers", type=pathlib.Path, nargs="+", help="uncompressed tar files")
    options = parser.parse_args()

    created = datetime.datetime.fromtimestamp(options.time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    layout = Layout(options.output)
    layers, differences = [], []
    for path in options.layers:
        data = path.read_bytes()
        differences.append("sha256:" + hashlib.sha256(data).hexdigest())
        layers.append(layout.add(
            gzip.compress(data, compresslevel=6, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip"))
    notes = annotations(options, created)
    config = layout.add_json({
        "created": created, "architecture": options.arch, "os": "linux",
        "config": {
            "User": f"{options.user}:{options.user}",
            "Env": [
                "PATH=/usr/bin:/bin", "SYNCD_LISTEN=0.0.0.0:8440", "SYNCD_STORE=sqlite:/var/lib/syncd/store.sqlite",
            ],
            "Entrypoint": ["/usr/bin/syncd"], "Cmd": ["serve"], "WorkingDir": "/var/lib/syncd",
            "ExposedPorts": {"8440/tcp": {}}, "Volumes": {"/var/lib/syncd": {}}, "StopSignal": "SIGTERM",
            "Labels": notes,
        },
        "rootfs": {"type": "layers", "diff_ids": differences},
        "history": [
            {"created": created, "created_by": "libraries of Debian 12"},
            {"created": created, "created_by": f"syncd {options.version}"},
        ],
    }, "application/vnd.oci.image.config.v1+json")
    manifest = layout.add_json({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": layers, "annotations": notes,
    }, "application/vnd.oci.image.manifest.v1+json")
    name = f"syncd:{options.version}"
    # Podman and umoci read the first name, Docker the second one.
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
    manifest["platform"] = {"architecture": options.arch, "os": "linux"}
    index = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
    }
    (options.output / "index.json").write_text(json.dumps(index, sort_keys=True))
    (options.output / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


if __name__ == "__main__":
    main()
