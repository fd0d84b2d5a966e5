#!/bin/sh
# A local program that asks `syncd run` about purchases, with curl.
#
#   owls.sh SOCKET access ENTITLEMENT   exit status 0 if it is granted, 10 if not
#   owls.sh SOCKET use ENTITLEMENT KEY  spends a unit once, however often it runs with the same key
#   owls.sh SOCKET events COUNT         prints the types of the next events
set -eu
socket=$1 command=$2
shift 2

ask() {
    curl --silent --show-error --fail-with-body --retry 3 --unix-socket "$socket" "$@"
}

case $command in
access)
    ask "http://localhost/v1/access/$1" | grep -q '"granted": true' || exit 10
    ;;
use)
    ask --request POST --header "Idempotency-Key: $2" "http://localhost/v1/use/$1" | sed -n 's/.*"remaining": //p'
    ;;
events)
    ask --no-buffer http://localhost/v1/events | sed -nu 's/^event: //p' | head -n "$1"
    ;;
*)
    sed -n 's/^#  //p' "$0" >&2
    exit 2
    ;;
esac
