"""The packages of Package.resolved, with the licence files of their checkouts."""

import dataclasses
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Dependency:
    """A package at a revision."""

    identity: str
    location: str
    revision: str
    version: str | None
    # The texts of LICENSE files and of NOTICE files; empty without a checkout.
    licences: list[str]
    notices: list[str]

    @property
    def licence(self):
        """The SPDX expression of the licence, or NOASSERTION if the text is missing or not one of the known ones."""
        found = {recognized(text) for text in self.licences}
        return found.pop() if len(found) == 1 else "NOASSERTION"

    @property
    def url(self):
        return self.location.removesuffix(".git")


def recognized(text):
    """The SPDX expression of a licence text."""
    words = " ".join(text.split())
    if "Apache License Version 2.0, January 2004" in words:
        return "Apache-2.0 WITH Swift-exception" if "Runtime Library Exception" in words else "Apache-2.0"
    if "Permission is hereby granted, free of charge, to any person" in words and "above copyright notice" in words:
        return "MIT"
    return "NOASSERTION"


def texts(folder, word):
    """The texts of the files at the top of a folder whose names start with a word, in the order of their names."""
    if not folder.is_dir():
        return []
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(word))
    return [file.read_text(encoding="utf-8") for file in files]


def read():
    """All packages, in the order of their names."""
    found = []
    for pin in json.loads((ROOT / "Package.resolved").read_text(encoding="utf-8"))["pins"]:
        folder = ROOT / ".build/checkouts" / pin["location"].rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        found.append(Dependency(
            pin["identity"], pin["location"], pin["state"]["revision"], pin["state"].get("version"),
            texts(folder, "LICEN"), texts(folder, "NOTICE")))
    return sorted(found, key=lambda dependency: dependency.identity)
