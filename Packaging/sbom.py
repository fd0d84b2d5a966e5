#!/usr/bin/env python3
"""Prints the packages that syncd is built from as SPDX 2.3 (JSON).

    Packaging/sbom.py --version VERSION --commit HASH --time SECONDS

The packages and revisions are those of Package.resolved. The licence is read from the LICENSE file of each checkout.
It is NOASSERTION if there is no such file or its text is unknown. The same input gives the same bytes.
"""

import argparse
import datetime
import hashlib
import json

import dependencies

NAME = "EntitlementSync"


def package(identifier, name, version, location, licence, purl=None):
    described = {
        "SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": location,
        "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence,
        "copyrightText": "NOASSERTION", "supplier": "NOASSERTION",
    }
    if purl:
        described["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]
    return described


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True, help="the version of the program")
    parser.add_argument("--commit", required=True, help="the commit of its sources")
    parser.add_argument("--time", type=int, required=True, help="the time of that commit, seconds since 1970")
    options = parser.parse_args()
    root = "SPDXRef-Package-EntitlementSync"
    main_package = package(root, NAME, options.version, "NOASSERTION", "Apache-2.0")
    main_package["sourceInfo"] = f"commit {options.commit}"
    packages = [main_package]
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", root)]
    for dependency in dependencies.read():
        identifier = f"SPDXRef-Package-{dependency.identity}"
        path = dependency.url.removeprefix("https://")
        version = dependency.version or dependency.revision
        packages.append(package(
            identifier, dependency.identity, version, f"git+{dependency.url}@{dependency.revision}",
            dependency.licence, f"pkg:swift/{path}@{version}"))
        relationships.append((root, "DEPENDS_ON", identifier))
    created = datetime.datetime.fromtimestamp(options.time, datetime.timezone.utc)
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    print(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{NAME}-{options.version}",
        "documentNamespace": f"https://entitlementsync.invalid/spdx/{NAME}-{options.version}-{digest[:32]}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Organization: EntitlementSync maintainers", "Tool: Packaging/sbom.py"],
        },
        "packages": packages,
        "relationships": [
            {"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target}
            for source, kind, target in relationships
        ],
    }, indent=2))


if __name__ == "__main__":
    main()
