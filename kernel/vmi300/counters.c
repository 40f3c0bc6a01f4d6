// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What the firmware did: /sys/kernel/debug/vmi300/PCI-ADDRESS/NODE. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "vmi300.h"

static struct dentry *vmi300_debugfs;

static int vmi300_counters_show(struct seq_file *m, void *data)
{
	struct vmi300_mec *mec = m->private;
	struct vmi300_counters c;
	struct vmi300_queue *q;
	unsigned int mapped = 0, listed = 0;

	mutex_lock(&mec->lock);
	c = mec->counters;
	list_for_each_entry(q, &mec->queues, list) {
		listed++;
		mapped += q->mapped;
	}
	mutex_unlock(&mec->lock);
	seq_printf(m, "runlists %llu\nunmaps %llu\nidle_unmaps %llu\nqueries %llu\n", c.runlists,
		   c.unmaps, c.idle_unmaps, c.queries);
	seq_printf(m, "saved %llu\nrestored %llu\nretired %llu\nrotations %llu\n", c.saved,
		   c.restored, c.retired, c.rotations);
	seq_printf(m, "interrupts %lld\nfaults %lld\nresets %d\nlisted %u\nmapped %u\n",
		   atomic64_read(&c.interrupts), atomic64_read(&c.faults),
		   atomic_read(&mec->dev->resets), listed, mapped);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(vmi300_counters);

void vmi300_counters_init(struct vmi300 *dev)
{
	unsigned int i;
	char name[16];

	if (!vmi300_debugfs)
		vmi300_debugfs = debugfs_create_dir("vmi300", NULL);
	dev->debugfs = debugfs_create_dir(pci_name(dev->adev.pdev), vmi300_debugfs);
	for (i = 0; i < dev->nodes; i++) {
		snprintf(name, sizeof(name), "%u", i);
		debugfs_create_file(name, 0400, dev->debugfs, &dev->mecs[i],
				    &vmi300_counters_fops);
	}
}

void vmi300_counters_fini(struct vmi300 *dev)
{
	debugfs_remove(dev->debugfs);
	if (vmi300_debugfs && simple_empty(vmi300_debugfs)) {
		debugfs_remove(vmi300_debugfs);
		vmi300_debugfs = NULL;
	}
}
