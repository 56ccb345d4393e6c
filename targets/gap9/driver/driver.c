/* Test driver of every emitted network: trains with the given data and writes down all that training produces.
 *
 * Reads weights.bin and data.bin, runs `rounds` times {open, load weights, train, close}, and writes out.bin. Per round:
 *
 *   per mini-batch  the loss, all gradient buffers (none in a fused program), all state tensors
 *   per update      all parameters
 *   at the end      the prediction of every distinct mini-batch, if the network has inference
 *
 * in table order, raw and without padding. Every round is a full training run from the same start: a run that damages
 * its own tables shows in the second. Counters, those of the last round, are printed as `key value` lines. Exit status
 * 71: a file or an argument is wrong, or the network did not open.
 *
 * Tensors pass through a small buffer, so that the driver needs no memory that the plan gives to the network.
 */
#include "driver.h"

#include <stddef.h>

#include "net.h"
#include "net_test.h"

static uint32_t buffer[1024];

static bool in_weights(const net_tensor_t *tensor)
{
    return tensor->role == NET_PARAMETER || tensor->role == NET_STATE || tensor->role == NET_CONSTANT;
}

static bool in_batch(const net_tensor_t *tensor) { return tensor->role == NET_DATA; }

static uint32_t bytes_of(bool (*selected)(const net_tensor_t *))
{
    uint32_t bytes = 0;
    for (int i = 0; i < NET_TENSOR_COUNT; i++)
        if (selected(&net_tensors[i]))
            bytes += net_tensors[i].bytes;
    return bytes;
}

/* Fills a tensor from the open file. */
static void fill(const net_tensor_t *tensor)
{
    for (uint32_t done = 0, part; done < tensor->bytes; done += part) {
        part = tensor->bytes - done < sizeof buffer ? tensor->bytes - done : (uint32_t)sizeof buffer;
        driver_read(buffer, part);
        net_write_part(tensor, done, buffer, part);
    }
}

/* Appends all tensors of a role to the output. */
static void append(net_role_t role)
{
    for (int i = 0; i < NET_TENSOR_COUNT; i++) {
        const net_tensor_t *tensor = &net_tensors[i];
        if (tensor->role != role)
            continue;
        for (uint32_t done = 0, part; done < tensor->bytes; done += part) {
            part = tensor->bytes - done < sizeof buffer ? tensor->bytes - done : (uint32_t)sizeof buffer;
            net_read_part(tensor, done, buffer, part);
            driver_write(buffer, part);
        }
    }
}

static void load_weights(void)
{
    driver_open("weights.bin", bytes_of(in_weights));
    for (int i = 0; i < NET_TENSOR_COUNT; i++)
        if (in_weights(&net_tensors[i]))
            fill(&net_tensors[i]);
    driver_close();
}

/* Fills the first `count` data tensors from a mini-batch of data.bin, which is open. */
static void load_batch(unsigned batch, int count)
{
    driver_seek(batch * bytes_of(in_batch));
    for (int i = 0; i < count; i++)
        fill(&net_tensors[i]);
}

static void run_mini_batch(unsigned batch, bool reset)
{
    static const void *const filled[NET_DATA_COUNT];
    load_batch(batch, NET_DATA_COUNT);
#if NET_FUSED_UPDATE
    (void)reset; /* each mini-batch is a step of its own */
    net_train(filled, TEST_LEARNING_RATE);
#else
    net_step(filled, reset);
#endif
    driver_count(DRIVER_STEP);
    append(NET_LOSS);
    append(NET_GRADIENT);
    append(NET_STATE);
}

/* Inference on every distinct mini-batch with the trained weights. */
static void run_inference(void)
{
#if NET_INPUT_COUNT > 0
    static const void *const filled[NET_INPUT_COUNT];
    for (unsigned batch = 0; batch < TEST_BATCHES; batch++) {
        load_batch(batch, NET_INPUT_COUNT);
        net_infer(filled);
        driver_count(DRIVER_INFER);
        append(NET_PREDICTION);
    }
#endif
}

static void run_round(void)
{
    unsigned batch = 0;
    if (net_init())
        driver_fail("net_init: the network does not fit the memories, or a device did not open");
    load_weights();
    driver_open("data.bin", TEST_BATCHES * bytes_of(in_batch));
    for (int step = 0; step < TEST_STEPS; step++) {
        for (int i = 0; i < TEST_ACCUMULATION; i++, batch++)
            run_mini_batch(batch % TEST_BATCHES, i == 0);
#if !NET_FUSED_UPDATE
        net_update(TEST_LEARNING_RATE);
        driver_count(DRIVER_UPDATE);
#endif
        append(NET_PARAMETER);
    }
    run_inference();
    driver_close();
    net_close();
}

void driver_run(unsigned long rounds)
{
    for (int i = 0; i < NET_TENSOR_COUNT; i++)
        if (in_batch(&net_tensors[i]) != (i < NET_DATA_COUNT))
            driver_fail("net_tensors does not begin with its NET_DATA_COUNT data tensors");
    for (unsigned long round = 0; round < rounds; round++) {
        driver_reset_counters();
        net_stats = (net_stats_t){0};
        run_round();
    }
    driver_print("rounds", rounds);
    driver_print("mini_batches", TEST_STEPS * TEST_ACCUMULATION);
    driver_print("updates", TEST_STEPS);
    driver_print("gather", net_stats.gather);
    driver_print("scatter", net_stats.scatter);
    driver_print("halo", net_stats.halo);
    driver_print("tiles", net_stats.tiles);
}
