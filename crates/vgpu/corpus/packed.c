#include "corpus.h"

/* A structure without padding: fields at odd addresses. */
typedef struct __attribute__((packed)) {
    u8 tag;
    u32 id;
    u16 size;
    u64 hash;
} Record;
KERNEL(packed, u8, u8)
{
    Record r = *(GLOBAL const Record *)(in + 15 * item);
    r.hash = r.hash * 31 + r.id;
    r.id ^= r.size;
    r.size = (u16)(r.size + r.tag);
    r.tag = (u8)(r.tag << 1 | r.tag >> 7);
    *(GLOBAL Record *)(out + 15 * item) = r;
}
