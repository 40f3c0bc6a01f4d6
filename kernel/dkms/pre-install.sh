#!/bin/sh
# DKMS's PRE_INSTALL: stops before anything is replaced if the machine would not load the new modules.
#
# Usage: pre-install.sh RELEASE DIRECTORY, with the directory that holds the built modules
#
# Ends with 2 and one message that has the remedy. $GPREEMPT_ROOT stands before all other paths, for tests.
set -eu

release=${1:?"usage: pre-install.sh RELEASE DIRECTORY"}
modules=${2:?"usage: pre-install.sh RELEASE DIRECTORY"}
root=${GPREEMPT_ROOT:-}
name=gpreempt/$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$(dirname "$0")/dkms.conf")

stop() {
	echo "gpreempt: nothing is installed for Linux $release: $1" >&2
	exit 2
}

# Says why the kernel takes signed modules only; fails if it takes any.
enforced() {
	if [ "$(secure_boot)" = 1 ]; then
		echo "Secure Boot is on"
	elif grep -qs '\[\(integrity\|confidentiality\)\]' "$root/sys/kernel/security/lockdown"; then
		echo "the kernel is locked down"
	elif grep -qs Y "$root/sys/module/module/parameters/sig_enforce"; then
		echo "the kernel was started with module.sig_enforce"
	elif grep -qs '^CONFIG_MODULE_SIG_FORCE=y' "$root/lib/modules/$release/build/.config"; then
		echo "the kernel takes signed modules only (CONFIG_MODULE_SIG_FORCE)"
	else
		return 1
	fi
}

# Prints 1 if Secure Boot is on: the byte after four bytes of attributes. Shim may have been told not to care.
secure_boot() {
	case $(LC_ALL=C mokutil --sb-state 2> /dev/null) in
	*"validation is disabled in shim"*) return ;;
	esac
	for variable in "$root"/sys/firmware/efi/efivars/SecureBoot-*; do
		[ ! -r "$variable" ] || od -An -t u1 -j 4 -N 1 "$variable" | tr -d ' \n'
	done
}

# Whether a module carries a signature.
is_signed() {
	case $1 in
	*.xz) xz -dc "$1" ;;
	*.zst) zstd -dcq "$1" ;;
	*.gz) gzip -dc "$1" ;;
	*) cat "$1" ;;
	esac | tail -c 28 | grep -q '^~Module signature appended~'
}

# Prints the certificate of the key that DKMS signs with.
certificate() (
	# DKMS lets these files use its variable.
	export kernelver="$release"
	mok_certificate=
	for file in "$root"/etc/dkms/framework.conf "$root"/etc/dkms/framework.conf.d/*.conf; do
		# shellcheck source=/dev/null
		[ ! -r "$file" ] || . "$file"
	done
	for file in "$mok_certificate" "$root/var/lib/dkms/mok.pub" "$root/var/lib/shim-signed/mok/MOK.der"; do
		if [ -n "$file" ] && [ -r "$file" ]; then
			echo "$file"
			return
		fi
	done
	echo "$root/var/lib/dkms/mok.pub"
)

# Elsewhere DKMS moves the kernel's own module away.
# shellcheck source=/dev/null
like=$(. "$root/etc/os-release" 2> /dev/null && echo "${ID:-} ${ID_LIKE:-}")
case " $like " in
*" debian "* | *" ubuntu "*) ;;
*) stop "DKMS of this distribution ($like) would move the kernel's own amdgpu away; copy the modules of $modules to \
/lib/modules/$release/updates by hand" ;;
esac

for file in "$root"/etc/depmod.d/*.conf "$root"/run/depmod.d/*.conf "$root"/lib/depmod.d/*.conf; do
	[ -r "$file" ] || continue
	order=$(sed -n 's/^[[:space:]]*search[[:space:]]\{1,\}//p' "$file" | tail -n 1)
	case " $order " in
	"  " | *" updates "*" built-in "*) ;;
	*) stop "depmod would prefer the kernel's own amdgpu: $file has \"search $order\"; put \"updates\" before \
\"built-in\" there" ;;
	esac
done

if ! reason=$(enforced); then
	exit 0
fi
for module in amdgpu gpreempt; do
	for file in "$modules/$module".ko*; do
		if ! is_signed "$file"; then
			stop "$reason, and DKMS has not signed $file; install openssl and linux-headers-$release, and build it \
again: dkms build $name -k $release --force"
		fi
	done
done
key=$(certificate)
case $(LC_ALL=C mokutil --test-key "$key" 2>&1) in
*"is already enrolled"*) echo "gpreempt: $reason; the modules are signed with the enrolled key $key" ;;
*"is not enrolled"*) stop "$reason, and the key that DKMS signs with is not enrolled. To enroll it: \
mokutil --import $key; reboot; choose \"Enroll MOK\"; then: dkms install $name -k $release" ;;
*) stop "$reason, and whether the key that DKMS signs with ($key) is enrolled cannot be told; install mokutil, on a \
machine that starts with UEFI" ;;
esac
