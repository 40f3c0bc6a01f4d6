/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included before everything. Shared virtual memory and peer-to-peer need
 * AMD's memory manager, which this device does not have.
 */
#undef CONFIG_HSA_AMD_SVM
#undef CONFIG_HSA_AMD_P2P
