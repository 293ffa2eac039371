#!/bin/sh
# Installs Debian's chromium for the tests of the explain page, through apt-get, if there is no browser and permission
# to install one. It never fails the build: without a browser these tests are skipped, with the reason in
# build/browser.txt.
# In: nothing. Out: build/browser.txt (why there is no browser; empty or absent if there is one), build/browser.log.

cd "$(dirname "$0")/.." || exit 1
mkdir -p build
# `make test` starts this while lint runs and again before the tests: the second one waits for the first.
if command -v flock > /dev/null 2>&1; then
    exec 9> build/browser.lock
    flock 9
fi

found() {
    for name in "$INGOT_BROWSER" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name" > /dev/null 2>&1; then return 0; fi
    done
    return 1
}

no_browser() {
    echo "$1" > build/browser.txt
    echo "ingot: no browser: $1; the tests of the explain page will be skipped" >&2
}

if found; then
    rm -f build/browser.txt
    exit 0
fi
if [ "$INGOT_BROWSER" = none ]; then
    no_browser "INGOT_BROWSER=none"
    exit 0
fi
# Tried once and failed: the second call of the same `make test` does not try again.
if [ "$1" = again ] && [ -s build/browser.txt ]; then
    exit 0
fi
if ! command -v apt-get > /dev/null 2>&1 || ! grep -qs '^ID=debian' /etc/os-release; then
    no_browser "chromium is not installed, and only Debian's apt-get is known to install it"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    no_browser "chromium is not installed, and only root may install it (apt-get install chromium)"
    exit 0
fi
echo "ingot: installing chromium for the tests of the explain page ..."
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install --yes --quiet --no-install-recommends chromium fonts-dejavu-core >> build/browser.log 2>&1
}
: > build/browser.log
# The lists of packages may be there and new enough.
if ! install; then
    apt-get update --quiet >> build/browser.log 2>&1
    install
fi
if found; then
    rm -f build/browser.txt
    echo "ingot: installed chromium"
    exit 0
fi
no_browser "apt-get could not install chromium: build/browser.log"
{
    echo "ingot: ***************************************************************************"
    echo "ingot: apt-get should have installed chromium and FAILED. Its last lines:"
    tail -n 5 build/browser.log | sed 's/^/ingot:     /'
    echo "ingot: The explain page is NOT tested in a browser this time."
    echo "ingot: ***************************************************************************"
} >&2
exit 0
