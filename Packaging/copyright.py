#!/usr/bin/env python3
"""Prints the copyright file of the Debian package: the licence of syncd and of the packages linked into it."""

import dependencies


def indented(text):
    """Text as the continuation of a field: a leading space, and a dot for each empty line."""
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.strip("\n").splitlines())


def main():
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: EntitlementSync")
    print("Comment: The program contains the packages below. The notices of a package follow its name.")
    print("\nFiles: *\nCopyright: the EntitlementSync contributors\nLicense: Apache-2.0")
    apache = " The text of the Apache License, Version 2.0 is in /usr/share/common-licenses/Apache-2.0."
    print(f"\nLicense: Apache-2.0\n{apache}")
    print("\nLicense: Apache-2.0 WITH Swift-exception")
    print(apache)
    print(" .\n Runtime Library Exception: if you use the software to compile your source code and portions of it are\n"
          " embedded into the binary product as a result, you may redistribute that product without providing\n"
          " attribution as would otherwise be required by sections 4(a), 4(b) and 4(d) of the licence.")
    for dependency in dependencies.read():
        version = dependency.version or dependency.revision
        print(f"\nFiles: {dependency.identity}/*\nSource: {dependency.url}")
        print(f"Copyright: the authors of {dependency.identity}")
        print(f"License: {dependency.licence if dependency.licence.startswith('Apache') else dependency.identity}")
        if not dependency.licence.startswith("Apache"):
            print("\n .\n".join(indented(text) for text in dependency.licences) or " There is no licence file.")
        print(f"Comment: version {version}")
        if dependency.notices:
            print(" .\n" + "\n .\n".join(indented(text) for text in dependency.notices))
    print("\nFiles: swift/*\nSource: https://github.com/swiftlang/swift")
    print("Copyright: Apple Inc. and the Swift project authors")
    print("License: Apache-2.0 WITH Swift-exception\nComment: the standard library and Foundation, linked statically")


if __name__ == "__main__":
    main()
