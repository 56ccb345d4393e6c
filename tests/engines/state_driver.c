/* Driver of test_state.py: what saving and loading does to a network, seen from the outside.
 *
 *   train DIR STEPS [FROM [TO]]  loads the image FROM after the initial weights, trains, prints each loss as bits, writes
 *                                the image TO; "-" for no image
 *   load DIR FILE                prints what net_load says about a file
 *   refuse DIR                   no damaged image changes the network, whatever byte is damaged and wherever it is cut
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal_host.h"
#include "net.h"
#include "net_test.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static uint8_t *read_file(const char *folder, const char *name, uint32_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(name[0] == '/' ? name : path, "rb");
    CHECK(file);
    uint8_t *content = malloc(1 << 20);
    *bytes = (uint32_t)fread(content, 1, 1 << 20, file);
    fclose(file);
    return content;
}

static void open_network(const char *folder)
{
    uint32_t bytes;
    uint8_t *weights = read_file(folder, "weights.bin", &bytes), *next = weights;
    CHECK(net_init() == 0);
    for (int i = 0; i < NET_TENSOR_COUNT; i++)
        if (net_tensors[i].role == NET_PARAMETER || net_tensors[i].role == NET_STATE || net_tensors[i].role == NET_CONSTANT) {
            net_write(&net_tensors[i], next);
            next += net_tensors[i].bytes;
        }
    CHECK(next == weights + bytes);
    free(weights);
}

/* Steps count on from `first`, so that a run in two parts sees the data of one in a single part. */
static void train(const uint8_t *data, int first, int steps)
{
    uint32_t batch_bytes = 0;
    for (int i = 0; i < NET_DATA_COUNT; i++)
        batch_bytes += net_tensors[i].bytes;
    int batch = first * TEST_ACCUMULATION;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < TEST_ACCUMULATION; i++, batch++) {
            const uint8_t *next = data + (uint32_t)(batch % TEST_BATCHES) * batch_bytes;
            const void *tensors[NET_DATA_COUNT];
            for (int t = 0; t < NET_DATA_COUNT; next += net_tensors[t++].bytes)
                tensors[t] = next;
            net_step(tensors, i == 0);
            uint32_t loss;
            for (int t = 0; t < NET_TENSOR_COUNT; t++)
                if (net_tensors[t].role == NET_LOSS)
                    net_read(&net_tensors[t], &loss);
            printf("%08" PRIx32 "\n", loss);
        }
        net_update(TEST_LEARNING_RATE);
    }
}

static uint8_t *saved(void)
{
    uint8_t *image = malloc(net_state_bytes());
    net_save(image);
    return image;
}

/* The image is refused and the network is as `before` says. */
static void refused(const uint8_t *image, uint32_t bytes, const uint8_t *before)
{
    /* an exact copy: AddressSanitizer sees a read behind its end */
    uint8_t *exact = malloc(bytes ? bytes : 1);
    memcpy(exact, image, bytes);
    CHECK(net_load(exact, bytes) < 0);
    free(exact);
    uint8_t *now = saved();
    CHECK(!memcmp(now, before, net_state_bytes()));
    free(now);
}

static void refuse(const uint8_t *data)
{
    const uint32_t size = net_state_bytes();
    uint8_t *old = saved();
    train(data, 0, 1);
    uint8_t *new = saved(), *longer = calloc(1, size + 1);
    CHECK(memcmp(old, new, size));
    memcpy(longer, old, size);
    refused(longer, size + 1, new);
    for (uint32_t bytes = 0; bytes < size; bytes++)
        refused(old, bytes, new);
    for (uint32_t at = 0; at < size; at++) {
        const uint8_t right = old[at];
        old[at] ^= (uint8_t)(1u << at % 8);
        refused(old, size, new);
        old[at] = right;
    }
    CHECK(net_load(old, size) == 0);
    CHECK(!memcmp(saved(), old, size));
    /* from any address: a flash page need not begin with the image */
    memmove(longer + 1, old, size);
    CHECK(net_load(longer + 1, size) == 0);
}

int main(int count, char *arguments[])
{
    const hal_host_config_t config = {.l1_capacity = NET_L1_CAPACITY, .l2_capacity = NET_L2_CAPACITY,
                                      .l3_capacity = NET_L3_CAPACITY};
    const char *what = arguments[1], *folder = arguments[2];
    uint32_t bytes;
    CHECK(count >= 3);
    hal_host_configure(&config);
    uint8_t *data = read_file(folder, "data.bin", &bytes);
    open_network(folder);
    if (!strcmp(what, "train")) {
        const bool continued = count > 4 && strcmp(arguments[4], "-");
        const int steps = atoi(arguments[3]);
        if (continued) {
            uint8_t *image = read_file(folder, arguments[4], &bytes);
            CHECK(net_load(image, bytes) == 0);
            /* and again after everything was closed: nothing of the first load may remain */
            net_close();
            open_network(folder);
            CHECK(net_load(image, bytes) == 0);
        }
        train(data, continued ? steps : 0, steps);
        if (count > 5) {
            FILE *file = fopen(arguments[5], "wb");
            CHECK(file && fwrite(saved(), 1, net_state_bytes(), file) == net_state_bytes() && !fclose(file));
        }
    } else if (!strcmp(what, "load")) {
        uint8_t *image = read_file(folder, arguments[3], &bytes);
        printf("%d\n", net_load(image, bytes));
    } else {
        refuse(data);
    }
    net_close();
    return 0;
}
