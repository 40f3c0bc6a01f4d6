#!/bin/sh
# Says whether gpreempt's modules can be built for a kernel. If not, ends with 2 and one message that has the remedy.
#
# Usage: check.sh RELEASE [HEADERS]
#
# Prints where the kernel's source is: an archive, or a directory. $GPREEMPT_LINUX_SOURCE names a directory that is
# taken instead of the distribution's archive. $GPREEMPT_ROOT stands before all other paths, for tests.
set -eu

release=${1:?"usage: check.sh RELEASE [HEADERS]"}
root=${GPREEMPT_ROOT:-}
headers=${2:-$root/lib/modules/$release/build}
here=$(dirname "$0")

refuse() {
	echo "gpreempt: nothing is built for Linux $release: $1" >&2
	exit 2
}

# Prints the value of a line `#define NAME VALUE` of the kernel's version.h.
number() {
	sed -n "s/^#define LINUX_VERSION_$1 //p" "$headers/include/generated/uapi/linux/version.h"
}

# Whether the kernel was compiled with an option.
option() {
	grep -Eq "^CONFIG_$1\$" "$headers/.config"
}

# Prints the version of the kernel's own Makefile, which comes on the input.
version_of_makefile() {
	sed -n -e 's/^VERSION = //p' -e 's/^PATCHLEVEL = //p' -e 's/^SUBLEVEL = //p' -e '/^EXTRAVERSION/q' | paste -sd .
}

# Prints the version of an installed Debian package; nothing without dpkg or the package.
package_version() {
	dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version}' "$1" 2> /dev/null || true
}

for file in .config include/generated/uapi/linux/version.h; do
	[ -r "$headers/$file" ] || refuse "its headers are missing ($headers/$file); install linux-headers-$release"
done
series=$(number MAJOR).$(number PATCHLEVEL)
version=$series.$(number SUBLEVEL)

if ! [ -d "$here/patches/$series" ]; then
	known=$(cd "$here/patches" && echo *)
	refuse "this version of gpreempt has no patches for Linux $series, only for: $known"
fi
option X86_64=y || refuse "the scheduling core is compiled for x86-64 only"
if option 'CFI(_CLANG)?=y'; then
	refuse "it checks the types of indirect calls (CONFIG_CFI_CLANG), which the compiled core does not support; use a \
kernel without it"
fi
if ! option DRM_AMDGPU=m || ! option HSA_AMD=y; then
	refuse "it does not have amdgpu as a module with compute (CONFIG_DRM_AMDGPU=m, CONFIG_HSA_AMD=y); use another flavour \
of the kernel"
fi

for place in "$root"/usr/src/amdgpu-*/ "$root"/var/lib/dkms/amdgpu/*/source; do
	if [ -e "$place" ]; then
		refuse "ROCm's amdgpu-dkms is installed ($place), and a machine has one amdgpu; remove the package amdgpu-dkms"
	fi
done

if [ -n "${GPREEMPT_LINUX_SOURCE:-}" ]; then
	source=$GPREEMPT_LINUX_SOURCE
	if ! [ -r "$source/Makefile" ] || ! [ -d "$source/drivers/gpu/drm/amd" ]; then
		refuse "GPREEMPT_LINUX_SOURCE=$source is no source of Linux (no Makefile, or no drivers/gpu/drm/amd)"
	fi
	found=$(version_of_makefile < "$source/Makefile")
else
	source=$root/usr/src/linux-source-$series.tar.xz
	if ! [ -r "$source" ]; then
		refuse "the distribution's source of $version is missing (looked for $source); on Debian, install \
linux-source-$series; elsewhere, name a directory with the source in GPREEMPT_LINUX_SOURCE"
	fi
	archive=$(package_version "linux-source-$series")
	kernel=$(package_version "linux-headers-$release")
	if [ -n "$archive" ] && [ -n "$kernel" ] && [ "$archive" != "$kernel" ]; then
		refuse "linux-source-$series is of version $archive, its headers of $kernel; upgrade both to one version"
	fi
	found=$(tar --occurrence=1 -xOf "$source" "linux-source-$series/Makefile" | version_of_makefile)
fi
if [ "$found" != "$version" ]; then
	refuse "$source is the source of Linux ${found:-of no version}, and the kernel is $version; install the source of \
$version"
fi
echo "$source"
