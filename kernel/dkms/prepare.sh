#!/bin/sh
# DKMS's PRE_BUILD: unpacks the driver out of the distribution's source into linux/, and applies the patches.
#
# Usage: prepare.sh RELEASE [HEADERS], in the directory of the build
#
# DKMS of Debian 12 compiles even if this script fails. The Makefile therefore looks for the file `prepared`, and
# repeats the file `refused` without it.
set -eu

release=${1:?"usage: prepare.sh RELEASE [HEADERS]"}
rm -rf linux prepared refused
if ! source=$(./check.sh "$@" 2> refused); then
	cat refused >&2
	exit 2
fi
rm refused

fail() {
	echo "gpreempt: nothing is built for Linux $release: $1" | tee refused >&2
	exit 1
}

mkdir linux
if [ -d "$source" ]; then
	(cd "$source" && tar -cf - drivers/gpu/drm/amd include/uapi/linux/kfd* Makefile) | tar -xf - -C linux
else
	tar -xf "$source" -C linux --strip-components=1 --wildcards \
		'*/drivers/gpu/drm/amd' '*/include/uapi/linux/kfd*' 'linux-source-*/Makefile'
fi
[ -f linux/drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c ] || fail "the driver cannot be unpacked out of $source"

series=$(sed -n -e 's/^VERSION = //p' -e 's/^PATCHLEVEL = //p' -e '/^SUBLEVEL/q' linux/Makefile | paste -sd .)
for patch in patches/"$series"/*.patch; do
	if ! patch -d linux -p1 --batch --forward --no-backup-if-mismatch < "$patch" > patch.log; then
		cat patch.log >&2
		fail "$patch does not apply to $source; look for a newer version of gpreempt-dkms"
	fi
done

# The scheduler looks for the driver's headers beside it.
cp -r gpreempt linux/drivers/gpu/drm/amd/

# DKMS installs no module whose version equals that of the kernel's own, and amdgpu has none.
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
printf '\nMODULE_VERSION("gpreempt-%s");\n' "$version" >> linux/drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c
: > prepared
