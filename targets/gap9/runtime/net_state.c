/* Save and load of what training changes; see net_state.h. */
#include "net_state.h"

#include <stddef.h>
#include <string.h>

#define MAGIC 0x5354454Eu /* "NETS" in a file */
#define VERSION 1u

typedef struct {
    uint32_t magic;
    uint32_t checksum; /* CRC-32 of all that follows it */
    uint32_t version;
    uint32_t bytes; /* header included */
    uint32_t fingerprint[2]; /* low, high half */
} header_t;

#define CHECKED_FROM offsetof(header_t, version)

_Static_assert(sizeof(header_t) == NET_STATE_HEADER_BYTES, "the header has no padding");

/* CRC-32 as in zlib and PNG, four bits at a time: a table of 64 bytes instead of 1024. */
static uint32_t crc32(const uint8_t *data, uint32_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t crc = ~0u;
    for (uint32_t i = 0; i < bytes; ++i) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static bool is_trained(const net_tensor_t *tensor) { return tensor->role == NET_PARAMETER || tensor->role == NET_STATE; }

uint32_t net_state_size(const net_tensor_t tensors[], int32_t count)
{
    uint32_t bytes = sizeof(header_t);
    for (int32_t i = 0; i < count; ++i)
        if (is_trained(&tensors[i]))
            bytes += tensors[i].bytes;
    return bytes;
}

void net_state_save(const net_tensor_t tensors[], int32_t count, uint64_t fingerprint, void *buffer)
{
    uint8_t *const image = buffer;
    uint8_t *next = image + sizeof(header_t);
    for (int32_t i = 0; i < count; ++i) {
        if (!is_trained(&tensors[i]))
            continue;
        net_memory_read(tensors[i].level, tensors[i].address, next, tensors[i].bytes);
        next += tensors[i].bytes;
    }
    header_t header = {.magic = MAGIC, .version = VERSION, .bytes = (uint32_t)(next - image),
                       .fingerprint = {(uint32_t)fingerprint, (uint32_t)(fingerprint >> 32)}};
    memcpy(image, &header, sizeof header);
    header.checksum = crc32(image + CHECKED_FROM, header.bytes - CHECKED_FROM);
    memcpy(image, &header, sizeof header);
}

int net_state_load(const net_tensor_t tensors[], int32_t count, uint64_t fingerprint, const void *buffer, uint32_t bytes)
{
    const uint8_t *const image = buffer;
    const uint8_t *next = image + sizeof(header_t);
    header_t header; /* a copy: the buffer need not be aligned */
    if (bytes < sizeof header)
        return NET_LOAD_NO_IMAGE;
    memcpy(&header, image, sizeof header);
    if (header.magic != MAGIC)
        return NET_LOAD_NO_IMAGE;
    if (header.version != VERSION)
        return NET_LOAD_OTHER_VERSION;
    if (header.fingerprint[0] != (uint32_t)fingerprint || header.fingerprint[1] != (uint32_t)(fingerprint >> 32))
        return NET_LOAD_OTHER_NETWORK;
    if (bytes != header.bytes || bytes != net_state_size(tensors, count))
        return NET_LOAD_WRONG_SIZE;
    if (header.checksum != crc32(image + CHECKED_FROM, bytes - CHECKED_FROM))
        return NET_LOAD_CORRUPT;
    for (int32_t i = 0; i < count; ++i) {
        if (!is_trained(&tensors[i]))
            continue;
        net_memory_write(tensors[i].level, tensors[i].address, next, tensors[i].bytes);
        next += tensors[i].bytes;
    }
    return 0;
}
