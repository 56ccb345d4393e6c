/* The image of what training changes: all parameters and state tensors, with a header that tells whose they are.
 *
 * An image outlives the program that wrote it: it depends on names, types and shapes of the tensors, not on where a plan
 * puts them. Numbers are in the byte order of the device (little-endian on all that are supported).
 */
#ifndef NET_STATE_H
#define NET_STATE_H

#include "net_runtime.h"

#define NET_STATE_HEADER_BYTES 24

/* What loading returns when it refuses an image; the network is then as it was. */
enum {
    NET_LOAD_NO_IMAGE = -1,      /* does not begin like an image: another kind of file, or shorter than a header */
    NET_LOAD_OTHER_VERSION = -2, /* an image in a format that this runtime does not know */
    NET_LOAD_OTHER_NETWORK = -3, /* an image of a network with other parameters or states */
    NET_LOAD_WRONG_SIZE = -4,    /* truncated, or followed by something else */
    NET_LOAD_CORRUPT = -5        /* the checksum does not fit */
};

/* Bytes of the image, header included. */
uint32_t net_state_size(const net_tensor_t tensors[], int32_t count);

/* Writes the image to `buffer`, which has net_state_size bytes. */
void net_state_save(const net_tensor_t tensors[], int32_t count, uint64_t fingerprint, void *buffer);

/* Checks the whole image, then copies it into the tensors; 0, or one of NET_LOAD_*. */
int net_state_load(const net_tensor_t tensors[], int32_t count, uint64_t fingerprint, const void *buffer, uint32_t bytes);

#endif
