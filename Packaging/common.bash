# Sourced by the scripts in this folder: the version, the release binary, and the folder for packages.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
name=$(basename "$0")
output=.build/packages
# The program to package.
program=${SYNCD:-.build/release/syncd}

fail() {
    echo "$name: $*" >&2
    exit 1
}

# Fails if a command is missing. $1: the command, $2: the Debian package that contains it.
need() {
    command -v "$1" >/dev/null || fail "$1 is missing; run .ci/setup $2"
}

# Sets version, commit and SOURCE_DATE_EPOCH. Release tarballs name their commit in Packaging/commit.
read_version() {
    version=$(sed -n 's/^ *static let number = "\([0-9A-Za-z.+-]*\)"$/\1/p' Sources/syncd/Version.swift)
    [ -n "$version" ] || fail "Sources/syncd/Version.swift has no line: static let number = \"VERSION\""
    local time
    read -r commit time <Packaging/commit
    isRelease=true
    if [[ $commit != [0-9a-f]* ]]; then
        isRelease=false
        [ -e .git ] || fail "Packaging/commit names no commit, and there is no .git: use a clone or a release tarball"
        need git git
        commit=$(git rev-parse HEAD)
        time=$(git log -1 --format=%ct)
    fi
    export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$time}
    [[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] ||
        fail "SOURCE_DATE_EPOCH must be seconds since 1970, not \"$SOURCE_DATE_EPOCH\""
}

# Fails unless $program is a release binary of this version for this machine. Sets arch to Debian's name for it.
check_program() {
    need od coreutils
    need dpkg dpkg
    need readelf binutils
    [ -f "$program" ] || fail "$program does not exist; run make release, or set SYNCD=FILE"
    [ "$(od -An -c -N4 "$program" | tr -d ' ')" = '177ELF' ] || fail "$program is not a Linux program (ELF)"
    arch=$(dpkg --print-architecture)
    local machine
    case $(od -An -tu2 -j18 -N2 "$program" | tr -d ' ') in
    62) machine=amd64 ;;
    183) machine=arm64 ;;
    *) fail "$program is for a processor that is neither amd64 nor arm64" ;;
    esac
    [ "$machine" = "$arch" ] || fail "$program is for $machine, but this machine is $arch; run make release here"
    if [[ $(readelf --dynamic "$program") = *NEEDED*libswift* ]]; then
        fail "$program needs Swift's libraries, which the packages do not contain; run make release"
    fi
    local built expected="syncd $version (development build)"
    $isRelease && expected="syncd $version (commit $commit)"
    built=$("$program" --version | head -n 1) || fail "$program --version failed; run make release"
    [ "$built" = "$expected" ] || fail "$program is \"$built\", but the sources are \"$expected\"; run make release"
}

# Writes the program without symbols. $1: the file.
strip_program() {
    strip --remove-section=.comment --remove-section=.note -o "$1" "$program"
}

# Writes the symbols of the program, which debuggers find by its build ID or beside it. $1: the file.
write_symbols() {
    objcopy --only-keep-debug "$program" "$1"
    chmod 644 "$1"
}

# Writes SHA256SUMS of all packages in the folder for packages.
write_sums() {
    (
        cd "$output" || exit
        shopt -s nullglob
        files=(*.tar.gz *.spdx.json *.deb *.oci.tar)
        sha256sum "${files[@]}" >SHA256SUMS
    )
}
