/* Test driver of every emitted network on a PC: trains with the given data and writes down all that training produces.
 *
 * Reads weights.bin and data.bin, runs `rounds` times {open, load weights, train, close}, and writes out.bin. Per round:
 *
 *   per mini-batch  the loss, all gradient buffers, all state tensors
 *   per update      all parameters
 *   at the end      the prediction of every distinct mini-batch, if the network has inference
 *
 * in table order, raw and without padding. Every round is a full training run from the same start: a run that damages
 * its own tables shows in the second. Counters on stdout, `key value` a line, are those of the last round. Exit status
 * 71: a file or an argument is wrong, or the network did not open.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal_host.h"
#include "net.h"
#include "net_test.h"

#define FAILURE_STATUS 71

typedef struct {
    const char *data_dir, *out;
    unsigned long rounds;
    hal_host_config_t hal;
} options_t;

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "driver: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(FAILURE_STATUS);
}

static unsigned long parse_number(const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        fail("%s %s: not a number", option, text);
    return value;
}

static hal_dma_mode_t parse_dma(const char *text)
{
    static const char *const names[] = {"eager", "lazy", "random"};
    for (int mode = HAL_DMA_EAGER; mode <= HAL_DMA_RANDOM; mode++)
        if (!strcmp(text, names[mode]))
            return (hal_dma_mode_t)mode;
    fail("--dma %s: use eager, lazy or random", text);
}

static options_t parse(int count, char *arguments[])
{
    options_t options = {.data_dir = ".", .out = "out.bin", .rounds = 2};
#ifdef NET_L1_CAPACITY
    options.hal.l1_capacity = NET_L1_CAPACITY;
#endif
#ifdef NET_L2_CAPACITY
    options.hal.l2_capacity = NET_L2_CAPACITY;
#endif
#ifdef NET_L3_CAPACITY
    options.hal.l3_capacity = NET_L3_CAPACITY;
#endif
    for (int i = 1; i < count; i += 2) {
        const char *option = arguments[i];
        if (i + 1 == count)
            fail("%s: unknown or without a value", option);
        const char *value = arguments[i + 1];
        if (!strcmp(option, "--data"))
            options.data_dir = value;
        else if (!strcmp(option, "--out"))
            options.out = value;
        else if (!strcmp(option, "--rounds"))
            options.rounds = parse_number(option, value);
        else if (!strcmp(option, "--dma"))
            options.hal.dma = parse_dma(value);
        else if (!strcmp(option, "--seed"))
            options.hal.seed = parse_number(option, value);
        else
            fail("%s: unknown option", option);
    }
    return options;
}

/* The whole file, which must have exactly `size` bytes. */
static unsigned char *read_file(const char *directory, const char *name, size_t size)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        fail("%s: path too long", directory);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    unsigned char *content = malloc(size + 1);
    if (!content)
        fail("%s: no memory for %zu bytes", path, size);
    size_t found = fread(content, 1, size + 1, file);
    if (ferror(file) || found != size)
        fail("%s: %s than the %zu bytes expected", path, found > size ? "longer" : "shorter", size);
    fclose(file);
    return content;
}

static bool in_weights(const net_tensor_t *tensor)
{
    return tensor->role == NET_PARAMETER || tensor->role == NET_STATE || tensor->role == NET_CONSTANT;
}

static bool in_batch(const net_tensor_t *tensor) { return tensor->role == NET_DATA; }

static size_t bytes_of(bool (*selected)(const net_tensor_t *))
{
    size_t bytes = 0;
    for (int i = 0; i < NET_TENSOR_COUNT; i++)
        if (selected(&net_tensors[i]))
            bytes += net_tensors[i].bytes;
    return bytes;
}

static void write_weights(const unsigned char *weights)
{
    for (int i = 0; i < NET_TENSOR_COUNT; i++) {
        if (!in_weights(&net_tensors[i]))
            continue;
        net_write(&net_tensors[i], weights);
        weights += net_tensors[i].bytes;
    }
}

