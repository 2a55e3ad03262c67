#!/bin/sh
# The report is tested in a real browser. Where the system's package manager may install one, it does;
# elsewhere the tests that need it are skipped, and say so.
command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; }
fi
command -v chromium >/dev/null 2>&1 || echo "no chromium here: tests in a browser will be skipped"
exit 0
