#!/bin/sh
# A kernel, or its headers, came. A kernel whose modules cannot be built is installed all the same.
[ -x /usr/lib/gpreempt-dkms/install ] || exit 0
/usr/lib/gpreempt-dkms/install "$1" || true
