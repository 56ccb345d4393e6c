/* Learning on the device, played on a PC: a network that was emitted with `deeployRunner ... --out FOLDER` is opened, trained
 * epoch by epoch until its loss has halved, saved, and continued after a "reset" as if nothing had happened.
 *
 *   train_on_pc FOLDER [LEARNING_RATE]
 *
 * Works with any such folder: everything it must know about the network is in net.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hal_host.h" /* for the PC only: its memories shall be no larger than the chip's */
#include "net.h"

#define MAX_EPOCHS 200
#define DEFAULT_RATE 0.05f

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "train_on_pc: %s\n", what);
    exit(1);
}

/* The whole file; where a device has the data in flash or from a sensor, this is a pointer to it. */
static unsigned char *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        fail("weights.bin or data.bin cannot be read; give the folder that --out wrote");
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *content = malloc(*bytes + 1);
    if (!content || fread(content, 1, *bytes, file) != *bytes)
        fail("weights.bin or data.bin cannot be read");
    fclose(file);
    return content;
}

/* init: memory and devices; then all that is not data gets its value. The tensors of weights.bin are in table order. */
static void open_network(const unsigned char *weights)
{
    if (net_init())
        fail("the network does not fit the memories");
    for (int i = 0; i < NET_TENSOR_COUNT; ++i) {
        const net_tensor_t *tensor = &net_tensors[i];
        if (tensor->role == NET_PARAMETER || tensor->role == NET_STATE || tensor->role == NET_CONSTANT) {
            net_write(tensor, weights);
            weights += tensor->bytes;
        }
    }
}

static const net_tensor_t *tensor_of(net_role_t role)
{
    for (int i = 0; i < NET_TENSOR_COUNT; ++i)
        if (net_tensors[i].role == role)
            return &net_tensors[i];
    fail("the network lacks a tensor");
}

/* The data tensors are the first rows of the table; a mini-batch has them one after the other. */
static void point_into(const unsigned char *batch, const void *tensors[], int count)
{
    for (int i = 0; i < count; batch += net_tensors[i++].bytes)
        tensors[i] = batch;
}

/* train: forward, loss, backward and update with the gradients of one mini-batch. Steps of several mini-batches are net_step,
 * with reset = true for the first only, and net_update after the last; a folder that was made for steps of one has only
 * net_train, which needs no memory for sums of gradients. Returns the mean loss.
 */
static double train_epoch(const unsigned char *data, size_t batches, size_t batch_bytes, float rate)
{
    double sum = 0;
    for (size_t i = 0; i < batches; ++i) {
        const void *tensors[NET_DATA_COUNT];
        float loss;
        point_into(data + i * batch_bytes, tensors, NET_DATA_COUNT);
        net_train(tensors, rate);
        net_read(tensor_of(NET_LOSS), &loss);
        sum += (double)loss;
    }
    return sum / (double)batches;
}

/* infer: forward only, with running statistics. Networks from a training directory have none. */
static void print_prediction(const unsigned char *batch)
{
#if NET_INPUT_COUNT > 0
    const net_tensor_t *const prediction = tensor_of(NET_PREDICTION);
    const void *inputs[NET_INPUT_COUNT];
    float *const values = malloc(prediction->bytes);
    if (!values)
        fail("no memory");
    point_into(batch, inputs, NET_INPUT_COUNT);
    net_infer(inputs);
    net_read(prediction, values);
    printf("prediction of the first mini-batch:");
    for (uint32_t i = 0; i < prediction->bytes / sizeof *values && i < 4; ++i)
        printf(" %.4f", (double)values[i]);
    printf("\n");
    free(values);
#else
    (void)batch;
#endif
}

int main(int count, char *arguments[])
{
    if (count < 2)
        fail("usage: train_on_pc FOLDER [LEARNING_RATE]");
    const float rate = count > 2 ? strtof(arguments[2], NULL) : DEFAULT_RATE;
    size_t weight_bytes, data_bytes, batch_bytes = 0, needed = 0;
    unsigned char *const weights = read_file(arguments[1], "weights.bin", &weight_bytes);
    unsigned char *const data = read_file(arguments[1], "data.bin", &data_bytes);
    for (int i = 0; i < NET_TENSOR_COUNT; ++i) {
        const net_tensor_t *tensor = &net_tensors[i];
        if (tensor->role == NET_DATA)
            batch_bytes += tensor->bytes;
        else if (tensor->role == NET_PARAMETER || tensor->role == NET_STATE || tensor->role == NET_CONSTANT)
            needed += tensor->bytes;
    }
    if (weight_bytes != needed || data_bytes < batch_bytes)
        fail("weights.bin or data.bin is not of this network");

    const hal_host_config_t memories = {
        .l1_capacity = NET_L1_CAPACITY, .l2_capacity = NET_L2_CAPACITY, .l3_capacity = NET_L3_CAPACITY};
    hal_host_configure(&memories);
    open_network(weights);
    print_prediction(data);
    double first = 0, loss = 0;
    int epoch = 0;
    do {
        loss = train_epoch(data, data_bytes / batch_bytes, batch_bytes, rate);
        if (epoch++ == 0)
            first = loss;
        if (epoch % 10 == 1)
            printf("epoch %d: mean loss %.4f\n", epoch, loss);
    } while (epoch < MAX_EPOCHS && loss > first / 2);
    printf("epoch %d: mean loss %.4f\n", epoch, loss);
    print_prediction(data);

    /* save: one block of bytes with a checksum, for flash or a file. */
    const uint32_t bytes = net_state_bytes();
    unsigned char *const image = malloc(bytes);
    if (!image)
        fail("no memory");
    net_save(image);
    net_close();
    printf("saved %u bytes\n", (unsigned)bytes);

    /* After a reset the network has its initial weights again, until the image is loaded. A damaged image changes nothing:
     * then we would go on with the initial weights.
     */
    open_network(weights);
    image[bytes - 1] ^= 1;
    printf("a damaged image: net_load returns %d\n", net_load(image, bytes));
    image[bytes - 1] ^= 1;
    printf("the image: net_load returns %d\n", net_load(image, bytes));
    print_prediction(data);
    printf("epoch %d: mean loss %.4f\n", epoch + 1, train_epoch(data, data_bytes / batch_bytes, batch_bytes, rate));

    net_close();
    free(image);
    free(data);
    free(weights);
    return 0;
}