/* Appends all tensors of a role to the output. */
static void append(FILE *out, net_role_t role)
{
    for (int i = 0; i < NET_TENSOR_COUNT; i++) {
        const net_tensor_t *tensor = &net_tensors[i];
        if (tensor->role != role)
            continue;
        void *content = malloc(tensor->bytes ? tensor->bytes : 1);
        if (!content)
            fail("no memory for %s", tensor->name);
        net_read(tensor, content);
        if (fwrite(content, 1, tensor->bytes, out) != tensor->bytes)
            fail("cannot write the output: %s", strerror(errno));
        free(content);
    }
}

static void run_mini_batch(const unsigned char *batch, bool reset, FILE *out)
{
    const void *data[NET_DATA_COUNT];
    int count = 0;
    for (int i = 0; i < NET_TENSOR_COUNT; i++) {
        if (!in_batch(&net_tensors[i]))
            continue;
        if (count == NET_DATA_COUNT)
            fail("net_tensors has more data than NET_DATA_COUNT");
        data[count++] = batch;
        batch += net_tensors[i].bytes;
    }
    if (count != NET_DATA_COUNT)
        fail("net_tensors has less data than NET_DATA_COUNT");
    net_step(data, reset);
    append(out, NET_LOSS);
    append(out, NET_GRADIENT);
    append(out, NET_STATE);
}

/* Inference on every distinct mini-batch with the trained weights. */
static void run_inference(const unsigned char *data, size_t batch_bytes, FILE *out)
{
#if NET_INPUT_COUNT > 0
    for (int batch = 0; batch < TEST_BATCHES; batch++, data += batch_bytes) {
        const void *inputs[NET_INPUT_COUNT];
        const unsigned char *input = data;
        for (int i = 0; i < NET_INPUT_COUNT; input += net_tensors[i++].bytes)
            inputs[i] = input;
        net_infer(inputs);
        append(out, NET_PREDICTION);
    }
#else
    (void)data;
    (void)batch_bytes;
    (void)out;
#endif
}

static void run_round(const unsigned char *weights, const unsigned char *data, FILE *out)
{
    size_t batch_bytes = bytes_of(in_batch);
    unsigned batch = 0;
    if (net_init())
        fail("net_init: the network does not fit the memories, or a device did not open");
    write_weights(weights);
    for (int step = 0; step < TEST_STEPS; step++) {
        for (int i = 0; i < TEST_ACCUMULATION; i++, batch++)
            run_mini_batch(data + batch % TEST_BATCHES * batch_bytes, i == 0, out);
        net_update(TEST_LEARNING_RATE);
        append(out, NET_PARAMETER);
    }
    run_inference(data, batch_bytes, out);
    net_close();
}

int main(int argument_count, char *arguments[])
{
    options_t options = parse(argument_count, arguments);
    hal_host_configure(&options.hal);
    unsigned char *weights = read_file(options.data_dir, "weights.bin", bytes_of(in_weights));
    unsigned char *data = read_file(options.data_dir, "data.bin", TEST_BATCHES * bytes_of(in_batch));
    FILE *out = fopen(options.out, "wb");
    if (!out)
        fail("%s: %s", options.out, strerror(errno));
    for (unsigned long round = 0; round < options.rounds; round++) {
        hal_host_reset_counters();
        net_stats = (net_stats_t){0};
        run_round(weights, data, out);
    }
    if (fclose(out))
        fail("%s: %s", options.out, strerror(errno));
    free(weights);
    free(data);
    printf("rounds %lu\nmini_batches %d\nupdates %d\n", options.rounds, TEST_STEPS * TEST_ACCUMULATION, TEST_STEPS);
    printf("gather %u\nscatter %u\ntiles %u\n", (unsigned)net_stats.gather, (unsigned)net_stats.scatter,
           (unsigned)net_stats.tiles);
    hal_host_print_counters();
    return 0;
}
