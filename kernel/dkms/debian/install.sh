#!/bin/sh
# Builds and installs the modules for kernels. A kernel for which that is refused keeps its own amdgpu.
#
# Usage: install [RELEASE...]
#
# Without a release: for the kernel that runs and for the newest one, if their headers are there. Ends with 0 if one has
# the modules, or there is none to build them for; else with 2 if all were refused, and with 1 if a build failed.
set -u

version=@VERSION@
check=/usr/src/gpreempt-$version/check.sh

has_headers() {
	[ -e "/lib/modules/$1/build/include" ]
}

if [ $# -eq 0 ]; then
	newest=$(printf '%s\n' /lib/modules/*/build/include | sort -V | tail -n 1 | cut -d / -f 4)
	has_headers "$newest" || newest=
	running=$(uname -r)
	if has_headers "$running" && [ "$running" != "$newest" ]; then
		set -- "$running" "$newest"
	elif [ -n "$newest" ]; then
		set -- "$newest"
	else
		echo "gpreempt: no kernel of this machine has its headers; once one has: $0" >&2
	fi
fi

result=0
done=
for release; do
	case $(dkms status -m gpreempt -v "$version" -k "$release") in
	*": installed"*) done=yes ;;
	*)
		if ! has_headers "$release"; then
			# They come later, and this script is called again.
			echo "gpreempt: Linux $release has no headers (linux-headers-$release); it keeps its own amdgpu" >&2
		elif ! "$check" "$release" > /dev/null; then
			result=2
		elif dkms install -m gpreempt -v "$version" -k "$release"; then
			done=yes
		else
			echo "gpreempt: Linux $release keeps its own amdgpu; DKMS said why" >&2
			result=1
		fi
		;;
	esac
done
[ -z "$done" ] || exit 0
exit $result
