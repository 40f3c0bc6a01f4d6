#!/bin/sh
# DKMS's POST_INSTALL and POST_REMOVE: makes the image that a kernel starts with anew, for that kernel alone.
#
# Usage: initramfs.sh RELEASE
#
# DKMS runs depmod later, and the image gets the modules that depmod has listed: hence depmod comes first here.
# $GPREEMPT_ROOT stands before all paths, for tests.
set -eu

release=${1:?"usage: initramfs.sh RELEASE"}
root=${GPREEMPT_ROOT:-}

if [ -e "$root/lib/modules/$release" ]; then
	depmod -b "${root:-/}" "$release"
	case $(modinfo -b "${root:-/}" -k "$release" -n amdgpu 2> /dev/null) in
	*/updates/dkms/*) echo "gpreempt: the next start of Linux $release loads the patched amdgpu" ;;
	*) echo "gpreempt: the next start of Linux $release loads the kernel's own amdgpu" ;;
	esac
fi

for image in "$root/boot/initrd.img-$release" "$root/boot/initramfs-$release.img"; do
	[ -e "$image" ] || continue
	if command -v update-initramfs > /dev/null; then
		update-initramfs -u -k "$release"
	elif command -v dracut > /dev/null; then
		dracut --force "$image" "$release"
	else
		echo "gpreempt: $image may hold another amdgpu, and there is neither update-initramfs nor dracut; make it anew" >&2
		exit 1
	fi
	exit 0
done
echo "gpreempt: Linux $release has no image in $root/boot; if it gets one, it will hold the right amdgpu"
